"""BERT by folder: what is refused, what is frozen, and that padding does not leak."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from coder_core.console.faults import InputError
from coder_core.model.encoders.bert import BertWords, check_folder, load_tokeniser
from coder_core.model.reader import piece_reader
from tests.support.tiny_bert import POSITIONS, write_tiny_bert

WORDS = ["red", "star", "left", "of", "a", "ring"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_tiny_bert(tmp_path / "bert", WORDS)


def change_json(path: Path, **values: object) -> None:
    path.write_text(json.dumps(json.loads(path.read_text()) | values))


def test_a_caption_becomes_cls_pieces_sep(folder: Path) -> None:
    """Known words keep their numbers, an unknown one becomes [UNK] = 1."""
    reader = piece_reader(load_tokeniser(str(folder)))
    assert reader.known_and_unknown("a RED, red zebra ?") == (["a", "red"], ["zebra"])
    tokens = reader.encode(["a RED star", "a zebra"])
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *sorted(WORDS)]
    number = {piece: index for index, piece in enumerate(pieces)}
    expected = ["[CLS]", "a", "red", "star", "[SEP]", "[CLS]", "a", "[UNK]", "[SEP]"]
    assert tokens.ids.tolist() == [number[piece] for piece in expected]
    assert tokens.offsets.tolist() == [0, 5, 9]


def test_captions_are_cut_at_the_models_positions(folder: Path) -> None:
    reader = piece_reader(load_tokeniser(str(folder)))
    tokens = reader.encode(["star " * 50, "a star"])
    assert tokens.lengths.tolist() == [POSITIONS, 4]
    assert tokens.ids[POSITIONS - 1] == load_tokeniser(str(folder)).tokenizer.sep_token_id
    model = BertWords(str(folder), 8)
    assert model(torch.from_numpy(tokens.ids[None, :POSITIONS]).long(), torch.tensor([POSITIONS])).shape == (
        1,
        12,
        8,
    )


def test_padding_does_not_change_a_caption(folder: Path) -> None:
    model = BertWords(str(folder), 8).eval()
    words = torch.tensor([[2, 6, 7, 3, 0, 0], [2, 5, 6, 7, 8, 3]])
    lengths = torch.tensor([4, 6])
    alone = model(words[:1, :4], lengths[:1])
    torch.testing.assert_close(model(words, lengths)[:1, :4], alone)
    garbage = words.clone()
    garbage[0, 4:] = 9
    assert torch.equal(model(garbage, lengths)[0, :4], model(words, lengths)[0, :4])


def test_weights_come_from_the_folder_unless_a_checkpoint_follows(folder: Path) -> None:
    first, second = BertWords(str(folder), 8), BertWords(str(folder), 8)
    assert torch.equal(
        first.bert.embeddings.word_embeddings.weight, second.bert.embeddings.word_embeddings.weight
    )
    empty = BertWords(str(folder), 8, pretrained=False)
    assert not torch.equal(
        first.bert.embeddings.word_embeddings.weight, empty.bert.embeddings.word_embeddings.weight
    )
    assert first.state_dict().keys() == empty.state_dict().keys()


def test_a_frozen_bert_trains_only_the_linear_layer(folder: Path) -> None:
    model = BertWords(str(folder), 8, frozen=True)
    model(torch.tensor([[2, 6, 3]]), torch.tensor([3])).sum().backward()
    assert {name for name, p in model.named_parameters() if p.grad is not None} == {
        "linear.weight",
        "linear.bias",
    }


def test_gradient_checkpointing_gives_the_same_gradients(folder: Path) -> None:
    words, lengths = torch.tensor([[2, 6, 7, 3]]), torch.tensor([4])
    torch.manual_seed(1)
    plain = BertWords(str(folder), 8)
    saving = BertWords(str(folder), 8, checkpointing=True)
    saving.load_state_dict(plain.state_dict())
    for model in (plain, saving):
        model.train()
        torch.manual_seed(2)
        model(words, lengths).square().sum().backward()
    for (name, first), second in zip(plain.named_parameters(), saving.parameters(), strict=True):
        torch.testing.assert_close(second.grad, first.grad, msg=name)


def test_a_folder_without_a_tokenizer_is_refused(folder: Path) -> None:
    for file in ("vocab.txt", "tokenizer.json"):
        (folder / file).unlink(missing_ok=True)
    with pytest.raises(InputError, match="has no tokenizer files"):
        load_tokeniser(str(folder))
    with pytest.raises(InputError, match="would become"):
        BertWords(str(folder), 8)


@pytest.mark.parametrize("file", ["config.json", "tokenizer_config.json"])
def test_a_folder_that_names_code_is_refused(folder: Path, file: str) -> None:
    change_json(
        folder / file, auto_map={"AutoModel": "model.Model", "AutoTokenizer": ["model.Tokenizer", None]}
    )
    (folder / "model.py").write_text("raise SystemExit('ran')")
    with pytest.raises(InputError, match=rf"{file} key auto_map: names code to run"):
        load_tokeniser(str(folder))


def test_another_model_type_is_refused(folder: Path) -> None:
    change_json(folder / "config.json", model_type="roberta")
    with pytest.raises(InputError, match=r"key model_type: is 'roberta'; expected 'bert'"):
        load_tokeniser(str(folder))


def test_a_tokenizer_larger_than_the_model_is_refused(tmp_path: Path) -> None:
    folder = write_tiny_bert(tmp_path / "bert", WORDS, vocabulary=7)
    with pytest.raises(InputError, match="its tokenizer has 11 words; expected at most the model's 7"):
        load_tokeniser(str(folder))


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("{", "cannot be read as JSON"),
        ("[]", "no JSON object"),
        ("[" * 100_000, "JSON"),
        (None, "is missing"),
    ],
)
def test_a_missing_or_broken_configuration_is_refused(folder: Path, text: str | None, problem: str) -> None:
    (folder / "config.json").unlink() if text is None else (folder / "config.json").write_text(text)
    with pytest.raises(InputError, match=rf"config\.json: .*{problem}"):
        check_folder(folder)
