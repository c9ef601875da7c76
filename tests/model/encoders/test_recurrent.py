"""The BiGRU and its CPU kernel equal nn.GRU on packed sequences, values and gradients."""

import pytest
import torch
from torch import nn

from coder_core.model.encoders.recurrent import RecurrentWords, mean_states, word_vectors

LENGTHS = torch.tensor([4, 1, 6, 2, 6])


def words_of(lengths, vocabulary=9):
    generator = torch.Generator().manual_seed(1)
    words = torch.randint(2, vocabulary, (len(lengths), int(lengths.max())), generator=generator)
    return words.masked_fill(torch.arange(words.shape[1]) >= lengths[:, None], 0)


def encoder(layers=1, dtype=torch.float64, dimension=5):
    torch.manual_seed(0)
    return RecurrentWords(word_vectors(9, 4), dimension, layers=layers).to(dtype)


def with_torch(encoder, words, lengths):
    """Return the states by the plain definition: pack, nn.GRU, pad, average the directions."""
    vectors = encoder.vectors(words)
    longest = words.shape[1]
    size = encoder.gru.hidden_size
    packed = nn.utils.rnn.pack_padded_sequence(vectors, lengths, batch_first=True, enforce_sorted=False)
    states = encoder.gru(packed)[0]
    hidden, _ = nn.utils.rnn.pad_packed_sequence(states, batch_first=True, total_length=longest)
    return (hidden[..., :size] + hidden[..., size:]) / 2


@pytest.mark.parametrize("layers", [1, 2, 3])
@pytest.mark.parametrize(
    "lengths", [LENGTHS, torch.ones(3, dtype=torch.long), torch.tensor([1]), torch.full((4,), 3)]
)
def test_the_gru_equals_pytorchs_in_values_and_gradients(layers, lengths):
    words = words_of(lengths)
    model = encoder(layers)
    weight = torch.randn(len(lengths), words.shape[1], 5, generator=torch.Generator().manual_seed(2)).double()
    states = model(words, lengths)
    torch.testing.assert_close(states, with_torch(model, words, lengths))
    torch.testing.assert_close(mean_states(model.gru, model.vectors(words), lengths), states)
    leaves = list(model.parameters())
    both = states, with_torch(model, words, lengths)
    actual, expected = (torch.autograd.grad((rows * weight).sum(), leaves) for rows in both)
    torch.testing.assert_close(actual, expected)


def test_the_gru_equals_pytorchs_in_float32_at_a_real_size():
    torch.manual_seed(0)
    model = RecurrentWords(word_vectors(200, 300), 64)
    lengths = torch.randint(1, 30, (32,), generator=torch.Generator().manual_seed(3))
    words = words_of(lengths, 200)
    torch.testing.assert_close(model(words, lengths), with_torch(model, words, lengths), atol=1e-5, rtol=1e-5)


def test_padded_positions_are_zero_and_padding_is_never_read():
    words = words_of(LENGTHS)
    model = encoder()
    beyond = torch.arange(6) >= LENGTHS[:, None]
    states = model(words, LENGTHS)
    assert not states[beyond].any()
    # Not bit for bit, because products with fewer distinct words round differently
    torch.testing.assert_close(model(words.masked_fill(beyond, 7), LENGTHS), states, rtol=0, atol=1e-15)
    model(words.masked_fill(beyond, 8), LENGTHS).sum().backward()
    assert {int(row) for row in model.vectors.weight.grad.any(1).nonzero()} == set(words[~beyond].tolist())


@pytest.mark.parametrize("layers", [1, 2])
def test_values_without_gradients_are_equal_and_words_drop_only_in_training(layers):
    """Nothing is kept for a backward pass then, as in the momentum encoder, whose weights take no gradients."""
    words = words_of(LENGTHS)
    model = encoder(layers, torch.float32)
    expected = model(words, LENGTHS).detach()
    with torch.no_grad():
        assert torch.equal(model(words, LENGTHS), expected)
    assert torch.equal(model.requires_grad_(False)(words, LENGTHS), expected)
    model = RecurrentWords(word_vectors(9, 4), 5, dropout=0.5)
    assert not torch.equal(model(words, LENGTHS), model(words, LENGTHS))
    assert torch.equal(model.eval()(words, LENGTHS), model(words, LENGTHS))
