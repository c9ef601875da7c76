"""The table of losses: every loss against its loop, as a module; a user's own loss in every command; stable imports."""

import csv
import inspect
import json
import os
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest
import torch
from torch.autograd import gradcheck

from coder_core import objectives
from coder_core.ablate import main as ablate
from coder_core.config.schema import Config, to_document
from coder_core.objectives import LOSSES, make_loss
from coder_core.objectives.table import load_own_losses, register_loss
from coder_core.ops import normalise
from coder_core.runs.record import read_history
from tests.reference import losses, step
from tests.reference.pairs import kept, negatives, transposed
from tests.support.tiny_runs import write_tiny_data

IDS = [0, 0, 1, 2, 3]
ROOT = Path(__file__).resolve().parents[2]
VALUES = {"margin": 0.3, "npairs_margin": 0.3, "temperature": 0.2, "logit_bias": -1.0, "weight_instance": 1.0}
VALUES["diversity_gradient"] = True  # finite differences see it too


def dcl(*of, diversity=1.0):
    return losses.diversity_contrastive(*of, temperature=0.2, diversity=diversity)


LOOPS = {
    "btr-sum": lambda *of: losses.triplet_sum(*of, margin=0.3),
    "btr-hardest": lambda *of: losses.triplet_hardest(*of, margin=0.3),
    "npairs-hinge": lambda *of: losses.triplet_sum(*of, margin=0.3) / (2 * len(IDS)),
    "infonce": lambda *of: losses.info_nce(*of, temperature=0.2),
    "sigmoid": lambda *of: losses.pairwise_sigmoid(*of, scale=5.0, bias=-1.0),
    "cmpm": lambda *of: losses.projection_matching(*of, temperature=0.2),
    "polynomial": lambda *of: losses.polynomial_hardest(*of, margin=0.3),
    "dcl-i": dcl,
    "dcl": dcl,
}
"""Loss of one anchor, from the scores of its negatives and of its positive; dcl also takes its diversity."""

OWN = """
import torch
from coder_core.objectives import register_loss

def squared(scores, positive_scores, negatives, *, margin):
    too_near = torch.where(negatives, (scores - margin).clamp_min(0) ** 2, 0.0)
    return (1 - positive_scores) ** 2 + too_near.sum(1)

register_loss("squared", squared, about="a loss of one's own", margin="margin")
"""
USE_IT = """
import json
import sys
from pathlib import Path

import pytest

from coder_core.ablate import main
from coder_core.ablation.planning import Basis, plan
from coder_core.ablation.rows import read_grid
from coder_core.config.schema import settings
from coder_core.training.launch import start_run
from tests.app.test_train_page import fill
from tests.support.pages import open_page
from tests.support.tiny_runs import quiet

data, grid, root = map(Path, sys.argv[1:4])
with pytest.MonkeyPatch.context() as patch:
    patch.setenv("CODER_DATA", str(data.parent))
    root.mkdir()
    app = open_page(patch, root, "train")
    fill(app, preset="demo-baseline", loss="squared")
    print(app.code[0].value)
print(*settings()["loss"].choices)
values = json.loads(sys.argv[4]) | {"data": str(data)}
table = read_grid(grid)
basis = Basis("demo-baseline", values, root)
start_run(plan(table, table.rows, [0], basis)[1].config, root, quiet())
flags = [f"--{name}={value}" for name, value in values.items()]
raise SystemExit(main([str(grid), "--preset=demo-baseline", f"--root={root}", *flags]))
"""
"""Choose the loss in the form, list all losses, and train a grid of it: one run here, the other in its process."""


def by_loops(name, images, texts, ids=IDS):
    """Return the mean over the pairs of both directions' losses."""
    rows = (normalise(images) @ normalise(texts).T).tolist()
    total = 0.0
    for way in (rows, transposed(rows)):
        side = step.Side(way, [way[i][i] for i in range(len(ids))], ids, 0)
        weights = step.anchor_diversity(side, None, ids, kind="std") if name == "dcl" else [None] * len(ids)
        for i, mask in enumerate(negatives(ids, ids)):
            named = {"diversity": weights[i]} if name == "dcl" else {}
            total += LOOPS[name](kept(way[i], mask), way[i][i], **named)
    return total / len(ids)


@pytest.mark.parametrize("name", LOSSES)
def test_every_loss_of_the_table_has_a_loop_and_equals_it(name):
    """A new loss fails here until `LOOPS` has its equation as a loop over Python floats."""
    assert name in LOOPS, f"write {name} as a loop in tests/reference/losses.py and add it to LOOPS"
    module = make_loss(name, VALUES).double()
    images, texts = torch.randn(2, len(IDS), 4, generator=torch.Generator().manual_seed(2)).double()
    ids = torch.tensor(IDS)
    assert module(images, texts, ids).item() == pytest.approx(by_loops(name, images, texts), rel=1e-10)
    rows = images.requires_grad_(), texts.requires_grad_()
    assert gradcheck(lambda *sides: module(*sides, ids), rows)


def test_the_table_says_what_a_loss_reads():
    """Facts of the table and the modules agree."""
    for name, entry in LOSSES.items():
        module = make_loss(name, VALUES | {"bank_size": 4, "dimension": 3})
        assert (getattr(module, "bank", None) is not None) == entry.reads_bank, name
        assert bool(list(module.parameters())) == entry.always_learns_scale, name
        learned = make_loss(name, VALUES | {"learn_scale": True})
        assert bool(list(learned.parameters())) == entry.scaled, name
        assert entry.warm_up in ("", *LOSSES)
    with pytest.raises(ValueError, match="'My loss' cannot name a loss"):
        register_loss("My loss", objectives.triplet_sum)
    with pytest.raises(RuntimeError, match="'mine' is registered too late: name its file in CODER_LOSSES"):
        register_loss("mine", objectives.triplet_sum)


def test_modules_are_not_hidden_behind_functions_of_their_name():
    for name in ("diversity_contrastive", "diversity", "triplet", "complementary", "prototypes"):
        module = import_module(f"coder_core.objectives.{name}")
        assert module is getattr(objectives, name)
        assert module.__name__ == f"coder_core.objectives.{name}"
    assert callable(objectives.diversity_contrastive.diversity_contrastive)
    assert callable(objectives.diversity.diversity_entropy)
    with pytest.raises(ImportError):
        exec("from coder_core.objectives import no_such_loss")


def run(*command, own, **options):
    """Run a command in a new process with the user's file of losses."""
    variables = os.environ | {"CODER_LOSSES": str(own), "PYTHONPATH": str(ROOT)}
    whole = [sys.executable, *map(str, command)]
    return subprocess.run(whole, env=variables, capture_output=True, text=True, check=False, **options)


def test_a_loss_of_a_users_file_is_in_the_form_and_trains_in_a_grid_whose_report_needs_no_file(tmp_path):
    """The report is written without the file that registers the loss, as from runs of a fork or of a newer version."""
    own = tmp_path / "my_losses.py"
    own.write_text(OWN)
    data = write_tiny_data(tmp_path / "data" / "tiny")
    grid = tmp_path / "mine.toml"
    grid.write_text('[grid]\nloss = ["squared"]\nmargin = [0.1, 0.3]\n')
    root = tmp_path / "runs"
    values = {
        "epochs": 1,
        "batch-size": 8,
        "dimension": 8,
        "word-threshold": 1,
        "threads": 1,
        "device": "cpu",
    }
    ran = run("-c", USE_IT, data, grid, root, json.dumps(values), own=own)
    assert ran.returncode == 0, ran.stderr
    assert "--loss=squared" in ran.stdout
    assert " ".join([*LOSSES, "squared"]) in ran.stdout.splitlines()
    names = {"loss-squared-margin-0.1", "loss-squared-margin-0.3"}
    for name in names:
        steps = [
            line for line in read_history(root / f"{name}-s0" / "history.jsonl") if line["event"] == "step"
        ]
        assert list(steps[0]["losses"]) == ["squared"]
    assert rows_of_results(root) == names
    (root / "results.csv").unlink()
    assert ablate([str(grid), "--report", f"--root={root}"]) == 0
    assert rows_of_results(root) == names


def rows_of_results(root):
    """Return the names of the rows of results.csv."""
    with (root / "results.csv").open(encoding="utf-8") as file:
        return {line["row"] for line in csv.DictReader(file)}


def test_a_missing_file_of_losses_is_named(tmp_path):
    ran = run("-m", "coder_core.train", "coder-demo", own=tmp_path / "none.py")
    assert ran.returncode == 1
    assert "CODER_LOSSES" in ran.stderr + ran.stdout
    assert "none.py" in ran.stderr + ran.stdout


@pytest.mark.parametrize("name", LOSSES)
def test_losses_have_the_defaults_of_the_settings(name):
    """`weight_batch` is the branch's, whose default follows from the branch; a width has no usual value."""
    sections = [section for section in to_document(Config()).values() if isinstance(section, dict)]
    usual = {key: value for section in sections for key, value in section.items()}
    parameters = inspect.signature(LOSSES[name].load()).parameters
    settings = {keyword: key for keyword, key in LOSSES[name].settings.items() if key in usual}
    assert settings
    for keyword, key in settings.items():
        default = parameters[keyword].default if keyword in parameters else None
        if default not in (None, inspect.Parameter.empty):
            assert default == usual[key], keyword


def test_a_file_of_losses_that_fails_is_named_with_its_error(tmp_path, monkeypatch):
    bad = tmp_path / "bad.py"
    bad.write_text(f"raise KeyError('{'x' * 400}')\n")
    good = tmp_path / "good.py"
    good.write_text("")
    monkeypatch.setenv("CODER_LOSSES", os.pathsep.join(["", str(good), str(bad)]))
    failed = load_own_losses()
    assert list(failed) == [str(bad)]
    assert failed[str(bad)] == f"KeyError: '{'x' * 299}"


def test_settings_tell_which_loss_they_change():
    assert LOSSES["dcl"].reads("gamma")
    assert not LOSSES["btr-sum"].reads("gamma")
    assert LOSSES["btr-hardest"].load() is objectives.triplet_hardest
