"""Captions through BERT (transformers), by name or folder: 768 features per word piece -> linear -> D."""

from contextlib import suppress
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from coder_core.console.faults import InputError
from coder_core.model.towers.folders import read_settings
from coder_core.model.towers.pretrained import Tokeniser
from coder_core.ops import padding_mask

TOKENIZER_FILES = ("tokenizer.json", "vocab.txt")


def check_bert_folder(folder: Path) -> None:
    """Reject a BERT folder that would run code of its own or turn every word into [UNK]. InputError: as for
    `read_settings`, a model type other than bert, or no tokenizer files."""
    kind = read_settings(folder).get("model_type")
    if kind != "bert":
        raise InputError.at(f"{folder / 'config.json'} key model_type", f"is {kind!r}", "'bert'")
    if not any((folder / name).is_file() for name in TOKENIZER_FILES):
        fix = "save the tokenizer there too (tokenizer.save_pretrained); without it every word would become [UNK]"
        raise InputError.at(str(folder), "has no tokenizer files", " or ".join(TOKENIZER_FILES), fix)


def load_tokeniser(name: str, *, download: bool = True) -> Tokeniser:
    """Load the tokenizer of a BERT model, `name` or folder; it truncates captions to the model's number of
    positions (512). `download`: fetch missing files; if False, the hub is never contacted, because another person may
    have chosen the name. InputError: it cannot be loaded, is not a BERT, or has more words than the model."""
    from transformers import AutoConfig, AutoTokenizer

    source, options = _source(name, download)
    settings = _load(AutoConfig, source, options)
    tokenizer = _load(AutoTokenizer, source, options)
    if settings.model_type != "bert":
        raise InputError.at(f"--bert {name}", f"is of type {settings.model_type!r}", "'bert'")
    if len(tokenizer) > settings.vocab_size:
        problem = f"its tokenizer has {len(tokenizer)} words"
        fix = "use the tokenizer that was saved with this model"
        raise InputError.at(f"--bert {name}", problem, f"at most the model's {settings.vocab_size}", fix)
    return Tokeniser(tokenizer, min(tokenizer.model_max_length, settings.max_position_embeddings))


def _source(name: str, download: bool) -> tuple[str, dict[str, Any]]:
    """Return a name or folder for transformers to load, and options. Without `download` it is always a folder: given a
    name, transformers contacts the hub even for cached files."""
    options = {"trust_remote_code": False} | ({} if download else {"local_files_only": True, "token": False})
    if Path(name).is_dir():
        check_bert_folder(Path(name))
        return name, options
    if download:
        return name, options
    from huggingface_hub import try_to_load_from_cache
    from huggingface_hub.errors import HFValidationError

    with suppress(HFValidationError):
        file = try_to_load_from_cache(name, "config.json")
        if isinstance(file, str):
            check_bert_folder(Path(file).parent)
            return str(Path(file).parent), options
    fix = (
        f"if you trust it, download it with hf download {name}, or put the folder there, or add --bert {name} to "
        "--resume; a run never downloads a model by itself"
    )
    where = f"the run's bert, {name!r}"
    raise InputError.at(where, "is not on this machine", "a folder, or a downloaded model", fix)


def _load(kind: Any, source: str, options: dict[str, Any], **more: Any) -> Any:
    try:
        return kind.from_pretrained(source, **options, **more)
    except (OSError, ValueError) as error:
        problem = f"{source!r} could not be loaded"
        raise InputError.at("--bert", problem, "a model name to download, or a folder") from error


class BertWords(nn.Module):
    """BERT with a linear layer: word piece ids -> (B, T, D). [CLS] and [SEP] count as words, as in vse_infty.

    Without `pretrained` only the model's configuration is loaded, no weights; `frozen` trains only the linear layer;
    `download` as for `load_tokeniser`.
    """

    def __init__(
        self,
        name: str,
        dimension: int,
        *,
        frozen: bool = False,
        pretrained: bool = True,
        download: bool = True,
    ) -> None:
        super().__init__()
        from transformers import AutoConfig, BertModel

        source, options = _source(name, download)
        if pretrained:
            self.bert = _load(BertModel, source, options, add_pooling_layer=False)
        else:
            self.bert = BertModel(_load(AutoConfig, source, options), add_pooling_layer=False)
        self.linear = nn.Linear(self.bert.config.hidden_size, dimension)
        if frozen:
            self.bert.requires_grad_(False)

    def checkpoint_activations(self) -> None:
        """Recompute BERT's activations in the backward pass."""
        self.bert.activation_checkpointing_enable()

    def forward(self, words: Tensor, lengths: Tensor) -> Tensor:
        """Encode captions: (B, T) int64 ids, (B,) lengths -> (B, T, D)."""
        mask = (~padding_mask(lengths, words.shape[1])).long()
        return self.linear(self.bert(input_ids=words, attention_mask=mask).last_hidden_state)
