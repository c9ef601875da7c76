"""Every value of every JSON and TOML file of a run is replaced by values of other types: named or read, never a crash.

A run that cannot be read is named in its own row; the runs beside it list and open.
"""

import copy
import itertools
import json
import math
import os
import shutil
import tomllib
import zlib
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest
from safetensors.torch import load_file, save

from app.components.words import curves, latest, steps_done
from coder_core import train
from coder_core.api import facts, list_runs, open_run
from coder_core.api.retrieval import graded_tables
from coder_core.api.training import sample_weights
from coder_core.api.training.start import DataSet, teacher_runs
from coder_core.console.faults import InputError
from coder_core.geometry.settings import ClusterSettings, LayoutSettings
from coder_core.runs.analysis.read import open_analysis
from coder_core.runs.derived.compute import clusters_folder, layout_folder, read_clusters, read_layout
from coder_core.runs.derived.graded import GradedMetrics, read_graded, store_graded
from coder_core.runs.load import load_model
from coder_core.runs.record import run_key
from tests.runs.conftest import NOBODY, in_a_child
from tests.support.run_folders import FINISHED_RUNS, overwritten, reseal, write_document, write_run

DATA = f"--data={FINISHED_RUNS / 'data'}"
VALUES = [None, True, math.inf, 10**400, -1, "", [], {}, [[["x"]]]]
ANALYSIS = [f"analysis/dev/{name}.json" for name in ("manifest", "images", "captions", "concepts")]
LISTED = ["config.toml", "manifest.json", "status.json", "history.jsonl", *ANALYSIS]
LOADED = ["config.toml", "words.json", "concepts.json", "best/*/manifest.json"]
pytestmark = pytest.mark.timeout(600)


@pytest.fixture
def root(stored):
    """The two stored runs, and one that must always open."""
    write_run(stored, "good", images=4, pictures=False)
    return stored


def variants(document, values, depth=0):
    """Yield the document with one value, at any depth, replaced by the next of `values`; of like entries only two."""
    items = list(document.items()) if isinstance(document, dict) else list(enumerate(document))
    if isinstance(document, list) or (depth and {type(part) for _, part in items} in ({dict}, {float})):
        items = items[:2]
    for key, part in items:
        replacements = [copy.deepcopy(next(values))]
        if isinstance(part, dict | list):
            replacements.extend(variants(part, values, depth + 1))
        for value in replacements:
            changed = copy.copy(document)
            changed[key] = value
            yield changed


def attempt(read):
    """Call `read` and accept an input error; any other exception fails the test."""
    with suppress(InputError):
        read()


def use(root, name):
    """List everything and read the small files of one run as pages and commands do."""
    runs = {run.name: run for run in list_runs(root)}
    assert set(runs) >= {"good", name}
    assert (runs["good"].fault, runs["good"].state) == ("", "finished")
    for run in runs.values():
        facts(run)
        steps_done(run)
        assert all(math.isfinite(value) for metrics in run.metrics.values() for value in metrics.values())
    teacher_runs(list(runs.values()), "demo", DataSet("demo", "demo"), {})
    with suppress(InputError):
        opened = open_run(root / name)
        latest(opened.history)
        curves([opened.history, opened.steps])
        assert opened.loss.temperature > 0
        parts = (opened.concepts, opened.captions, partial(sample_weights.weighting, opened))
        for part in (*parts, partial(opened.picture, image=0)) if "dev" in opened.splits else ():
            attempt(partial(part, "dev"))


def harm(file, use):
    """Write every variant of a file that can be written, call `use` after each, and return their number."""
    before = {path: path.read_bytes() for path in file.parent.iterdir() if path.is_file()}
    unwritable = {"config.toml": None, "manifest.json": math.inf}.get(file.name, "every value can be written")
    texts = [before[file].decode()]
    if file.suffix == ".jsonl":
        texts = list({json.loads(line)["event"]: line for line in texts[0].splitlines()}.values())

    count = 0
    values = [value for value in VALUES if value != unwritable]
    for text in texts:
        document = tomllib.loads(text) if file.suffix == ".toml" else json.loads(text)
        if isinstance(document, dict):
            document.pop("crc", None)  # `write_document` adds it
        for variant in [*values, *variants(document, itertools.cycle(values))]:
            try:
                write_document(file, variant)
            except (TypeError, ValueError, AttributeError):  # TOML has no null, a manifest no infinity
                continue
            count += 1
            try:
                use()
            except Exception as error:
                raise AssertionError(f"{file}: {variant!r:.2000}") from error

    for path, content in before.items():
        path.write_bytes(content)

    return count


@pytest.mark.parametrize(
    ("name", "file"),
    [("whole", file) for file in dict.fromkeys([*LISTED, *LOADED])]
    + [("weighted", "analysis/dev/weighting.json")],
)
def test_values_of_another_type_crash_no_reader(root, name, file):
    """The run is listed and shown beside another, or its model is loaded, if these read the file."""
    for other in {"whole", "weighted"} - {name}:
        shutil.rmtree(root / other)
    [path] = (root / name).glob(file)

    def read():
        if file not in LOADED or file in LISTED:
            use(root, name)
        if file in LOADED:
            attempt(lambda: load_model(root / name))

    assert harm(path, read) > 5


def test_corrupted_derived_results_are_read_or_named(root):
    run = root / "whole"
    analysis = open_analysis(run, "dev")
    layout = layout_folder(run, "dev", LayoutSettings("pca"), analysis)
    clusters = clusters_folder(run, "dev", ClusterSettings(4), analysis)
    assert harm(layout.path / "manifest.json", lambda: attempt(lambda: read_layout(layout))) > 20
    assert harm(clusters.path / "manifest.json", lambda: attempt(lambda: read_clusters(clusters))) > 20
    (file := root / "q.txt").touch()
    ends = {f"t2i_qrels_{key}": 7.0 for key in ("queries", "ndcg@10", "ndcg@10_low", "ndcg@10_high")}
    store_graded(run, "dev", str(file), "0" * 64, GradedMetrics("queries: 7 captions", ["ndcg@10"], ends))
    [folder] = (run / "derived" / "dev").glob("qrels-*")

    def read_tables():
        graded_tables({"whole": read_graded(run, "dev", analysis)})

    assert harm(folder / "manifest.json", lambda: attempt(read_tables)) > 20
    [(of_file, table)] = graded_tables({"whole": read_graded(run, "dev", analysis)})
    assert (of_file.file, table["nDCG@10"].tolist()) == ("q.txt", [(7.0,) * 3])


def test_keys_that_are_slow_to_parse_are_refused(root):
    """Parsing a key with 50,000 dots takes a minute, even in a small file; a file of many keys is too large."""
    config = root / "whole" / "config.toml"
    faults = {"nested too deeply": ".".join("a" * 10_000) + " = 1", "at most 32,768": "a.b.c = 1\n" * 4_000}
    for fault, text in faults.items():
        config.write_text(text)
        reseal(root / "whole")
        assert fault in next(run.fault for run in list_runs(root) if run.name == "whole")
        attempt(lambda: load_model(root / "whole"))
        use(root, "whole")


def test_an_invalid_process_id_is_named(root):
    key = run_key(root / "whole")
    for pid in ("1e400", "-1", '"x"', "99999999999999999999999", "null", "true"):
        status = f'{{"state":"running","pid":{pid},"started":1.0,"host":"{os.uname().nodename}"}}'
        # an attacker can write a matching checksum
        checksum = f"{zlib.crc32(status.encode(), zlib.crc32(key.encode())):08x}"
        (root / "whole" / "status.json").write_text(f'{status[:-1]},"crc":"{checksum}"}}')
        assert "status.json key pid: is" in next(run.fault for run in list_runs(root) if run.name == "whole")
    use(root, "whole")


def test_states_with_invalid_values_or_missing_moments_are_not_resumed(root, complaint):
    newest = max((root / "whole" / "state").iterdir(), key=lambda path: int(path.name))
    tensors = load_file(newest / "optimizer.safetensors")
    moment, step = (next(key for key in tensors if key.endswith(end)) for end in (".exp_avg", ".step"))
    scalar = tensors | {moment: tensors[step].clone()}
    del tensors[moment]
    position = json.loads((newest / "position.json").read_text())
    values = [[], *(position | change for change in ({"step": -1}, {"best": []}, {"loss_sum": []}))]
    contents = [("position.json", json.dumps(value).encode()) for value in values]
    contents += [("circumstances.json", b"null")]
    contents += [("optimizer.safetensors", save(moments)) for moments in (tensors, scalar)]
    for name, content in contents:
        with overwritten(newest / name, content):
            reseal(newest)
            assert str(newest / name) in complaint(train.main, ["--resume", str(root / "whole"), DATA])


def listed_and_opened(root):
    lines = []
    for run in list_runs(root):
        lines.append(f"{run.name} {run.state} {run.fault}")
        with suppress(InputError):
            lines.append(f"{run.name} opens {len(open_run(run.path).captions('dev'))}")
    return lines


@pytest.mark.parametrize("place", [".", "analysis", "analysis/dev", "config.toml", "status.json"])
def test_an_unreadable_folder_is_named_in_its_own_row(root, public_folder, place):
    """If root runs the tests, who may read everywhere, another user lists the runs."""
    root = Path(shutil.copytree(root, public_folder / "runs"))
    closed = root / "whole" / place
    mode = closed.stat().st_mode
    closed.chmod(0)
    printed = in_a_child(lambda: "\n".join(listed_and_opened(root)), user=NOBODY)
    closed.chmod(mode)
    *lines, damaged = printed.splitlines()[:5]
    assert lines == ["good finished ", "good opens 20", "weighted finished ", "weighted opens 40"], printed
    assert damaged.startswith("whole damaged ")
    assert str(closed) in damaged
    assert "ermission denied" in damaged


def test_a_damaged_history_is_reported_on_resume(root, capsys):
    history = root / "whole" / "history.jsonl"
    lines = history.read_text().splitlines(keepends=True)
    for kept, fault in ((lines, ""), (lines[:3], "lacks 2 of 3")):
        history.write_text("".join(kept))
        assert train.main(["--resume", str(root / "whole"), DATA]) == 0
        printed = " ".join(capsys.readouterr().out.split())
        assert fault in printed
        assert (str(history) in printed.replace(" ", "")) == bool(fault), printed
