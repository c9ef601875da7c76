"""Bad data folders, captions, annotations, word vectors and flags: all commands refuse them in the same words.

    python -m tests.attack inputs --cases 400 --seed 0

A case is silent when `check_data` or `train` takes what the other refuses, when `evaluate` refuses what `check_data`
takes, or when one of them prints an error in other words. The inputs are those of `bad_inputs.py`.
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
RUN = Path("runs") / "run"  # of the good data
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


FAMILIES = {  # the cases, and the share of a family
    "features": (features_cases, 75),
    "captions": (caption_cases, 75),
    "ids": (partial(caption_cases, "_ids.txt"), 50),
    "annotations": (karpathy_cases, 75),
    "word vectors": (glove_cases, 50),
    "configuration": (flag_cases, 75),
}


def attack(case, folder, listener):
    """Make the input, survey it, train on it, and evaluate a run of the good data on it."""
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
    """`evaluate` reads one split: what it refuses, `check_data` refused in the same words."""
    text = f"check_data {checked}: {words}\nevaluate {status}: {output}"
    errors = {line for line in output.splitlines() if line.startswith("error: ")}
    if status not in (0, *USUAL_EXITS):
        return Finding(str(case), "evaluate", "traceback", text[-1500:])
    if not status:
        return Finding(str(case), "evaluate", "harmless", text)
    missing = any('there is no split "dev"' in error for error in errors)  # a warning of check_data
    # check_data compares splits with train, evaluate with the data of the run: both refuse them.
    against_run = all("as in training" in error for error in errors)
    same = errors <= set(words.splitlines()) or against_run
    named = missing or (bool(errors) and bool(checked) and same)
    return Finding(str(case), "evaluate", "named" if named else "silent", text)


def read_as_document(case):
    """The same value in a config.toml, as the number or the text that it is."""
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
    """Draw bad inputs, each family with its share; a case that was drawn once is drawn again with other numbers."""
    rng, total = random.Random(seed), sum(share for _, share in FAMILIES.values())
    inputs = []
    for family, (make, share) in FAMILIES.items():
        labels = draw_again(rng, list(make()), round(cases * share / total))
        inputs += [BadInput(family, label, rng.randrange(2**31)) for label in labels]
    return inputs


def warm_up(folder):
    """Import everything that a case imports."""
    data = write_split(write_split(folder / "warm-up", "train"), "dev")
    check_data.main([str(data), "--word-threshold=1"])
    root = (folder / RUN).parent
    assert train.main([*SMALL, f"--data={data}", f"--root={root}", f"--name={RUN.name}"]) == 0
    assert evaluate.main([str(shutil.copytree(folder / RUN, folder / "copy"))]) == 0


def campaign(folder, cases=CASES, seed=0, jobs=2):
    """Draw the inputs and try them all."""
    return try_all("inputs", folder, warm_up, partial(draw, cases, seed), attack, jobs)
