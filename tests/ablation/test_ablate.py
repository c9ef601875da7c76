"""A whole table on a tiny data set: run, interrupted, resumed, reported, refused."""

import csv
import os
import shutil
import signal
import threading
from itertools import product

import numpy as np
import pytest

from coder_core.ablate import main
from coder_core.ablation.papers import TABLES
from coder_core.ablation.planning import Basis, plan
from coder_core.ablation.results import METRICS, collect_results
from coder_core.ablation.writing import comma_separated, figure, markdown
from coder_core.console.processes import is_written, start_process
from coder_core.console.tables import DIRECTIONS, GRADED
from coder_core.evaluate import main as evaluate
from coder_core.queue.planned import commands, is_evaluated, state_of
from coder_core.queue.running import run_all
from coder_core.runs.analysis.read import open_analysis
from coder_core.runs.load import read_config
from coder_core.runs.record import read_status
from coder_core.runs.saves import SaveStore
from coder_core.training.launch import start_run
from tests.support.precomp_folders import assert_refused
from tests.support.tiny_runs import quiet, write_tiny_data

# No bank or prototypes: the rows of "objectives" set them themselves, and a flag that changes no row is refused.
OBJECTIVES = {"word-threshold": 1, "batch-size": 8, "epochs": 1, "dimension": 8}
OBJECTIVES |= {"word-size": 6, "word-vectors": "random", "threads": 1, "device": "cpu", "warmup-steps": 0}


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = write_tiny_data(tmp_path_factory.mktemp("data"))
    for part in ("ims.npy", "caps.txt"):
        shutil.copy(folder / f"dev_{part}", folder / f"test_{part}")
    return folder


def flags(values):
    return [f"--{flag}={value}" for flag, value in values.items()]


def command(data, root, *more):
    places = [f"--data={data}", f"--root={root}"]
    return ["objectives", *places, *flags(OBJECTIVES), "--rows", "infonce", "dcl", *more]


def sums(table, row, metric="rsum"):
    """Return R@sum, or another metric, of both seeds."""
    return [open_analysis(table / f"{row}-s{seed}", "dev").metrics[metric] for seed in (0, 1)]


def differences(table, root, reference=""):
    rows = collect_results(TABLES[table], root, "dev", reference=reference).rows
    return {row.row.name: row.against for row in rows}


def planned(data, root, seed, rows=("infonce", "dcl"), **values):
    table = TABLES["objectives"]
    overrides = {**OBJECTIVES, "data": str(data), **values}
    return plan(table, table.choose(rows), [seed], Basis("coder-flickr8k", overrides, root))


@pytest.fixture(scope="module")
def table(data, tmp_path_factory):
    """Two rows, two seeds; all runs were finished before the command ran."""
    root = tmp_path_factory.mktemp("table") / "objectives"
    for run in (*planned(data, root, 0), *planned(data, root, 1)):
        start_run(run.config, root, quiet())
    assert main(command(data, root, "--seeds", "0", "1", "--jobs=2", "--reference=dcl")) == 0
    return root


@pytest.fixture
def copied(table, tmp_path):
    return shutil.copytree(table, tmp_path / "copied")


def test_every_row_and_seed_trains_an_ordinary_run(table):
    runs = {path.name for path in table.iterdir() if (path / "config.toml").is_file()}
    assert runs == {"infonce-s0", "infonce-s1", "dcl-s0", "dcl-s1"}
    for name in runs:
        config, _ = read_config(table / name)
        assert state_of(table / name) == "finished"
        values = config.objective.loss, config.memory.bank_size, config.training.seed
        assert values == (name.split("-")[0], 0, int(name[-1]))


def test_result_tables_contain_means_spreads_and_paper_values(table):
    mean = np.mean(sums(table, "infonce"))
    spread = np.std(sums(table, "infonce"), ddof=1)
    rows = {row["row"]: row for row in csv.DictReader((table / "results.csv").open(encoding="utf-8"))}
    assert set(rows) == {"infonce", "dcl"}
    for metric in METRICS:
        expected = np.mean(sums(table, "infonce", metric))
        assert float(rows["infonce"][f"{metric}_mean"]) == pytest.approx(expected, abs=1e-3)
    assert float(rows["infonce"]["rsum_std"]) == pytest.approx(spread, abs=1e-3)
    assert (rows["infonce"]["seeds"], rows["infonce"]["reference"]) == ("0 1", "dcl")
    assert float(rows["dcl"]["paper_rsum"]) == pytest.approx(81.9 + 95.6 + 97.9 + 61.5 + 85.8 + 91.8)
    text = (table / "results.md").read_text("utf-8")
    assert all(f"{np.mean(sums(table, 'infonce', metric)):.1f} ± " in text for metric in METRICS)
    assert f"{mean:.1f} ± {spread:.1f}" in text
    assert "table 2 #2: 81.9 / 95.6 / 97.9 · 61.5 / 85.8 / 91.8" in text
    assert ": btr-sum, btr-hardest, infonce-scale, sigmoid, dcl-i." in text  # not finished
    latex = (table / "results.tex").read_text("utf-8")
    assert latex.count(r"\\") == 4
    assert rf"${mean:.1f} \pm" in latex


def test_finished_runs_are_not_run_again(copied, data, capsys):
    before = {path: path.stat().st_mtime_ns for path in copied.glob("*/history.jsonl")}
    assert (len(before), main(command(data, copied, "--seeds", "0", "1"))) == (4, 0)
    assert {path: path.stat().st_mtime_ns for path in copied.glob("*/history.jsonl")} == before
    (copied / "results.md").unlink()
    assert main(["objectives", "--report", f"--root={copied}"]) == 0
    assert (copied / "results.md").is_file()
    shown = capsys.readouterr().out.split()
    for row, way, key in product(("infonce", "dcl"), DIRECTIONS, GRADED):
        assert f"{np.mean(sums(copied, row, f'{way}_{key}')):.1f}" in shown


def test_an_existing_run_with_other_settings_is_refused(table, data, complaint):
    message = complaint(main, [*command(data, table), "--temperature=0.5"])
    assert "objective.temperature 0.05 (now 0.5)" in message
    assert "--root" in message


def test_finished_runs_can_be_evaluated_on_another_split(copied, data):
    assert main([*command(data, copied)[:-2], "dcl", "--split=test"]) == 0
    assert is_evaluated(copied / "dcl-s0", "test")
    assert " on test" in (copied / "results.md").read_text("utf-8")


def interrupt(run, ended):
    """Send this process SIGTERM once the run has taken ten steps."""
    while not ended.wait(0.1):
        if run.is_dir() and (read_status(run) or {}).get("step", 0) >= 10:
            os.kill(os.getpid(), signal.SIGTERM)
            return


def test_an_interrupted_table_can_be_continued(data, tmp_path, capsys):
    """The current run saves, the command prints how to continue, and running it again continues."""
    root = tmp_path / "stopped"
    ended = threading.Event()
    threading.Thread(target=interrupt, args=(root / "infonce-s0", ended), daemon=True).start()
    try:
        assert main(command(data, root, "--epochs=4000")) == 3
    finally:
        ended.set()
    assert "coder-lab ablate objectives" in " ".join(capsys.readouterr().out.split())
    status = read_status(root / "infonce-s0") or {}
    assert status["state"] == "stopped"
    assert status["step"] >= 10
    assert not (root / "dcl-s0").exists()
    left = planned(data, root, 0, epochs=4000)
    assert [state_of(run.folder) for run in left] == ["begun", "new"]
    assert ["--resume" in commands(run, "dev")[0] for run in left] == [True, False]


def test_training_that_outlives_its_command_is_waited_for(data, copied, tmp_path):
    """A training survives SIGKILL of its command; here a process simulates it by moving the finished run into place."""
    run = copied / "infonce-s0"
    log = copied / "logs" / "infonce-s0.log"
    log.parent.mkdir()
    go = tmp_path / "go"
    aside = run.rename(tmp_path / "aside")
    script = 'while [ ! -e "$2" ]; do sleep 0.1; done; mv "$0" "$1"'
    start_process(["sh", "-c", script, str(aside), str(run), str(go)], log)
    assert is_written(log)
    progress, interrupted = run_all(planned(data, copied, 0), "dev", tell=lambda progress: go.touch())
    assert ([done.folder for done in progress.done], interrupted) == ([copied / "dcl-s0", run], False)
    assert log.read_text() == ""  # no other process was started for this run
    assert not is_written(log)


def test_a_failed_run_is_reported_and_the_others_train_in_their_own_processes(data, tmp_path, capsys):
    root = tmp_path / "failing"
    path = tmp_path / "mine.toml"
    rows = '[[rows]]\nname = "bad"\nword-vectors = "/nowhere/glove.txt"\n[[rows]]\nname = "good"\nword-vectors = "random"\n'
    path.write_text(rows, "utf-8")
    values = OBJECTIVES | {"concepts": 0, "bank-size": 16, "prototypes": 4, "data": data, "root": root}
    del values["word-vectors"]
    assert main([str(path), *flags(values), "--reference=good", "--jobs=2"]) == 1
    out = capsys.readouterr().out.replace("\n", "")
    assert "bad-s0" in out
    assert "logs/bad-s0.log" in out
    assert "nowhere" in (root / "logs" / "bad-s0.log").read_text("utf-8")
    assert state_of(root / "good-s0") == "finished"
    assert "coder-lab train coder-flickr8k" in read_config(root / "good-s0")[1]["command"]
    assert (root / "logs" / "good-s0.log").stat().st_size > 0


def test_dry_run_writes_nothing_and_no_arguments_list_the_tables(data, tmp_path, capsys):
    assert main(command(data, tmp_path / "none", "--dry-run")) == 0
    assert "--loss=infonce" in capsys.readouterr().out
    assert not (tmp_path / "none").exists()
    assert main([]) == 0
    out = capsys.readouterr().out
    assert [name for name in TABLES if name not in out] == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["tables"], "one of components, diversity-configuration"),
        (["objectives", "--preset=coder"], "one of demo-baseline"),
        (["objectives", "--seed=1"], "--seeds 0 1 2"),
        (["objectives", "--name=x"], "--name"),
        (["objectives", "--rows", "none"], "one of btr-sum"),
        (["objectives", "--report", "--reference=none", "--root=/nowhere"], "one of btr-sum"),
        (["objectives", "--report", "--root=/nowhere"], "has no finished run of objectives"),
        (["objectives", "--data=nowhere", "--rows", "infonce"], "error: nowhere: "),
    ],
)
def test_errors_for_invalid_requests_name_valid_ones(arguments, message, complaint):
    assert message in complaint(main, arguments)


def test_rows_are_compared_on_shared_seeds(table, copied):
    """If they share no seed, all seeds are used."""
    (first, second) = sums(table, "dcl")
    (_, other) = sums(table, "infonce")
    for left_out, shared in (("infonce-s0", second), ("dcl-s1", first)):
        shutil.rmtree(copied / left_out)
        against = differences("objectives", copied, "dcl")["infonce"]
        assert (against.mean, against.seeds) == (pytest.approx(other - shared, abs=1e-6), False)


def test_a_row_is_compared_with_its_own_reference(table, tmp_path):
    def copy(row, name):
        for seed in (0, 1):
            shutil.copytree(table / f"{row}-s{seed}", tmp_path / f"{name}-s{seed}")

    for row, name in (("infonce", "dcl-i-40"), ("dcl", "dcl-40"), ("dcl", "btr-0")):
        copy(row, name)
    results = collect_results(TABLES["ambiguity"], tmp_path, "dev")
    against = {row.row.name: row.against for row in results.rows}
    assert against["dcl-i-40"] is None
    assert against["btr-0"] is None  # dcl-i-0 was not run
    expected = np.mean(sums(table, "dcl")) - np.mean(sums(table, "infonce"))
    assert against["dcl-40"].mean == pytest.approx(expected, abs=1e-6)
    text = markdown(results, "command")
    assert TABLES["ambiguity"].compared_with in text
    assert "Not finished: infonce-0, " in text  # 12 of the 21 are named
    assert ", and 9 more." in text
    drawn = [trace for trace in figure(results).data if trace.xaxis == "x2" and trace.x]
    assert [(list(trace.x), list(trace.y)) for trace in drawn] == [(["40"], [against["dcl-40"].mean])]
    copy("dcl", "dcl-i-0")
    against = differences("ambiguity", tmp_path)
    assert against["dcl-i-40"] is None  # no other DCL_I row has its share
    assert against["btr-0"] is not None
    references = {"": ["dcl-i-0", "dcl-i-0", "dcl-i-40", "dcl-i-40"], "btr-0": ["btr-0"] * 4}
    for name, expected_names in references.items():
        lines = comma_separated(
            collect_results(TABLES["ambiguity"], tmp_path, "dev", reference=name)
        ).splitlines()
        assert [line["reference"] for line in csv.DictReader(lines)] == expected_names


def test_runs_of_other_settings_are_not_compared(table, copied, data, tmp_path, complaint):
    """The other run is of another row or seed, planned or finished; a report refuses it too."""
    for more in (["--rows", "sigmoid"], ["--seeds", "2"]):
        message = complaint(main, [*command(data, table), *more, "--epochs=2"])
        assert "training.epochs 1 and 2" in message
    planned_run, _ = planned(data, tmp_path / "longer", 2, epochs=2)
    start_run(planned_run.config, copied, quiet())
    message = complaint(main, ["objectives", "--report", f"--root={copied}"])
    assert "infonce-s2: has other settings" in message
    # a row may start from the preset made for its loss
    [tuned] = planned(data, table, 0, ["btr-hardest"])
    assert tuned.preset == "flickr8k-baseline"


def test_a_model_evaluated_before_its_last_best_epoch_does_not_count(copied):
    weights = SaveStore(copied / "dcl-s0" / "best", keep=1)
    weights.write("999", {"model": weights.newest().tensors("model")}, {"metrics": {"metrics": {}}})
    rows = {row.row.name: row.seeds for row in collect_results(TABLES["objectives"], copied, "dev").rows}
    assert rows == {"infonce": (0, 1), "dcl": (1,)}


def test_runs_on_different_data_are_not_compared(copied, tmp_path):
    shutil.rmtree(copied / "dcl-s0" / "analysis" / "dev")
    smaller = write_tiny_data(tmp_path / "smaller", images=15)
    assert evaluate([str(copied / "dcl-s0"), f"--data={smaller}"]) == 0
    message = r"dcl-s\d: .*dcl-s\d|dcl-s\d: .*infonce-s\d"
    assert_refused(message, collect_results, TABLES["objectives"], copied, "dev", reference="dcl")


def test_a_root_that_cannot_contain_the_results_is_refused(tmp_path, complaint):
    (tmp_path / "file").write_text("")
    (tmp_path / "runs" / "results.md").mkdir(parents=True)
    culprits = {"file/runs": f"{tmp_path / 'file'} is a file", "runs": "results.md: is a folder"}
    for root, culprit in culprits.items():
        assert culprit in complaint(main, ["objectives", "--data=missing", f"--root={tmp_path / root}"])
    assert [path.name for path in (tmp_path / "runs").iterdir()] == ["results.md"]
