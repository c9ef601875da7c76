"""Probe a run: does it score a picture's caption above the same caption made wrong?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from coder_core.console.faults import Fault, InputError
from coder_core.console.progress import Progress, silent
from coder_core.data.judgements import Probe, picture_key
from coder_core.data.pictures import open_picture
from coder_core.runs.analysis.tables import IMAGE_PART_LENGTHS, IMAGE_PARTS

if TYPE_CHECKING:
    from coder_core.api.run import Run


def probe_run(
    run: Run, split: str, probes: Sequence[Probe], *, pictures: str = "", progress: Progress = silent
) -> pd.DataFrame:
    """Score every probe whose picture the run knows or can read.

    Args:
        run: with an analysis of `split`, whose images are recognised by their file names.
        split: name of the split.
        probes: from `read_probes`.
        pictures: folder of the pictures that are not of the split, for a run that reads pictures; empty takes the
            split's own.
        progress: called with the pictures done and all there are.

    Returns:
        One row a probe: kind, picture, score, negative (that of the wrong caption), right (score above negative; a tie
        is wrong).

    Raises:
        InputError: the run can neither read nor find any of the pictures, or cannot embed new texts.
    """
    rows = {picture_key(name): row for row, name in enumerate(run.image_names(split))}
    folder = pictures or run.analysis(split).picture_folder
    groups: dict[str, list[Probe]] = {}
    for probe in probes:
        groups.setdefault(probe.picture, []).append(probe)
    scored = run.scores(split) is not None
    table: list[tuple[str, str, float, float]] = []
    for done, (name, group) in enumerate(groups.items()):
        row = rows.get(picture_key(name))
        texts = [text for probe in group for text in (probe.caption, probe.negative)]
        if row is not None and scored:
            scores = _scored_by_pair(run, split, row, texts)
        else:
            image = run.scoring(split)[0][row] if row is not None else _encoded(run, split, folder, name)
            if image is None:
                continue
            scores = run.encode_text(texts) @ image
        table += [
            (probe.kind, name, *pair)
            for probe, pair in zip(group, scores.reshape(-1, 2).tolist(), strict=True)
        ]
        progress(done + 1, len(groups))
    if not table:
        fact = f"knows none of the {len(groups):,} pictures of the probes in split {split!r}, and reads none of them"
        fix = "evaluate a split with these pictures, or name their folder for a run that reads pictures"
        raise InputError(Fault(f"run {run.name}", fact, fix=fix))
    frame = pd.DataFrame(table, columns=["kind", "picture", "score", "negative"])
    return frame.assign(right=frame["score"] > frame["negative"])


def accuracies(table: pd.DataFrame) -> dict[str, float]:
    """Share of probes answered right, in percent, by kind and as "all"."""
    by_kind = table.groupby("kind", sort=True)["right"].mean() * 100
    return {
        **{str(kind): float(share) for kind, share in by_kind.items()},
        "all": 100 * float(table["right"].mean()),
    }


def _encoded(run: Run, split: str, folder: str, name: str) -> np.ndarray | None:
    """The embedding of a picture that is not of the split; None where it is not there or the run reads no pictures."""
    if not folder or not run.reads_pictures(split):
        return None
    try:
        picture = open_picture(folder, name)
    except InputError:
        return None
    return run.encode_picture(picture, split=split)


def _scored_by_pair(run: Run, split: str, image: int, texts: list[str]) -> np.ndarray:
    """(k,) scores of texts with one image, of a model that scores pair by pair."""
    analysis = run.analysis(split)
    if IMAGE_PARTS not in analysis.arrays:
        fact = f"has too many regions in split {split!r} to keep beside its scores, so new texts cannot be scored"
        raise InputError(Fault(f"run {run.name}", fact))
    parts = analysis.array(IMAGE_PARTS)[image : image + 1]
    lengths = analysis.array(IMAGE_PART_LENGTHS)[image : image + 1]
    return np.asarray(run.model.score_texts(texts, parts, lengths)[:, 0])
