"""BERT folders as transformers saves them, with 16-dimensional word pieces and a vocabulary of a few words."""

import torch

PIECES = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
POSITIONS = 12


def write_tiny_bert(folder, words, dropout=0.1):
    """Save a model, its configuration and a tokenizer of these words; return the folder."""
    from transformers import BertConfig, BertModel, BertTokenizer

    folder.mkdir(parents=True)
    pieces = PIECES + sorted(set(words))
    (folder / "vocab.txt").write_text("".join(f"{piece}\n" for piece in pieces))
    BertTokenizer(str(folder / "vocab.txt")).save_pretrained(folder)
    torch.manual_seed(0)
    sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 24}
    sizes |= {"hidden_dropout_prob": dropout, "attention_probs_dropout_prob": dropout}
    config = BertConfig(vocab_size=len(pieces), max_position_embeddings=POSITIONS, **sizes)
    BertModel(config, add_pooling_layer=False).save_pretrained(folder)
    return folder
