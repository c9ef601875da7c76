"""A BERT folder as transformers saves one, with 16 numbers a word piece and a vocabulary of a few words."""

from __future__ import annotations

from pathlib import Path

import torch
from transformers import BertConfig, BertModel, BertTokenizer

PIECES = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
POSITIONS = 12


def write_tiny_bert(
    folder: Path, words: list[str], *, vocabulary: int | None = None, layers: int = 1
) -> Path:
    """Save a model, its configuration and its tokenizer.

    Args:
        folder: made.
        words: the tokenizer's words.
        vocabulary: rows of the model's embedding; as many as the tokenizer has when None.
        layers: of the transformer.
    """
    folder.mkdir(parents=True)
    pieces = PIECES + sorted(set(words))
    (folder / "vocab.txt").write_text("".join(f"{piece}\n" for piece in pieces))
    BertTokenizer(str(folder / "vocab.txt")).save_pretrained(folder)
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=vocabulary or len(pieces),
        hidden_size=16,
        num_hidden_layers=layers,
        num_attention_heads=2,
        intermediate_size=24,
        max_position_embeddings=POSITIONS,
    )
    BertModel(config, add_pooling_layer=False).save_pretrained(folder)
    return folder
