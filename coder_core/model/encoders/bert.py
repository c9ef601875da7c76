"""Captions through BERT (transformers), by name or folder: 768 features per word piece -> linear -> D."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from coder_core.console.faults import Fault, InputError
from coder_core.model.towers.pretrained import read_settings
from coder_core.ops import padding_mask

TOKENIZER_FILES = ("tokenizer.json", "vocab.txt")


def check_folder(folder: Path) -> None:
    """Reject a BERT folder that would run code of its own or turn every word into [UNK].

    Raises:
        InputError: as for `read_settings`, a model type other than bert, or no tokenizer files.
    """
    kind = read_settings(folder).get("model_type")
    if kind != "bert":
        raise InputError(Fault(f"{folder / 'config.json'} key model_type", f"is {kind!r}", "'bert'"))
    if not any((folder / name).is_file() for name in TOKENIZER_FILES):
        fix = "save the tokenizer there too (tokenizer.save_pretrained); without it every word would become [UNK]"
        raise InputError(Fault(str(folder), "has no tokenizer files", " or ".join(TOKENIZER_FILES), fix))


def load_tokenizer(name: str, *, download: bool = True) -> Any:
    """Load the tokenizer of a BERT by name or folder; it truncates captions at the model's number of positions.

    Args:
        name: of the model, or its folder.
        download: what this machine lacks. Without, nothing is asked of the hub, for the name may be a stranger's.

    Raises:
        InputError: it cannot be loaded, is no BERT, or has more words than the model.
    """
    from transformers import AutoTokenizer

    source = _source(name, download)
    settings = _load_settings(source, download)
    try:
        tokenizer = AutoTokenizer.from_pretrained(source, **_options(download))
    except (OSError, ValueError) as error:
        raise _not_loaded(name) from error
    if settings.model_type != "bert":
        raise InputError(Fault(f"--bert {name}", f"is of type {settings.model_type!r}", "'bert'"))
    size = settings.vocab_size
    if len(tokenizer) > size:
        problem, fix = (
            f"its tokenizer has {len(tokenizer)} words",
            "take tokenizer and model from the same place",
        )
        raise InputError(Fault(f"--bert {name}", problem, f"at most the model's {size}", fix))
    tokenizer.model_max_length = min(tokenizer.model_max_length, settings.max_position_embeddings)
    return tokenizer


def _load_settings(source: str, download: bool) -> Any:
    from transformers import AutoConfig

    if Path(source).is_dir():
        check_folder(Path(source))
    try:
        return AutoConfig.from_pretrained(source, **_options(download))
    except (OSError, ValueError) as error:
        raise _not_loaded(source) from error


def _source(name: str, download: bool) -> str:
    """Name for transformers to load. Without `download` always a folder, because with a name it asks the hub even for what is
    cached."""
    if download or Path(name).is_dir():
        return name
    from huggingface_hub import try_to_load_from_cache
    from huggingface_hub.errors import HFValidationError

    with suppress(HFValidationError):
        file = try_to_load_from_cache(name, "config.json")
        if isinstance(file, str):
            return str(Path(file).parent)
    fix = (
        f"if you trust it, download it with hf download {name}, or put the folder there, or add --bert {name} to "
        "--resume; a run by itself downloads nothing"
    )
    raise InputError(
        Fault(f"the run's bert, {name!r}", "is not on this machine", "a folder, or a downloaded model", fix)
    )


def _options(download: bool) -> dict[str, Any]:
    return {"trust_remote_code": False} | ({} if download else {"local_files_only": True, "token": False})


def _not_loaded(name: str) -> InputError:
    return InputError(
        Fault("--bert", f"{name!r} could not be loaded", "a model name to download, or a folder")
    )


class BertWords(nn.Module):
    """Word piece ids -> (B, T, D). The word pieces [CLS] and [SEP] count as words, as in vse_infty.

    Args:
        name: a model's name or folder; its weights are loaded when `pretrained`, otherwise only its configuration.
        dimension: D.
        frozen: leave BERT's weights alone.
        checkpointing: recompute activations in the backward pass.
        download: what this machine lacks, as for `load_tokenizer`.
    """

    def __init__(
        self,
        name: str,
        dimension: int,
        *,
        frozen: bool = False,
        checkpointing: bool = False,
        pretrained: bool = True,
        download: bool = True,
    ) -> None:
        super().__init__()
        from transformers import BertModel

        source = _source(name, download)
        settings = _load_settings(source, download)
        if pretrained:
            self.bert = BertModel.from_pretrained(source, add_pooling_layer=False, **_options(download))
        else:
            self.bert = BertModel(settings, add_pooling_layer=False)
        self.linear = nn.Linear(self.bert.config.hidden_size, dimension)
        if frozen:
            self.bert.requires_grad_(False)
        if checkpointing:
            self.bert.activation_checkpointing_enable()

    def forward(self, words: Tensor, lengths: Tensor) -> Tensor:
        """(B, T) int64 ids, (B,) lengths -> (B, T, D)."""
        mask = (~padding_mask(lengths, words.shape[1])).long()
        return self.linear(self.bert(input_ids=words, attention_mask=mask).last_hidden_state)
