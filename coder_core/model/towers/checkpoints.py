"""Models as people have them: a folder of transformers, or a checkpoint of another trainer with a base model.

A checkpoint is a file of weights (of PyTorch, Lightning or open_clip), an adapter of peft, a folder of open_clip, or the
output folder of a Trainer. What it lacks (configuration, image processor, tokenizer) comes from its base model. Files of
PyTorch are opened with `weights_only=True`, which runs no program in them.
"""

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from torch import Tensor

from coder_core.console.faults import Fault, InputError
from coder_core.files.sealed import file_sha256
from coder_core.model.towers import open_clip
from coder_core.model.towers.folders import (
    check_files,
    check_model_folder,
    find_model,
    has_processor,
    has_tokenizer,
    model_fingerprint,
    read_object,
    read_settings,
)

PICKLED_SUFFIXES = (".pt", ".pth", ".ckpt", ".bin", ".tar")
# first bytes of a file by torch.save, today and before PyTorch 1.6
ZIP = b"PK"
PICKLE = b"\x80\x02"
SUFFIXES = (*PICKLED_SUFFIXES, ".safetensors")
STATES = ("state_dict", "model_state_dict", "model", "module", "weights", "net")  # usual keys of the weights
WRAPPERS = re.compile(r"(_orig_mod|_fsdp_wrapped_module|_checkpoint_wrapped_module)\.")
ADAPTER = "adapter_config.json"
EXAMPLE = "--base openai/clip-vit-large-patch14"
NEED_BASE = f"name a model of transformers with the same architecture, for example {EXAMPLE}"
KNOWN_BUFFERS = ("position_ids", "num_batches_tracked", "attn_mask")  # constants that older versions saved
Kind = Literal["folder", "file", "adapter", "open_clip"]


@dataclass(frozen=True)
class ModelChoice:
    """A pretrained model as a person or a run names it."""

    name: str  # a folder, a file of weights, or the name of a downloaded model
    revision: str = ""  # branch, tag or commit of a downloaded model
    base: str = ""  # model with the configuration, image processor and tokenizer that the weights lack
    source: str = ""  # what gave the name, for messages; "" is the flag --model
    expected: str = ""  # fingerprint that the model must have; "" accepts any
    fix: str = "restore the model"  # advice if it has another

    @property
    def where(self) -> str:
        """Place of its faults."""
        return self.source or f"--model {self.name}"

    def same_as(self, other: "ModelChoice") -> bool:
        """Return True if both name the same model."""
        return (self.name, self.base, self.expected) == (other.name, other.base, other.expected)


@dataclass(frozen=True)
class ModelFiles:
    """The files of a model on this machine."""

    found: Path  # the folder or file that was named
    kind: Kind  # what `weights` is
    weights: Path
    # folders with config.json, image processor and tokenizer
    settings: Path
    processor: Path
    tokenizer: Path
    commit: str = ""  # of a downloaded model
    base: str = ""  # the base model, if one is used
    notes: tuple[Fault, ...] = ()

    def fingerprint(self) -> str:
        """Return the SHA-256 (hex) of all weights, settings and tokenizers that are read."""
        folders = [self.settings, self.processor, self.tokenizer]
        if self.weights.is_dir():
            folders.insert(0, self.weights)
        prints = [model_fingerprint(folder) for folder in dict.fromkeys(folders)]
        if len(prints) == 1 and self.weights.is_dir():
            return prints[0]
        file = "" if self.weights.is_dir() else file_sha256(self.weights)
        return hashlib.sha256("\n".join([file, *prints]).encode()).hexdigest()

    def read_settings(self, where: str, *, pictures: bool) -> dict[str, Any]:
        """Return the configuration, checked to be safe. InputError: it is unsafe, or a part of the model is missing."""
        if pictures and self.kind != "open_clip" and not has_processor(self.processor):
            fix = "save the image processor there too (processor.save_pretrained), or name a model that has it: --base"
            raise InputError.at(where, "has no image processor", "preprocessor_config.json", fix)
        if self.kind == "folder":
            return check_model_folder(self.settings, pictures=False)
        if self.kind == "open_clip":
            return dict(self.open_clip_configuration().to_dict())
        return read_settings(self.settings)

    def open_clip_configuration(self) -> Any:
        """Return the CLIPConfig of a folder of open_clip."""
        file = self.settings / open_clip.SETTINGS
        return open_clip.configuration(read_object(file), str(file))


def find_files(choice: ModelChoice) -> ModelFiles:
    """Find a model and what it needs on this machine. InputError: it is not here, or lacks a part that neither it nor its
    base model has; the message names its kind and what to do."""
    path = Path(choice.name)
    if path.is_file():
        return _of_file(path, choice)

    folder, commit = find_model(choice.name, choice.revision, choice.where)
    if (folder / "config.json").is_file():
        return _with_base(ModelFiles(folder, "folder", folder, folder, folder, folder, commit), choice)
    if (folder / ADAPTER).is_file():
        return _of_adapter(folder, commit, choice)
    if (folder / open_clip.SETTINGS).is_file():
        return _of_open_clip(folder, commit, choice)

    saved = _checkpoints(folder)
    if saved:
        files = find_files(replace(choice, name=str(saved[-1])))
        names = ", ".join(file.name for file in saved[-3:])
        note = Fault(
            choice.where, f"contains {names}; {saved[-1].name}, the newest, is used", severity="note"
        )
        return replace(files, notes=(note, *files.notes))

    raise _no_model(folder, choice)


def _of_file(file: Path, choice: ModelChoice) -> ModelFiles:
    """Return a file of weights with its base, or with the model in whose folder it is."""
    if file.suffix.lower() not in SUFFIXES:
        expected = f"a folder of transformers, or a file of weights ({', '.join(SUFFIXES)})"
        raise InputError.at(choice.where, "is a file of another kind", expected, "check the path")
    if not choice.base and (file.parent / "config.json").is_file():
        folder = file.parent
        return ModelFiles(file, "file", file, folder, folder, folder)
    if not choice.base:
        state, _ = read_weights(file, choice.where)
        prefix = open_clip.prefix_of(state)
        named = {name.removeprefix(prefix or ""): tensor for name, tensor in state.items()}
        kind = "" if prefix is None else f" of open_clip, {open_clip.architecture_of(named)}"
        problem = f"has weights{kind}, but no configuration, image processor and tokenizer"
        raise InputError.at(choice.where, problem, "its base model", NEED_BASE)
    folder, commit = _base(choice)
    return ModelFiles(file, "file", file, folder, folder, folder, commit, choice.base)


def _of_adapter(folder: Path, commit: str, choice: ModelChoice) -> ModelFiles:
    check_files(folder)
    settings = read_object(folder / ADAPTER)
    named = settings.get("base_model_name_or_path")
    base = choice.base or (named if isinstance(named, str) else "")
    if not base:
        raise InputError.at(
            choice.where, "is an adapter of peft that names no base model", "--base", NEED_BASE
        )

    where = "" if choice.base else f"the base of {choice.where}, {base}"
    owner, base_commit = _base(replace(choice, base=base), where)
    notes = []
    if not choice.base:
        notes.append(
            Fault(choice.where, f"is an adapter of {base}, as its {ADAPTER} names it", severity="note")
        )

    return ModelFiles(
        found=folder,
        kind="adapter",
        weights=folder,
        settings=owner,
        processor=folder if has_processor(folder) else owner,
        tokenizer=folder if has_tokenizer(folder) else owner,
        commit=commit or base_commit,
        base=base,
        notes=tuple(notes),
    )


def _of_open_clip(folder: Path, commit: str, choice: ModelChoice) -> ModelFiles:
    check_files(folder)
    weights = [folder / name for name in open_clip.WEIGHTS if (folder / name).is_file()]
    if not weights:
        expected = " or ".join(open_clip.WEIGHTS)
        raise InputError.at(
            choice.where, "is a folder of open_clip without weights", expected, "download it again"
        )

    files = ModelFiles(folder, "open_clip", weights[0], folder, folder, folder, commit)
    if has_tokenizer(folder):
        return files
    if not choice.base:
        fix = f"name a model of transformers that has the same tokenizer, for example {EXAMPLE}"
        raise InputError.at(
            choice.where, "is a folder of open_clip without a tokenizer", "tokenizer.json", fix
        )

    return replace(files, tokenizer=_base(choice)[0], base=choice.base)


def _with_base(files: ModelFiles, choice: ModelChoice) -> ModelFiles:
    """Take the image processor and the tokenizer that a folder lacks from its base, if one is named."""
    if not choice.base:
        return files
    owner, _ = _base(choice)
    processor = files.processor if has_processor(files.processor) else owner
    tokenizer = files.tokenizer if has_tokenizer(files.tokenizer) else owner
    return replace(files, processor=processor, tokenizer=tokenizer, base=choice.base)


def _base(choice: ModelChoice, where: str = "") -> tuple[Path, str]:
    """Return the folder of the base model, and its commit. InputError: it is not on this machine, or not a model of
    transformers."""
    where = where or f"--base {choice.base}"
    folder, commit = find_model(choice.base, choice.revision, where)
    if not (folder / "config.json").is_file():
        raise InputError.at(where, "has no config.json", "a folder of save_pretrained", NEED_BASE)
    check_files(folder)
    return folder, commit


def _checkpoints(folder: Path) -> list[Path]:
    """Return a Trainer's folders checkpoint-N that hold a model, by N."""
    found = []
    for entry in folder.glob("checkpoint-*"):
        number = entry.name.removeprefix("checkpoint-")
        holds_a_model = (entry / "config.json").is_file() or (entry / ADAPTER).is_file()
        if number.isdecimal() and holds_a_model:
            found.append((int(number), entry))
    return [entry for _, entry in sorted(found)]


def _no_model(folder: Path, choice: ModelChoice) -> InputError:
    """Describe a folder without a model: the files of weights in it, or what it lacks."""
    weights = sorted(file for file in folder.rglob("*") if file.suffix in PICKLED_SUFFIXES and file.is_file())
    if weights:
        names = ", ".join(str(file.relative_to(folder)) for file in weights[:3])
        fix = f"name the file and its base model: {weights[-1]} {EXAMPLE}"
        return InputError.at(choice.where, f"has no config.json; it contains {names}", "a model", fix)
    return InputError.at(
        folder / "config.json", "is missing", "a folder of save_pretrained", "check the folder"
    )


def read_weights(file: Path, where: str) -> tuple[dict[str, Tensor], list[Fault]]:
    """Read the tensors of a file by name, without compiler wrappers in their names, and notes. InputError: it cannot be
    read safely, or holds no tensors, or several models."""
    state: Mapping[str, Tensor]
    key = ""
    if file.suffix.lower() == ".safetensors":
        state = _read_safetensors(file, where)
    else:
        state, key = _read_pickled(file, where)
    notes = [Fault(where, f"its entry {key!r} has the weights", severity="note")] if key else []
    return {WRAPPERS.sub("", name): tensor for name, tensor in state.items()}, notes


def _read_safetensors(file: Path, where: str) -> dict[str, Tensor]:
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    try:
        return dict(load_file(file))
    except (SafetensorError, OSError, ValueError) as error:
        raise InputError.at(where, f"cannot be read: {error}", "safetensors", "save it again") from None


def _read_pickled(file: Path, where: str) -> tuple[Mapping[str, Tensor], str]:
    """Return the state dict of a file by torch.save, and the key that it has in there."""
    import torch

    with file.open("rb") as stream:
        start = stream.read(2)
    if start not in (ZIP, PICKLE):
        fix = "save the weights with torch.save(model.state_dict(), FILE)"
        raise InputError.at(where, "is not a file of torch.save", "a state dict of tensors", fix)
    try:
        content = torch.load(file, map_location="cpu", weights_only=True)
    except Exception as error:  # a damaged file may raise anything
        reason = str(error)
        if "TorchScript" in reason:
            problem = "is a TorchScript archive, which is a program"
            fix = "if you trust it, save its weights: torch.save(torch.jit.load(FILE).state_dict(), 'weights.pt')"
        elif "weights_only" in reason or "WeightsUnpickler" in reason or "nsupported global" in reason:
            problem = "holds Python objects besides tensors, which can run programs"
            fix = (
                "if you trust it, save its weights alone: torch.save(torch.load(FILE, weights_only=False)"
                "['state_dict'], 'weights.pt')"
            )
        else:
            problem = f"cannot be read: {' '.join(reason.split())[:200]}"
            fix = "save it again with torch.save(model.state_dict(), FILE)"
        raise InputError.at(where, problem, "a state dict of tensors", fix) from error
    if _is_state(content):
        return content, ""
    inner = {}
    if isinstance(content, Mapping):
        inner = {str(key): value for key, value in content.items() if _is_state(value)}
    usual = [key for key in STATES if key in inner] or list(inner)
    if len(usual) == 1 or (usual and usual[0] in STATES):
        return inner[usual[0]], usual[0]
    found = f"holds several: {', '.join(usual)}" if usual else "holds none"
    fix = "save the one you mean: torch.save(model.state_dict(), FILE)"
    raise InputError.at(where, f"{found}, where one state dict of tensors is needed", "", fix)


def _is_state(value: object) -> bool:
    if not isinstance(value, Mapping) or not value:
        return False
    return all(isinstance(name, str) and isinstance(tensor, Tensor) for name, tensor in value.items())


def fitted(
    state: Mapping[str, Tensor], names: Iterable[str], where: str
) -> tuple[dict[str, Tensor], list[Fault]]:
    """Return the weights of a state dict under the names of a model, and notes: open_clip's names are translated, and a
    prefix such as "module." is removed. InputError: adapters that are not merged, or two models."""
    notes = []
    prefix = open_clip.prefix_of(state)
    if prefix is not None:
        state = {
            name.removeprefix(prefix): tensor for name, tensor in state.items() if name.startswith(prefix)
        }
        state = open_clip.renamed(state, where)
        notes.append(Fault(where, "has open_clip's names; its weights are read as CLIP's", severity="note"))

    if any(".lora_" in name for name in state):
        fix = (
            "merge it before saving: merge_and_unload().save_pretrained(FOLDER), or name the adapter's folder"
        )
        raise InputError.at(
            where, "has the weights of an adapter beside those of the model", "one model", fix
        )

    known = set(names)
    counts = Counter(
        name[: len(name) - len(ending)] for name in state for ending in _endings(name) if ending in known
    )
    prefixes = [prefix for prefix, count in counts.items() if count == max(counts.values())]
    if len(prefixes) > 1 and "" not in prefixes:
        problem = f"has the weights of several models: {', '.join(sorted(prefixes))}"
        raise InputError.at(where, problem, "one model", "save the one you mean")

    prefix = "" if not prefixes or "" in prefixes else prefixes[0]
    if prefix:
        notes.append(Fault(where, f"the prefix {prefix!r} of its weights' names is removed", severity="note"))

    kept = {name.removeprefix(prefix): tensor for name, tensor in state.items() if name.startswith(prefix)}
    left = sorted({name.removeprefix(prefix) for name in state} - known)
    left = [name for name in left if name.rpartition(".")[2] not in KNOWN_BUFFERS]
    if left:
        text = f"{len(left)} weights that the model does not have are left out; the first: {left[0]}"
        notes.append(Fault(where, text, severity="note"))

    return {name: tensor for name, tensor in kept.items() if name in known}, notes


def _endings(name: str) -> Iterable[str]:
    """Yield a name, and what follows each of its dots."""
    parts = name.split(".")
    return (".".join(parts[start:]) for start in range(len(parts)))
