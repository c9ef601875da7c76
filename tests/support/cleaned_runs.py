"""Data whose captions tell what is shown, and runs on it that are cleaned before they train."""

import numpy as np

from coder_core.api import open_run
from coder_core.cleaning import Origin, scorer_runs
from coder_core.config.schema import Config, changed_flags
from coder_core.data.augmentation import exchange_captions
from coder_core.evaluate import main as evaluate
from coder_core.model.run_towers import open_towers
from coder_core.queue.planned import commands
from coder_core.runs.load import read_config
from coder_core.runs.record import read_status
from coder_core.training.launch import start_run
from coder_core.training.prepare import Inputs, prepare
from coder_core.training.reviewed import named_reviews
from tests.support.tiny_runs import quiet

COLOURS = ("red", "blue", "green", "black", "white")
THINGS = ("dog", "cat", "car", "boat", "bird")
PLACES = "park", "lake", "hill"
WAYS = "{} {} {}", "a {} {} in the {}", "{} {} at a {}", "one {} {} near the {}", "the {} {} and a {}"
IMAGES = 75
SHARE = 0.2
SEED = 5
VALUES = {"concepts": 0, "bank_size": 0, "dimension": 16, "epochs": 10, "batch_size": 25, "warmup_steps": 4}
VALUES |= {"text_layers": 1, "learning_rate": 3e-2, "evaluate_every": 10}
VALUES |= {"image_dropout": 0.0, "embedding_dropout": 0.0, "wrong_captions": SHARE, "seed": SEED}


def write_told_data(folder, captions):
    """Write images that each show a different combination of colour, thing and place, which its captions name."""
    folder.mkdir(parents=True)
    random = np.random.default_rng(0)
    codes = {word: random.normal(size=12) for word in (*COLOURS, *THINGS, *PLACES)}
    scenes = [(colour, thing, place) for colour in COLOURS for thing in THINGS for place in PLACES]
    for split, count in (("train", IMAGES), ("dev", 15)):
        shown = [np.stack([codes[word] for word in scene]) for scene in scenes[:count]]
        np.save(folder / f"{split}_ims.npy", np.array(shown, np.float32))
        lines = [way.format(*scene) for scene in scenes[:count] for way in WAYS[:captions]]
        (folder / f"{split}_caps.txt").write_text("".join(f"{line}\n" for line in lines))
    return folder


def wrong_rows(captions, images=IMAGES):
    """Return (m,) bool: the captions that are exchanged for another image's."""
    owner = np.repeat(np.arange(images), captions)
    return exchange_captions(owner, SHARE, SEED) != np.arange(len(owner))


def command(config, root):
    """Return the arguments that train a configuration with --clean."""
    return [*changed_flags(Config(), config), f"--root={root}", f"--name={config.name}", "--clean"]


def left_out(run, reviews="cleaned.jsonl"):
    """Return (m,) bool: the pairs that a finished run did not train on."""
    assert (read_status(run) or {})["state"] == "finished"
    trained = read_config(run)[0]
    assert (trained.cleaning.clean, trained.data.reviews) == (True, f"{run}-{reviews}")
    data = prepare(trained, Inputs(towers=open_towers(trained), reviews=named_reviews(trained))).data
    stay = set(zip(data.train.captions, data.train.image_of_text.tolist(), strict=True))
    pairs = zip(data.as_read.captions, data.as_read.image_of_text.tolist(), strict=True)
    return np.array([pair not in stay for pair in pairs])


def halves(root):
    return [root / "mine-half", root / "mine-other-half"]


def train_scorers(config, root, ending="", count=2):
    """Train and evaluate the first `count` scorers of a round in this process, as the command does in others."""
    for scorer in scorer_runs(config, Origin.of(config, root), ending)[:count]:
        start_run(scorer.config, root, quiet())
        [evaluation] = commands(scorer, "train")
        arguments = evaluation[evaluation.index("coder_core.evaluate") + 1 :]
        assert evaluate([*arguments, "--device=cpu"]) == 0
        assert not (open_run(scorer.folder).ranks("train")["t2i"] >= 0).any()  # cleaning reads no ranks
