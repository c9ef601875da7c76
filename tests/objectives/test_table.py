"""The table of losses: every loss against its loop, as a module; a user's own loss in every command; stable imports."""

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
from coder_core.objectives import LOSSES, make_loss
from coder_core.objectives.table import register_loss
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

register_loss("squared", squared, margin="margin")
"""


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


def test_a_loss_of_a_users_file_trains_alone_and_in_a_grid_and_is_in_the_form(tmp_path):
    own = tmp_path / "my_losses.py"
    own.write_text(OWN)
    data = write_tiny_data(tmp_path / "data")
    flags = ["--data", data, "--root", tmp_path / "runs", "--epochs", "1", "--batch-size", "8"]
    flags += ["--dimension", "8", "--word-threshold", "1", "--threads", "1", "--bank-size", "0"]
    ran = run(
        "-m", "coder_core.train", "demo-baseline", "--loss", "squared", "--name", "own", *flags, own=own
    )
    assert ran.returncode == 0, ran.stderr
    [event] = [
        event
        for event in read_history(tmp_path / "runs" / "own" / "history.jsonl")
        if event["event"] == "step"
    ]
    assert list(event["losses"]) == ["squared"]
    grid = tmp_path / "grid.toml"
    grid.write_text('[grid]\nloss = ["squared", "infonce"]\n')
    program = "from coder_core.config.schema import settings; import json, sys; "
    program += "from coder_core.ablation.rows import read_grid; from pathlib import Path; "
    program += "print(json.dumps([settings()['loss'].choices, len(read_grid(Path(sys.argv[1])).rows), 'torch' in sys.modules]))"
    listed = run("-c", program, grid, own=own)
    assert listed.returncode == 0, listed.stderr
    choices, rows, _ = json.loads(listed.stdout)
    assert choices == [*LOSSES, "squared"]
    assert rows == 2
    unknown = run("-m", "coder_core.train", "coder-demo", own=tmp_path / "none.py")
    assert unknown.returncode == 1
    assert "CODER_LOSSES" in unknown.stderr + unknown.stdout
    assert "none.py" in unknown.stderr + unknown.stdout
