"""Read and check the finished run that is the teacher of Deep Boosting Learning (OAS; the paper's anchor branch)."""

from __future__ import annotations

from pathlib import Path

from coder_core.config.schema import Config
from coder_core.console.faults import Fault, InputError
from coder_core.data.words import Vocabulary
from coder_core.model.coder import Coder
from coder_core.model.run_towers import RunTowers
from coder_core.runs.load import LoadedModel, load_model, load_weights, read_vocabulary
from coder_core.runs.status import read_status


def read_teacher(
    config: Config, vocabulary: Vocabulary | None, feature_size: int, towers: RunTowers | None = None
) -> LoadedModel | None:
    """Load the finished run that sets the margins; None for a configuration without one.

    Args:
        config: of the run to train.
        vocabulary: of that run; None with BERT.
        feature_size: F of its regions.
        towers: of that run.

    Raises:
        InputError: not a finished run, damaged, or it reads other words or regions than this run.
    """
    if config.boosting.boosting == "none" or config.boosting.boosting_scenario != "offline":
        return None
    folder = Path(config.boosting.boosting_teacher)
    flag = f"--boosting-teacher {folder}"
    state = (read_status(folder) or {}).get("state")
    if state != "finished":
        message = f"is {state}" if state else "is not a run that was trained here"
        raise InputError(Fault(flag, message, "a finished run", "train it to its end first"))
    teacher = load_model(folder)
    difference = _difference(
        config, teacher, read_vocabulary(folder, teacher.config), vocabulary, feature_size
    )
    difference = difference or _different_towers(teacher.towers, towers)
    if difference:
        fix = "train the teacher on the same data, with the same text encoder and --word-threshold"
        raise InputError(Fault(flag, difference, "a run that reads the same images and words", fix))
    return teacher


def _difference(
    config: Config,
    teacher: LoadedModel,
    teacher_words: Vocabulary | None,
    words: Vocabulary | None,
    feature_size: int,
) -> str:
    of_teacher, of_run = teacher.config.model, config.model
    if of_teacher.text_encoder != of_run.text_encoder:
        return f"reads captions with {of_teacher.text_encoder}, this run with {of_run.text_encoder}"
    if of_run.text_encoder == "bert" and of_teacher.bert != of_run.bert:
        return f"has the word pieces of {of_teacher.bert}, this run those of {of_run.bert}"
    if teacher_words is not None and words is not None and teacher_words.words != words.words:
        return f"has another vocabulary ({len(teacher_words):,} words) than this run ({len(words):,})"
    if teacher.feature_size != feature_size:
        return f"has a feature dimension of {teacher.feature_size}, this data of {feature_size}"
    return ""


def _different_towers(of_teacher: RunTowers | None, of_run: RunTowers | None) -> str:
    if (of_teacher.read_alike() if of_teacher else ()) == (of_run.read_alike() if of_run else ()):
        return ""
    return "has other towers than this run, or pools them differently"


def start_from_teacher(config: Config, model: Coder, teacher: LoadedModel) -> None:
    """Copy the teacher's weights into the target if the configuration starts from them.

    Raises:
        InputError: the two are different models.
    """
    if config.boosting.boosting_start != "teacher":
        return
    fix = "give the values of [model] that the teacher was trained with, or --boosting-start scratch"
    different = Fault(
        "--boosting-start", "is teacher, and the teacher is another model", "the same model", fix
    )
    flag = f"--boosting-teacher {config.boosting.boosting_teacher}"
    before, now = teacher.config.model.region_norm, config.model.region_norm
    if before != now:  # the weights would fit with another meaning
        raise InputError([different, Fault(flag, f"has --region-norm {before}, this run {now}")])
    try:
        load_weights(model, teacher.model.state_dict(), flag)
    except InputError as error:
        raise InputError([different, *error.faults]) from None
