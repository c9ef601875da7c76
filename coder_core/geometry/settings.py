"""Settings of layouts and of offline clusters. Imports no library, so that the commands can read their flags."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

from coder_core.console.faults import Fault, InputError

Method = Literal["umap", "tsne", "pca"]
METHODS: tuple[Method, ...] = ("umap", "tsne", "pca")
Modalities = Literal["both", "images", "captions", "centred"]
MODALITIES: tuple[Modalities, ...] = ("both", "images", "captions", "centred")


@dataclass(frozen=True)
class LayoutSettings:
    """Settings of a layout. All distances are cosine distances."""

    method: Method = "umap"  # "umap", "tsne" or "pca"
    neighbours: int = 15  # UMAP's neighbourhood; larger shows more of the whole, smaller more of the detail
    min_distance: float = 0.1  # UMAP's smallest distance between points, from 0 (dense clumps) to 1
    perplexity: float = 30.0  # t-SNE's neighbourhood
    seed: int = 0  # of everything random
    # "both"; "images" or "captions" alone; or both, "centred": the mean of a modality is subtracted from its
    # embeddings, which closes the modality gap
    modalities: Modalities = "both"

    def __post_init__(self) -> None:
        checks = (
            ("method", self.method in METHODS, "one of umap, tsne, pca"),
            ("modalities", self.modalities in MODALITIES, "one of both, images, captions, centred"),
            ("neighbours", self.neighbours >= 2, "2 or more"),
            ("min_distance", 0 <= self.min_distance <= 1, "from 0 to 1"),
            ("perplexity", self.perplexity >= 1, "1 or more"),
            ("seed", 0 <= self.seed < 2**32, "from 0 to 4294967295"),
        )
        _refuse(self, checks)

    def parameters(self) -> dict[str, Any]:
        """The settings the method uses. Results are looked up by these, so that other changes recompute nothing."""
        umap = {"neighbours": self.neighbours, "min_distance": float(self.min_distance), "seed": self.seed}
        tsne = {"perplexity": float(self.perplexity), "seed": self.seed}
        of_method: dict[str, Any] = {"umap": umap, "tsne": tsne, "pca": {}}[self.method]
        of_modalities = {} if self.modalities == "both" else {"modalities": self.modalities}
        return {"method": self.method, **of_method, **of_modalities}


@dataclass(frozen=True)
class ClusterSettings:
    """K clusters; `seed` draws the first centroids."""

    clusters: int = 50
    seed: int = 0

    def __post_init__(self) -> None:
        seed = "seed", 0 <= self.seed < 2**31, "from 0 to 2147483647"
        _refuse(self, (("clusters", self.clusters >= 2, "2 or more"), seed))

    def parameters(self) -> dict[str, Any]:
        """The settings results are looked up by."""
        return {"clusters": self.clusters, "seed": self.seed}


def _refuse(settings: object, checks: Iterable[tuple[str, bool, str]]) -> None:
    """Raise an InputError of the settings that are out of range: name, whether it is in range, the range."""
    faults = [
        Fault(f"--{name.replace('_', '-')}", f"is {getattr(settings, name)!r}", expected)
        for name, is_sound, expected in checks
        if not is_sound
    ]
    if faults:
        raise InputError(faults)
