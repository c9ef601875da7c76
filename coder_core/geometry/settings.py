"""Settings of layouts and of offline clusters. Imports no library, so that the commands can read their flags."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from coder_core.console.faults import Fault, InputError

Method = Literal["umap", "tsne", "pca"]
METHODS: tuple[Method, ...] = ("umap", "tsne", "pca")
Modalities = Literal["both", "images", "captions", "centred"]
MODALITIES: tuple[Modalities, ...] = ("both", "images", "captions", "centred")


@dataclass(frozen=True)
class LayoutSettings:
    """Settings of a layout. All distances are cosine distances.

    Args:
        method: "umap", "tsne" or "pca".
        neighbours: UMAP's neighbourhood; larger shows more of the whole, smaller more of the detail.
        min_distance: UMAP's smallest distance between points, from 0 (dense clumps) to 1.
        perplexity: t-SNE's neighbourhood.
        seed: of everything random.
        modalities: "both"; "images" or "captions" alone; or both, "centred": the mean of a modality is subtracted from
            its embeddings, which closes the modality gap.
    """

    method: Method = "umap"
    neighbours: int = 15
    min_distance: float = 0.1
    perplexity: float = 30.0
    seed: int = 0
    modalities: Modalities = "both"

    def __post_init__(self) -> None:
        faults = []
        if self.method not in METHODS:
            faults.append(Fault("--method", f"is {self.method!r}", "one of umap, tsne, pca"))
        if self.modalities not in MODALITIES:
            faults.append(
                Fault("--modalities", f"is {self.modalities!r}", "one of both, images, captions, centred")
            )
        if self.neighbours < 2:
            faults.append(Fault("--neighbours", f"is {self.neighbours}", "2 or more"))
        if not 0 <= self.min_distance <= 1:
            faults.append(Fault("--min-distance", f"is {self.min_distance}", "from 0 to 1"))
        if not self.perplexity >= 1:
            faults.append(Fault("--perplexity", f"is {self.perplexity}", "1 or more"))
        if not 0 <= self.seed < 2**32:
            faults.append(Fault("--seed", f"is {self.seed}", "from 0 to 4294967295"))
        if faults:
            raise InputError(faults)

    def parameters(self) -> dict[str, Any]:
        """The settings the method uses. Results are looked up by these, so that other changes recompute nothing."""
        of_method: dict[str, dict[str, Any]] = {
            "umap": {
                "neighbours": self.neighbours,
                "min_distance": float(self.min_distance),
                "seed": self.seed,
            },
            "tsne": {"perplexity": float(self.perplexity), "seed": self.seed},
            "pca": {},
        }
        of_modalities = {} if self.modalities == "both" else {"modalities": self.modalities}
        return {"method": self.method, **of_method[self.method], **of_modalities}


@dataclass(frozen=True)
class ClusterSettings:
    """K clusters; `seed` draws the first centroids."""

    clusters: int = 50
    seed: int = 0

    def __post_init__(self) -> None:
        if self.clusters < 2:
            raise InputError.at("--clusters", f"is {self.clusters}", "2 or more")
        if not 0 <= self.seed < 2**31:
            raise InputError.at("--seed", f"is {self.seed}", "from 0 to 2147483647")

    def parameters(self) -> dict[str, Any]:
        """The settings results are looked up by."""
        return {"clusters": self.clusters, "seed": self.seed}
