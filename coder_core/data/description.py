"""A survey of a data set as plain values: counts, shapes, bytes, words."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import numpy as np

from coder_core.data.captioned.reading import CaptionedSplit
from coder_core.data.split import Split, fingerprint
from coder_core.data.survey import Survey
from coder_core.data.words import Tokens


def describe(survey: Survey, batch_size: int) -> dict[str, Any]:
    """A JSON document; `batch_size` pairs are a batch in its memory estimate."""
    vectors = survey.vectors
    return {
        "usable": survey.usable,
        "splits": [
            _describe_split(split, survey.tokens.get(split.name), batch_size) for split in survey.splits
        ]
        + [_describe_pictures(split, survey.tokens.get(split.name)) for split in survey.pictures],
        "vocabulary": None if survey.vocabulary is None else len(survey.vocabulary),
        "word_vectors": None
        if vectors is None
        else {
            "size": vectors.matrix.shape[1],
            "words": vectors.coverage,
            "running_text": vectors.token_coverage,
        },
        "faults": [asdict(fault) for fault in survey.faults],
    }


def _describe_split(split: Split, tokens: Tokens | None, batch_size: int) -> dict[str, Any]:
    each = np.bincount(split.image_of_text, minlength=split.n_images)
    values = {
        "name": split.name,
        "images": split.n_images,
        "captions": split.n_texts,
        "shape": list(split.features.shape),
        "dtype": str(split.features.dtype),
        "captions_an_image": [int(each.min()), float(each.mean()), int(each.max())],
        "bytes_on_disk": int(split.features.nbytes),
        "bytes_a_batch": batch_size * split.regions * split.feature_size * 4,
        "named": split.image_names is not None,
        "pictures": str(split.picture_folder) if split.picture_folder else None,
        "fingerprint": fingerprint(split),
        "source": split.source,
    }
    return values | _describe_words(tokens)


def _describe_pictures(split: CaptionedSplit, tokens: Tokens | None) -> dict[str, Any]:
    each = np.bincount(split.image_of_text, minlength=len(split.rows))
    return {
        "name": split.name,
        "images": len(split.rows),
        "captions": len(split.captions),
        "captions_an_image": [int(each.min()), float(each.mean()), int(each.max())],
        "pictures": split.source.get("pictures"),
        "layout": split.source["layout"],
        "source": split.source,
    } | _describe_words(tokens)


def _describe_words(tokens: Tokens | None) -> dict[str, Any]:
    if tokens is None:
        return {}
    lengths = tokens.lengths
    return {
        "words_a_caption": [float(value) for value in np.percentile(lengths, [0, 50, 99, 100])],
        "mean_words_a_caption": float(lengths.mean()),
        "unknown_words": tokens.unknown_share(),
        "bytes_of_words": int(tokens.ids.nbytes + tokens.offsets.nbytes),
    }
