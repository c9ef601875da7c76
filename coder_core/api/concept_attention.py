"""Attention of a run's images and captions to its concepts. CODER section 3.2.2."""

import numpy as np
import pandas as pd

from coder_core.api import concepts
from coder_core.api.run import Run
from coder_core.api.sides import BOTH, Modality
from coder_core.evaluation.metrics import places


def view_of(run: Run, split: str) -> concepts.ConceptView:
    """Return the concept branch of a run, which must have one."""
    view = run.concepts(split)
    assert view is not None
    return view


def attention_of(run: Run, split: str, modality: Modality) -> concepts.AttentionSummary:
    """Summarise the attention of all images or captions of the split, or of its sample."""
    sample = run.sample(split)
    rows = None if sample is None else (sample.images if modality == "image" else sample.texts)
    return concepts.summarise_attention(view_of(run, split), modality, rows)


def shared_attention_of(run: Run, split: str) -> concepts.SharedAttention:
    """Compute the attention that captions share with their images."""
    sample = run.sample(split)
    texts = None if sample is None else sample.texts
    return concepts.shared_attention(view_of(run, split), run.image_of_text(split), texts)


def disagreements(run: Run, split: str) -> pd.DataFrame:
    """List every caption with its image: caption, image, shared (%), the concept that each attends to most and its
    share (%), rank; least shared first, and among equal shares the most confident."""
    names = np.array(view_of(run, split).names, dtype=object)
    shared = shared_attention_of(run, split)
    image = attention_of(run, split, "image")
    text = attention_of(run, split, "text")
    owner = run.image_of_text(split)[shared.texts]
    row = np.searchsorted(image.samples, owner)
    columns = {
        "caption": shared.texts,
        "image": owner,
        "shared": 100 * shared.own,
        "image_reads": names[image.first[row]],
        "image_share": 100 * image.share[row],
        "caption_reads": names[text.first],
        "caption_share": 100 * text.share,
        "rank": places(run.ranks(split)["t2i"][shared.texts]),
    }
    order = np.lexsort((-columns["image_share"] * columns["caption_share"], columns["shared"].round(1)))
    return pd.DataFrame(columns).iloc[order].reset_index(drop=True)


def pair_concepts(run: Run, split: str, text: int, top: int) -> tuple[pd.DataFrame, float, dict[str, float]]:
    """Compare a caption with its image. Return the `top` concepts of either (word, kind, image, text), the share (%) of
    attention they have in common, and the effective number of concepts that each attends to."""
    view = view_of(run, split)
    samples = zip(BOTH, (run.image_of_text(split)[text], text), strict=True)
    read = {side: concepts.summarise_attention(view, side, np.array([sample])) for side, sample in samples}
    table = pd.DataFrame({"concept": np.arange(len(view.words)), "word": view.names, "kind": view.kinds})
    table = table.assign(**{side: summary.mean for side, summary in read.items()})
    shared = 100 * float(np.minimum(table["image"], table["text"]).sum())
    strongest = pd.concat([table.nlargest(top, side) for side in BOTH]).drop_duplicates("concept")
    total = (strongest["image"] + strongest["text"]).to_numpy()
    order = np.argsort(-total, kind="stable")
    strongest = strongest.iloc[order[total[order] >= 0.0005]].reset_index(drop=True)
    return strongest, shared, {side: float(summary.perplexity[0]) for side, summary in read.items()}
