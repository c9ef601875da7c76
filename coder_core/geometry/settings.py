"""Settings of layouts and of offline clusters, which are also flags of the commands."""

from dataclasses import dataclass
from typing import Any, Literal

from coder_core.config.setting import setting, settings_of, with_help
from coder_core.console.faults import stop_on_errors

Method = Literal["umap", "tsne", "pca"]
Modalities = Literal["both", "images", "captions", "centred"]


class _Checked:
    """Settings that check their ranges. InputError: names the settings out of range."""

    def __post_init__(self) -> None:
        faults = (known.fault(known.read(getattr(self, known.key))) for known in settings_of(self))
        stop_on_errors(filter(None, faults))


@dataclass(frozen=True)
@with_help
class LayoutSettings(_Checked):
    """Settings of a layout. All distances are cosine distances."""

    method: Method = setting("umap", "umap, tsne or pca.")
    neighbours: int = setting(15, "UMAP: size of a neighbourhood; a larger one shows less detail.", ge=2)
    min_distance: float = setting(
        0.1, "UMAP: smallest distance between points; 0 gives dense clumps.", ge=0, le=1
    )
    perplexity: float = setting(30.0, "t-SNE: size of a neighbourhood; at most a third of the points.", ge=1)
    seed: int = setting(0, "Random seed.", ge=0, le=4_294_967_295)
    modalities: Modalities = setting(
        "both",
        "both, images or captions alone, or both centred on the mean of their modality, which closes the "
        "modality gap.",
    )

    def parameters(self) -> dict[str, Any]:
        """Return the settings that the method uses. They identify results, so other changes recompute nothing."""
        umap = {"neighbours": self.neighbours, "min_distance": float(self.min_distance), "seed": self.seed}
        tsne = {"perplexity": float(self.perplexity), "seed": self.seed}
        of_method: dict[str, Any] = {"umap": umap, "tsne": tsne, "pca": {}}[self.method]
        of_modalities = {} if self.modalities == "both" else {"modalities": self.modalities}
        return {"method": self.method, **of_method, **of_modalities}


@dataclass(frozen=True)
@with_help
class ClusterSettings(_Checked):
    """K clusters by k-means."""

    clusters: int = setting(50, "Number of clusters.", ge=2)
    seed: int = setting(0, "Random seed of the initial centroids.", ge=0, le=2_147_483_647)

    def parameters(self) -> dict[str, Any]:
        """Return the settings that identify results."""
        return {"clusters": self.clusters, "seed": self.seed}
