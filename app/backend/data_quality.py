"""What is wrong with the data behind a run: mismatched pairs, the report on its content, captions that say little."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
import streamlit as st

from app.backend.diversity import fitting_images
from app.backend.jobs import current, module_command
from app.backend.runs import BY_STAMP, InputError, RunSummary, open_summary, split_sample
from coder_core.api import data_quality as api
from coder_core.api.data_quality import (
    DOUBTFUL,
    LIKE_RANDOM,
    VERDICTS,
    CaptionedSplit,
    ContentReport,
    Finding,
)
from coder_core.api.stored import StoredResult

__all__ = [
    "DOUBTFUL",
    "LIKE_RANDOM",
    "VERDICTS",
    "ContentReport",
    "Finding",
    "StoredReport",
    "caption_facts",
    "content_command",
    "content_report",
    "cross_fitted",
    "finding_picture",
    "finding_sample",
    "finding_table",
    "fitting_images",
    "mismatches",
    "sample_rows",
    "why_not_cross_fitted",
]
StoredReport = StoredResult[ContentReport]
KEY_SECONDS = 30  # after which pictures are looked up again, in case one has changed


@st.cache_resource(
    max_entries=8, show_spinner="Comparing every pair with its neighbours …", hash_funcs=BY_STAMP
)
def mismatches(run: RunSummary, split: str) -> pd.DataFrame:
    """`mismatches` of the split, or of its sample. Shared: not to be changed."""
    return api.mismatches(open_summary(run), split, sample=split_sample(run, split))


@st.cache_resource(
    max_entries=4, show_spinner="Comparing every pair with its neighbours …", hash_funcs=BY_STAMP
)
def cross_fitted(first: RunSummary, second: RunSummary) -> pd.DataFrame:
    """`cross_fitted` of train, or of its sample. Shared: not to be changed."""
    return api.cross_fitted(open_summary(first), open_summary(second), sample=split_sample(first, "train"))


@st.cache_data(max_entries=32, show_spinner=False, hash_funcs=BY_STAMP)
def why_not_cross_fitted(first: RunSummary, second: RunSummary) -> str:
    """Why two runs cannot judge each other's train pairs; "" where they can."""
    try:
        api.unseen_images(open_summary(first), open_summary(second))
    except InputError as error:
        return f"{error.faults[0].place} {error.faults[0].found}"
    return ""


@st.cache_resource(max_entries=4, show_spinner="Reading the data …", hash_funcs=BY_STAMP)
def _splits(run: RunSummary) -> Sequence[CaptionedSplit]:
    return api.splits_of_run(open_summary(run))


@st.cache_data(ttl=KEY_SECONDS, show_spinner=False, hash_funcs=BY_STAMP)
def _key(run: RunSummary) -> str:
    return api.content_key(_splits(run))


@st.cache_resource(max_entries=4, show_spinner=False)
def _stored(key: str) -> StoredReport:
    return api.stored_report(key)


def content_report(run: RunSummary) -> StoredReport:
    """The report on the content of the data behind a run, as far as there is one."""
    result = _look_up(run)
    job = current(result.name) if result.value is None else None
    if job is not None and job.progress is not None and job.progress.state == "finished":
        _splits.clear(run)  # the data has changed since it was read here
        _key.clear(run)
        result = _look_up(run)
    return result


def _look_up(run: RunSummary) -> StoredReport:
    key = _key(run)
    result = _stored(key)
    if result.value is None:
        _stored.clear(key)
    return result


def content_command(run: RunSummary) -> tuple[str, ...]:
    """The command that makes the report."""
    return module_command("coder_core.check_data", str(run.path), "--content")


def finding_table(run: RunSummary, findings: Sequence[Finding], *, captions: bool) -> pd.DataFrame:
    """`finding_table`: one row a finding."""
    return api.finding_table(findings, _splits(run), captions=captions)


def sample_rows(run: RunSummary, findings: Sequence[Finding], *, captions: bool) -> pd.DataFrame:
    """`sample_rows`: one row a sample of every finding, for a file."""
    return api.sample_rows(findings, _splits(run), captions=captions)


def finding_sample(
    run: RunSummary, name: str, row: int, *, caption: bool
) -> tuple[int, list[str], int | None, str]:
    """One sample of a finding: its image, the image's captions, the place of the caption among them, the file."""
    split = next(split for split in _splits(run) if split.name == name)
    image = int(split.image_of_text[row]) if caption else row
    place = int(np.flatnonzero(split.image_of_text == image).tolist().index(row)) if caption else None
    return image, api.captions_of(split, image), place, split.image_names[image]


@st.cache_data(max_entries=512, show_spinner=False, hash_funcs=BY_STAMP)
def finding_picture(run: RunSummary, name: str, image: int, size: int = 280) -> bytes | None:
    """A picture of any split of the data as JPEG bytes; None when there is none."""
    return api.split_thumbnail(next(split for split in _splits(run) if split.name == name), image, size)


@st.cache_resource(max_entries=8, show_spinner=False, hash_funcs=BY_STAMP)
def caption_facts(run: RunSummary, split: str) -> pd.DataFrame:
    """Words, content words and diversity of every caption of the split, or of its sample. Shared: not to be changed."""
    opened = open_summary(run)
    captions = opened.captions(split)
    anchors = opened.diversity(split, modality="text", sample=split_sample(run, split))
    table = api.caption_table([captions[row] for row in anchors["anchor"].tolist()])
    return table.assign(caption=anchors["anchor"], diversity=anchors["diversity"])
