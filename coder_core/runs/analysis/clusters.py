"""The prototypes in an analysis folder: labels of every pair, caption and image. Arrays are called `cluster_…`.

The prototypes stand beside the best model, in `best/<step>/prototypes.safetensors`: centroids, their members in the
train split, and the classifier. Nothing that encodes or ranks reads them.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from coder_core.console.faults import Fault, InputError
from coder_core.model.encode import SplitEmbeddings
from coder_core.ops import normalise
from coder_core.runs.files.saves import PROTOTYPES
from coder_core.runs.load import best_save

ROWS_AT_ONCE = 1024


def read_prototypes(folder: Path, fingerprint: str) -> dict[str, Tensor] | None:
    """centroids (K, D), members (K,) and classifier (K, D) of a run's best save; None before there are any.

    Args:
        folder: the run.
        fingerprint: of the save the model came from.

    Raises:
        InputError: the run has saved another model meanwhile, or the file is damaged.
    """
    save = best_save(folder)
    if save.fingerprint != fingerprint:
        found = "has saved a better model while this one was evaluated"
        raise InputError(Fault(str(folder), found, fix="evaluate it again"))
    if f"{PROTOTYPES}.safetensors" not in save.manifest["files"]:
        return None
    tensors = save.tensors(PROTOTYPES)
    if "clusters.centroids" in tensors:  # a state, of a run that has no best model yet
        tensors = {name.removeprefix("clusters."): tensor for name, tensor in tensors.items()}
        if not bool(tensors["centroids"].any(1).all()):
            return None  # in its first pass, which only seeds them
    return {name: tensors[name] for name in ("centroids", "members", "classifier")}


def cluster_tables(
    found: SplitEmbeddings, image_of_text: np.ndarray, prototypes: dict[str, Tensor]
) -> dict[str, np.ndarray]:
    """What a split's samples are to the prototypes.

    Args:
        found: of the split; the concept branch is classified, the instance branch where there is none.
        image_of_text: (m,).
        prototypes: of `read_prototypes`.

    Returns:
        cluster_pair_labels (m,) int32, the nearest centroid of a caption with its image, and cluster_pair_cosines (m,)
        float32 to it; cluster_text_labels (m,) and cluster_image_labels (n,) int32, what the classifier names for
        either alone; cluster_centroids (K, D) float32; cluster_members (K,) int64, pairs of the train split.
    """
    centroids, classifier = prototypes["centroids"], prototypes["classifier"]
    images, texts = torch.from_numpy(found.images), torch.from_numpy(found.texts)
    pairs = normalise(images[torch.from_numpy(image_of_text)] + texts)
    labels, cosines = _best(pairs, centroids)
    named = images, texts
    if found.concept_images is not None and found.concept_texts is not None:
        named = torch.from_numpy(found.concept_images), torch.from_numpy(found.concept_texts)
    return {
        "cluster_pair_labels": labels.int().numpy(),
        "cluster_pair_cosines": cosines.numpy(),
        "cluster_image_labels": _best(named[0], classifier)[0].int().numpy(),
        "cluster_text_labels": _best(named[1], classifier)[0].int().numpy(),
        "cluster_centroids": centroids.numpy(),
        "cluster_members": prototypes["members"].numpy(),
    }


def _best(rows: Tensor, table: Tensor) -> tuple[Tensor, Tensor]:
    """Column and value of the largest product of every row."""
    found = [(part @ table.T).max(1) for part in rows.split(ROWS_AT_ONCE)]
    return torch.cat([one.indices for one in found]), torch.cat([one.values for one in found])
