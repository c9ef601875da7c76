"""The finished run that Deep Boosting Learning takes as its anchor (OAS): read, checked, and perhaps started from."""

from __future__ import annotations

from pathlib import Path

from coder_core.config.schema import Config
from coder_core.console.faults import Fault, InputError
from coder_core.data.words import Vocabulary
from coder_core.model.coder import Coder
from coder_core.runs.files.status import read_status
from coder_core.runs.load import LoadedModel, load_model, load_weights, read_vocabulary


def read_anchor(config: Config, vocabulary: Vocabulary | None, feature_size: int) -> LoadedModel | None:
    """The finished run that is the offline anchor; None for any other configuration.

    Args:
        config: of the run to train.
        vocabulary: of that run; None with BERT.
        feature_size: F of its regions.

    Raises:
        InputError: the anchor is no finished run, is damaged, or reads other numbers than this run's batches hold.
    """
    if config.boosting.boosting == "none" or config.boosting.boosting_scenario != "offline":
        return None
    folder = Path(config.boosting.boosting_anchor)
    place = f"--boosting-anchor {folder}"
    state = (read_status(folder) or {}).get("state")
    if state != "finished":
        found = f"is {state}" if state else "holds no run that was trained here"
        raise InputError(Fault(place, found, "a finished run", "train it to its end first"))
    anchor = load_model(folder)
    found = _reads_otherwise(config, anchor, read_vocabulary(folder, anchor.config), vocabulary, feature_size)
    if found:
        fix = "train the anchor on the same data, with the same text encoder and --word-threshold"
        raise InputError(Fault(place, found, "a run that reads the same images and words", fix))
    return anchor


def _reads_otherwise(
    config: Config, anchor: LoadedModel, known: Vocabulary | None, vocabulary: Vocabulary | None, feature_size: int
) -> str:
    theirs, ours = anchor.config.model, config.model
    if theirs.text_encoder != ours.text_encoder:
        return f"reads captions with {theirs.text_encoder}, this run with {ours.text_encoder}"
    if ours.text_encoder == "bert" and theirs.bert != ours.bert:
        return f"has the word pieces of {theirs.bert}, this run those of {ours.bert}"
    if known is not None and vocabulary is not None and known.words != vocabulary.words:
        return f"knows other words ({len(known):,}) than this run ({len(vocabulary):,})"
    if anchor.feature_size != feature_size:
        return f"reads {anchor.feature_size} numbers a region, this data has {feature_size}"
    return ""


def start_from_anchor(config: Config, model: Coder, anchor: LoadedModel) -> None:
    """Give the target the anchor's weights, where the configuration asks for that.

    Raises:
        InputError: the two are different models.
    """
    if config.boosting.boosting_start != "anchor":
        return
    fix = "give the values of [model] that the anchor was trained with, or --boosting-start scratch"
    different = Fault("--boosting-start", "is anchor, and the anchor is another model", "the same model", fix)
    theirs, ours = anchor.config.model.region_norm, config.model.region_norm
    if theirs != ours:  # the weights would fit, and mean something else
        place = f"--boosting-anchor {config.boosting.boosting_anchor}"
        raise InputError([different, Fault(place, f"has --region-norm {theirs}, this run {ours}")])
    try:
        load_weights(model, anchor.model.state_dict(), f"--boosting-anchor {config.boosting.boosting_anchor}")
    except InputError as error:
        raise InputError([different, *error.faults]) from None
