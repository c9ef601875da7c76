"""BERT by folder: what is refused, what is frozen, and that padding does not leak."""

import json
from functools import partial
from pathlib import Path

import pytest
import torch

from coder_core.model.encoders.bert import BertWords, check_bert_folder, load_tokeniser
from coder_core.model.reader import piece_reader
from tests.support.precomp_folders import assert_refused
from tests.support.tiny_bert import PIECES, POSITIONS, write_tiny_bert

WORDS = ["red", "star", "left", "of", "a", "ring"]


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    return write_tiny_bert(tmp_path_factory.mktemp("models") / "bert", WORDS)


def test_captions_become_word_pieces_cut_at_the_models_length(shared):
    """Known words keep their numbers, an unknown one becomes [UNK] = 1."""
    reader = piece_reader(load_tokeniser(str(shared)))
    assert reader.known_and_unknown("a RED, red zebra ?") == (["a", "red"], ["zebra"])
    pieces = [*PIECES, *sorted(WORDS)]
    tokens = reader.encode(["a RED star", "a zebra"])
    assert " ".join(pieces[number] for number in tokens.ids) == "[CLS] a red star [SEP] [CLS] a [UNK] [SEP]"
    assert tokens.offsets.tolist() == [0, 5, 9]
    tokens = reader.encode(["star " * 50, "a star"])
    assert tokens.lengths.tolist() == [POSITIONS, 4]
    assert pieces[tokens.ids[POSITIONS - 1]] == "[SEP]"
    words = torch.from_numpy(tokens.ids[None, :POSITIONS]).long()
    assert BertWords(str(shared), 8)(words, torch.tensor([POSITIONS])).shape == (1, POSITIONS, 8)


def test_padding_keeps_embeddings_and_checkpointing_keeps_gradients(shared):
    plain = BertWords(str(shared), 8).eval()
    saving = BertWords(str(shared), 8)
    saving.checkpoint_activations()
    words = torch.tensor([[2, 6, 7, 3, 0, 0], [2, 5, 6, 7, 8, 3]])
    lengths = torch.tensor([4, 6])
    torch.testing.assert_close(plain(words, lengths)[:1, :4], plain(words[:1, :4], lengths[:1]))
    garbage = words.clone()
    garbage[0, 4:] = 9
    assert torch.equal(plain(garbage, lengths)[0, :4], plain(words, lengths)[0, :4])
    saving.load_state_dict(plain.state_dict())
    for model in (plain, saving):
        model.train()
        torch.manual_seed(2)
        model(words, lengths).square().sum().backward()
    for (name, first), second in zip(plain.named_parameters(), saving.parameters(), strict=True):
        torch.testing.assert_close(second.grad, first.grad, msg=name)


def test_pretrained_weights_are_optional_and_a_frozen_bert_is_not_trained(shared):
    models = [BertWords(str(shared), 8, pretrained=pretrained) for pretrained in (True, True, False)]
    weights, same, other = (model.bert.embeddings.word_embeddings.weight for model in models)
    assert torch.equal(weights, same)
    assert not torch.equal(weights, other)
    assert models[0].state_dict().keys() == models[2].state_dict().keys()
    # a frozen BERT trains only the linear layer
    model = BertWords(str(shared), 8, frozen=True)
    model(torch.tensor([[2, 6, 3]]), torch.tensor([3])).sum().backward()
    trained = {name for name, parameter in model.named_parameters() if parameter.grad is not None}
    assert trained == {"linear.weight", "linear.bias"}


def _no_tokenizer(folder):
    for file in ("vocab.txt", "tokenizer.json"):
        (folder / file).unlink(missing_ok=True)


def _with(file, **values):
    def change(folder):
        path = folder / file
        path.write_text(json.dumps(json.loads(path.read_text()) | values))

    return change


CODE = {"auto_map": {"AutoModel": "model.Model", "AutoTokenizer": ["model.Tokenizer", None]}}


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (_no_tokenizer, r"no tokenizer files.* would become"),
        (_with("config.json", **CODE), r"config\.json key auto_map"),
        (_with("tokenizer_config.json", **CODE), r"tokenizer_config\.json key auto_map"),
        (_with("config.json", model_type="roberta"), "model_type: is 'roberta'"),
        (_with("config.json", vocab_size=7), "11 words; expected .* 7"),
    ],
)
def test_a_folder_that_is_unsafe_or_incomplete_is_refused(damage, reason, tmp_path):
    folder = write_tiny_bert(tmp_path / "bert", WORDS)
    (folder / "model.py").write_text("raise SystemExit('ran')")
    damage(folder)
    loads = (load_tokeniser, partial(BertWords, dimension=8), lambda name: check_bert_folder(Path(name)))
    for load in loads[:1] if "words" in reason else loads:
        assert_refused(reason, load, str(folder))
