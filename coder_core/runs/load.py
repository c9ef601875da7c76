"""Load a run's model from its folder: the best save on dev, or the last training state if there is none yet."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL.Image import Image
from torch import Tensor, nn

from coder_core.config.schema import Config, read_document
from coder_core.console.faults import Fault, InputError, stop_on_errors
from coder_core.data.batches import text_chunks
from coder_core.data.words import Vocabulary
from coder_core.evaluation.sources import mixed_embeddings
from coder_core.files.sealed import SealedFolder, read_toml
from coder_core.model.coder import Branches, Coder, ModelParts, build_model
from coder_core.model.concepts.knowledge import ARRAYS, NAMES, Concepts
from coder_core.model.encode import TEXTS_AT_ONCE, ImageParts, evaluating, score_texts
from coder_core.model.reader import CaptionReader, make_reader
from coder_core.model.run_towers import FILE as TOWERS
from coder_core.model.run_towers import RunTowers, open_towers
from coder_core.model.towers.halves import ImageHalf, VisionModule
from coder_core.model.towers.pretrained import WHOLE
from coder_core.model.towers.regions import Patches, as_array, boxes
from coder_core.model.towers.tuning import TunedTower
from coder_core.ops.shapes import shapes_only
from coder_core.runs.folder import check_run
from coder_core.runs.saves import Save, SaveStore

MOST_FEATURES = 1 << 20  # dimension of a region
ABOUT = "about"  # the table of config.toml on command, versions and data; not part of the configuration


@dataclass(frozen=True)
class LoadedModel:
    """A trained model, in evaluation mode."""

    config: Config
    model: Coder
    reader: CaptionReader
    fingerprint: str
    save: str  # its name, the step
    device: torch.device
    feature_size: int  # dimension of a region
    faults: list[Fault]  # damaged newer saves that were skipped
    concepts: Concepts | None = None
    towers: RunTowers | None = None

    def encode_text(self, captions: Sequence[str], *, scoring: bool = False) -> np.ndarray:
        """Encode k free texts as (k, D) float32 unit rows of the instance branch. `scoring`: join them with the concept
        branch, (k, 2 · D), so that inner products are the run's scores."""
        if not captions:
            size = self.config.model.dimension * (2 if scoring and self.concepts else 1)
            return np.empty((0, size), np.float32)
        tokens = self.reader.encode(list(captions))
        rows: dict[int, np.ndarray] = {}
        with evaluating(self.model):
            nodes = self.model.concept_nodes() if scoring else None
            for ids, words, lengths in text_chunks(tokens, TEXTS_AT_ONCE):
                branches = self.model.text_branches(words.to(self.device), lengths.to(self.device), nodes)
                rows |= dict(zip(ids.tolist(), self._rows(branches), strict=True))
        return np.stack([rows[row] for row in range(len(captions))])

    def encode_images(self, regions: np.ndarray, *, scoring: bool = False) -> np.ndarray:
        """Encode (k, R, F) region features, all R present: (k, D), or (k, 2 · D) as for `encode_text`."""
        inputs = torch.from_numpy(np.require(regions, requirements="W"))
        return self._encode_images(inputs, torch.full((len(regions),), regions.shape[1]), scoring)

    def _encode_images(self, inputs: Tensor, lengths: Tensor, scoring: bool) -> np.ndarray:
        with evaluating(self.model):
            nodes = self.model.concept_nodes() if scoring else None
            branches = self.model.image_branches(inputs.to(self.device), lengths.to(self.device), nodes)
            return self._rows(branches)

    def word_features(self, text: str) -> tuple[list[str], np.ndarray]:
        """Return the T words of a text as the model reads them ("" for [CLS] and [SEP]), and their (T, D) float32
        features before pooling."""
        _, ids, lengths = next(text_chunks(self.reader.encode([text]), 1))
        return self.reader.words(text), self._features(self.model.words, ids, lengths)

    def region_features(self, regions: np.ndarray) -> np.ndarray:
        """Encode (R, F) region features of one image, all R present: (R, D) float32 before pooling."""
        inputs = torch.from_numpy(np.require(regions, np.float32, requirements=["C", "W"]))
        return self._features(self.model.regions, inputs[None], torch.tensor([len(regions)]))

    def patches(self, picture: Image) -> Patches:
        """Encode the patches of one upright RGB picture in the joint space: its features before the model's pooling, or,
        of a tower that pools by itself, those of `encode_patches`. ValueError: the run has no image tower. InputError:
        its tower pools and does not define patches."""
        half, pixels, lengths = self._prepare([picture])
        boxes_of_half = half.boxes(picture)
        if self.config.model.image_pooling != "tower":
            features = self._features(self.model.regions, pixels, lengths)[: int(lengths)]
            return Patches(features, boxes_of_half)

        encoder = self.model.regions
        tower = encoder.tower if isinstance(encoder, TunedTower) else None
        if not isinstance(encoder, TunedTower) or not isinstance(tower, VisionModule):
            fact = "pools inside its own tower, which does not return its patches"
            raise InputError.at("the image tower", fact, "a tower of transformers, or another pooling")
        with evaluating(self.model):
            joint = tower.patches(pixels.to(self.device))
            features = as_array(encoder.linear(joint.features))

        view = WHOLE if boxes_of_half is None else boxes_of_half[0]  # the box of the one pooled feature
        grid = boxes(tuple(view), joint.rows, joint.columns)
        return Patches(features, grid, as_array(joint.attention))

    def _features(self, encoder: nn.Module, inputs: Tensor, lengths: Tensor) -> np.ndarray:
        """Compute the features of one sample before pooling."""
        with evaluating(self.model):
            return _on_cpu(encoder(inputs.to(self.device), lengths.to(self.device))[0])

    def encode_pictures(self, pictures: Sequence[Image]) -> np.ndarray:
        """Encode k upright RGB pictures: (k, D), or (k, 2 · D), as `encode_text` with `scoring`. ValueError: the run has
        no image tower."""
        _, pixels, lengths = self._prepare(pictures)
        return self._encode_images(pixels, lengths, True)

    def _prepare(self, pictures: Sequence[Image]) -> tuple[ImageHalf, Tensor, Tensor]:
        if self.towers is None or self.towers.image is None:
            raise ValueError("the run has no image tower")
        half = self.towers.image
        pixels = torch.from_numpy(np.stack([half.prepare(picture) for picture in pictures]))
        return half, pixels, half.lengths(pixels)

    def score_texts(self, captions: Sequence[str], parts: np.ndarray, lengths: np.ndarray) -> np.ndarray:
        """Score k free texts with the n images of an analysis, (k, n) float32, by a model that scores pair by pair.
        `parts` and `lengths`: the analysis's image_parts (n, L, D) and image_part_lengths (n,)."""
        tokens = self.reader.encode(list(captions))
        return score_texts(self.model, ImageParts(parts, lengths), tokens)

    def _rows(self, branches: Branches) -> np.ndarray:
        instance = _on_cpu(branches.instance)
        if branches.concept is None:
            return instance
        return mixed_embeddings(instance, _on_cpu(branches.concept), self.config.model.beta)


def _on_cpu(rows: Tensor) -> np.ndarray:
    return np.asarray(rows.float().cpu().numpy())


def read_config(folder: Path) -> tuple[Config, dict[str, Any]]:
    """Read a run's configuration and its [about] table, verified against the run's manifest. InputError: it is damaged,
    or has parts that this version does not know."""
    config, about, unknown = read_known_config(folder)
    stop_on_errors(unknown)
    return config, about


def read_known_config(folder: Path) -> tuple[Config, dict[str, Any], list[Fault]]:
    """Read what this version knows of a run's configuration, its [about] table, and a fault for each other part."""
    check_run(folder)
    path = folder / "config.toml"
    document = read_toml(folder, path.name)
    about = document.pop(ABOUT, {})
    if not isinstance(about, dict):
        raise InputError.at(f"{path} [{ABOUT}]", f"is {about!r:.80}", "a table")
    config, unknown = read_document(document, str(path))
    return config, about, unknown


def read_feature_size(folder: Path, config: Config, about: Mapping[str, Any]) -> int:
    """Return F of the regions that a run was trained on, from its [about] table; 0 if an image tower reads pictures."""
    size = about.get("feature_size")
    least = 0 if config.towers.image_tower else 1
    if not isinstance(size, int) or isinstance(size, bool) or not least <= size <= MOST_FEATURES:
        where = f"{folder / 'config.toml'} [{ABOUT}] key feature_size"
        raise InputError.at(where, f"is {size!r:.80}", f"a value from {least} to {MOST_FEATURES}")
    return size


def read_vocabulary(folder: Path, config: Config) -> Vocabulary | None:
    """Read and verify a run's vocabulary; None for a run with BERT or a text tower."""
    if not config.has_vocabulary:
        return None
    text = SealedFolder(folder).read("words.json").decode("utf-8", "replace")
    return Vocabulary.from_text(text, str(folder / "words.json"))


def read_towers(folder: Path, config: Config, moved: Sequence[str] = ()) -> RunTowers | None:
    """Open a run's towers again and compare them with its record of them; None for a run without. `moved` are the sides
    whose tower the configuration names anew. InputError: a tower is missing, differs from the record, or is a custom
    tower not on the allow-list."""
    if not config.towers.any:
        return None
    noted = SealedFolder(folder).document(TOWERS.removesuffix(".json"))
    if not isinstance(noted, dict):
        raise InputError.at(folder / TOWERS, "is not a JSON object", "the run's record of its towers")
    return open_towers(config, noted, moved, folder.name)


def read_concepts(folder: Path, config: Config) -> Concepts | None:
    """Read and verify a run's concepts; None for a run without a concept branch."""
    if config.model.concepts == 0:
        return None
    files = SealedFolder(folder)
    return Concepts.from_files(files.read(NAMES), files.read(ARRAYS), str(folder))


def load_weights(module: nn.Module, tensors: Mapping[str, Tensor], place: str) -> None:
    """Load weights into a module; errors as for `check_weights`."""
    check_weights(module, tensors, place)
    module.load_state_dict(dict(tensors))


def check_weights(module: nn.Module, tensors: Mapping[str, Tensor], place: str) -> None:
    """Compare weights with their module, which may be on the device "meta". InputError: names or shapes differ."""
    shapes = {name: tuple(weights.shape) for name, weights in module.state_dict().items()}
    faults = [Fault(place, f"lacks {name}") for name in shapes if name not in tensors]
    unknown = [name for name in tensors if name not in shapes]
    faults += [Fault(place, f"has {name}, which the model does not have") for name in unknown]
    for name, tensor in tensors.items():
        shape = tuple(tensor.shape)
        if shape != shapes.get(name, shape):
            faults.append(Fault(place, f"{name} has shape {shape}", f"{shapes[name]}"))
    if faults:
        raise InputError(faults)


def check_size(
    config: Config, save: Save, parts: ModelParts, *, download: bool = False
) -> Callable[[ModelParts], Coder]:
    """Compare a save's weights with the model of a configuration before allocating that model. Returns `build_model`
    with all arguments but the parts, for random weights."""
    build = partial(build_model, config.model, pretrained=False, download=download)
    with shapes_only():
        check_weights(build(parts), save.tensors("model"), str(save.path / "model.safetensors"))
    return build


def best_save(folder: Path) -> Save:
    """Return the best save, or the last state of a run that has not been evaluated yet. InputError: it has neither."""
    save = SaveStore(folder / "best", keep=1).newest() or SaveStore(folder / "state", keep=1).newest()
    if save is None:
        fix = "train it for an epoch first"
        raise InputError.at(folder, "has no saved weights yet", "a run with saved weights", fix)
    return save


def load_model(folder: str | Path, *, device: str = "cpu", towers: RunTowers | None = None) -> LoadedModel:
    """Load a run's model, and its towers from where the run recorded them unless `towers` are given. InputError: the
    folder is not a run, or its files are damaged; the file is named."""
    folder = Path(folder)
    config, about = read_config(folder)
    size = read_feature_size(folder, config, about)
    towers = towers or read_towers(folder, config)
    text_tower = towers.text if towers is not None else None
    reader = make_reader(config, read_vocabulary(folder, config), download=False, tower=text_tower)
    save = best_save(folder)
    concepts = read_concepts(folder, config)
    parts = ModelParts(size, reader.size, concepts=concepts, towers=towers)
    build = check_size(config, save, parts)
    model = build(parts)
    load_weights(model, save.tensors("model"), str(save.path / "model.safetensors"))
    target = torch.device(device)
    return LoadedModel(
        config=config,
        model=model.to(target).eval(),
        reader=reader,
        fingerprint=save.fingerprint,
        save=save.name,
        device=target,
        feature_size=size,
        faults=save.skipped,
        concepts=concepts,
        towers=towers,
    )
