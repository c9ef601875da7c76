"""Give bad data folders, captions, annotations, word vectors and flags to commands, which must refuse them alike.

    python -m tests.attack inputs --cases 400 --seed 0

A case is silent if only one of `check_data` and `train` refuses the input, if `evaluate` refuses what `check_data`
accepts, or if their error messages differ. `bad_inputs.py` makes the inputs.
"""

import random
import resource
import shutil
from contextlib import suppress
from dataclasses import dataclass, fields
from functools import partial
from pathlib import Path

from coder_core import check_data, evaluate, train
from coder_core.config.schema import Config, from_document
from coder_core.console.faults import InputError
from tests.attack.bad_inputs import caption_cases, features_cases, flag_cases, glove_cases, karpathy_cases
from tests.attack.campaign import USUAL_EXITS, Finding, draw_again, try_all
from tests.support.precomp_folders import write_split

CASES = 400
MEMORY = 12 << 30  # bytes of address space
RUN = Path("runs") / "run"  # trained on the good data
SMALL = [
    *("--epochs=1", "--batch-size=4", "--dimension=4", "--word-size=3", "--word-threshold=1"),
    *("--threads=1", "--device=cpu", "--text-pooling=mean", "--image-pooling=mean", "--loss=dcl"),
]


@dataclass(frozen=True)
class BadInput:
    """A family, one of its cases, and the seed of its random parts."""

    family: str
    label: str
    seed: int

    def __str__(self):
        return f"{self.family}: {self.label!r} ({self.seed})"


FAMILIES = {  # name → function that returns the family's cases, and its share of the draws
    "features": (features_cases, 75),
    "captions": (caption_cases, 75),
    "ids": (partial(caption_cases, "_ids.txt"), 50),
    "annotations": (karpathy_cases, 75),
    "word vectors": (glove_cases, 50),
    "configuration": (flag_cases, 75),
}


def attack(case, folder, listener):
    """Make the input, check it, train on it, and evaluate on it a run trained on good data."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    data = folder / "data"
    for split in ("train", "dev"):
        write_split(data, split)
    flags = FAMILIES[case.family][0]()[case.label](data, random.Random(case.seed)) or []
    vectors = [flag for flag in flags if flag.startswith("--word-vectors=") and case.family == "word vectors"]
    checking = [str(data), "--word-threshold=1", "--batch-size=4", "--word-size=3", *vectors]
    training = [*SMALL, f"--data={data}", f"--root={folder}", "--name=run", *flags]
    checked, words = listener.hear(lambda: check_data.main(checking))
    trained, output = listener.hear(lambda: train.main(training))
    text = f"check_data {checked}: {words}\ntrain {trained}: {output}"
    errors = {line for line in output.splitlines() if line.startswith("error: ")}
    if {checked, trained} - {0, *USUAL_EXITS}:
        yield Finding(str(case), "check_data" if checked is None else "train", "traceback", text[-1500:])
    elif case.family == "configuration":
        refusal = "named" if output else "silent"
        yield Finding(str(case), "train", refusal if trained else "harmless", text)
        yield read_as_document(case)
    elif bool(checked) != bool(trained):
        yield Finding(str(case), "both", "silent", text)
    elif errors - set(words.splitlines()) or (trained and not errors):
        yield Finding(str(case), "both", "silent", f"other words: {errors - set(words.splitlines())} {text}")
    else:
        mentioned = checked or any(line.startswith(("warning: ", "note: ")) for line in words.splitlines())
        yield Finding(str(case), "both", "named" if mentioned else "harmless", text)
    if case.family not in ("configuration", "word vectors"):
        run = Path(shutil.copytree(folder.parents[1] / RUN, folder / "trained"))
        evaluated, output = listener.hear(lambda: evaluate.main([str(run), f"--data={data}"]))
        yield judge_evaluation(case, evaluated, output, checked, words)


def judge_evaluation(case, status, output, checked, words):
    """Return the finding for `evaluate`; `check_data` must have refused what it refuses, in the same words."""
    text = f"check_data {checked}: {words}\nevaluate {status}: {output}"
    errors = {line for line in output.splitlines() if line.startswith("error: ")}
    if status not in (0, *USUAL_EXITS):
        return Finding(str(case), "evaluate", "traceback", text[-1500:])
    if not status:
        return Finding(str(case), "evaluate", "harmless", text)
    missing = any('there is no split "dev"' in error for error in errors)  # only a warning in check_data
    # check_data compares splits with train, evaluate with the run's training data: both refuse, in different words.
    same = errors <= set(words.splitlines()) or all("as in training" in error for error in errors)
    named = missing or (bool(errors) and bool(checked) and same)
    return Finding(str(case), "evaluate", "named" if named else "silent", text)


def read_as_document(case):
    """Read the same value from a config.toml, as a number if it is one, else as text; return the finding."""
    name, _, value = case.label.partition("=")
    section = next(field.name for field in fields(Config) if hasattr(getattr(Config(), field.name), name))
    typed = value
    for kind in (float, int):  # the narrower one last
        with suppress(ValueError):
            typed = kind(value)

    try:
        from_document({section: {name: typed}})
    except InputError as error:
        return Finding(str(case), "config.toml", "named" if name in str(error) else "harmless", str(error))
    except Exception as error:
        return Finding(str(case), "config.toml", "traceback", repr(error))
    return Finding(str(case), "config.toml", "harmless")


def draw(cases, seed):
    """Draw bad inputs, each family by its share; a case that is drawn again gets another seed."""
    rng = random.Random(seed)
    total = sum(share for _, share in FAMILIES.values())
    inputs = []
    for family, (make, share) in FAMILIES.items():
        labels = draw_again(rng, list(make()), round(cases * share / total))
        inputs += [BadInput(family, label, rng.randrange(2**31)) for label in labels]
    return inputs


def warm_up(folder):
    """Run every command once, to import its modules, and train `RUN` on good data."""
    data = write_split(write_split(folder / "warm-up", "train"), "dev")
    check_data.main([str(data), "--word-threshold=1"])
    root = (folder / RUN).parent
    assert train.main([*SMALL, f"--data={data}", f"--root={root}", f"--name={RUN.name}"]) == 0
    assert evaluate.main([str(shutil.copytree(folder / RUN, folder / "copy"))]) == 0


def campaign(folder, cases=CASES, seed=0, jobs=2):
    """Draw the inputs and try them all."""
    return try_all("inputs", folder, warm_up, partial(draw, cases, seed), attack, jobs)
