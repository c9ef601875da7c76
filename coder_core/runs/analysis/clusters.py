"""The prototypes in an analysis folder: labels of every pair, caption and image. Arrays are called `cluster_…`.

The prototypes are saved beside the best model, in `best/<step>/prototypes.safetensors`: centroids, their numbers of
members in the train split, and the classifier. Encoding and ranking do not use them.
"""

from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from coder_core.console.faults import InputError
from coder_core.model.encode import SplitEmbeddings
from coder_core.ops import normalise
from coder_core.runs.load import best_save
from coder_core.runs.saves import PROTOTYPES

ROWS_AT_ONCE = 1024


def read_prototypes(folder: Path, fingerprint: str) -> dict[str, Tensor] | None:
    """Read centroids (K, D), members (K,) and classifier (K, D) from a run's best save; None if it has none yet."""
    save = best_save(folder)
    if save.fingerprint != fingerprint:
        problem = "has saved a better model while the old one was being evaluated"
        raise InputError.at(folder, problem, fix="evaluate it again")
    if f"{PROTOTYPES}.safetensors" not in save.manifest["files"]:
        return None
    tensors = save.tensors(PROTOTYPES)
    if "clusters.centroids" in tensors:  # a training state, as the run has no best model yet
        tensors = {name.removeprefix("clusters."): tensor for name, tensor in tensors.items()}
        if not bool(tensors["centroids"].any(1).all()):
            return None  # the run is in its first pass, which only seeds them
    return {name: tensors[name] for name in ("centroids", "members", "classifier")}


def cluster_tables(
    embeddings: SplitEmbeddings, image_of_text: np.ndarray, prototypes: dict[str, Tensor]
) -> dict[str, np.ndarray]:
    """Assign a split's samples to the prototypes of `read_prototypes`: the arrays `cluster_…` of `tables.TABLES`. A
    pair's label is the centroid nearest to a caption with its image, stored with the cosine to it. Text and image
    labels are the classifier's for either alone, by the concept branch, or by the instance branch without one."""
    centroids = prototypes["centroids"]
    classifier = prototypes["classifier"]
    images = torch.from_numpy(embeddings.images)
    texts = torch.from_numpy(embeddings.texts)
    pairs = normalise(images[torch.from_numpy(image_of_text)] + texts)
    labels, cosines = _largest(pairs, centroids)
    if embeddings.second is not None:
        images, texts = map(torch.from_numpy, embeddings.second)

    return {
        "cluster_pair_labels": labels.int().numpy(),
        "cluster_pair_cosines": cosines.numpy(),
        "cluster_image_labels": _largest(images, classifier)[0].int().numpy(),
        "cluster_text_labels": _largest(texts, classifier)[0].int().numpy(),
        "cluster_centroids": centroids.numpy(),
        "cluster_members": prototypes["members"].numpy(),
    }


def _largest(rows: Tensor, table: Tensor) -> tuple[Tensor, Tensor]:
    """Return the column and the value of the largest product of every row."""
    largest = [(part @ table.T).max(1) for part in rows.split(ROWS_AT_ONCE)]
    return torch.cat([part.indices for part in largest]), torch.cat([part.values for part in largest])
