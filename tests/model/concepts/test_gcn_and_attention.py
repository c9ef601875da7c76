"""Graph convolution and concept attention: by hand, against loops, gradients; sharpness, normalisation, precision."""

from functools import partial

import pytest
import torch

from coder_core.model.coder import ConceptBranch, ConceptGraphNetwork, attend, graph_convolution
from tests.reference import concepts as reference


def draw(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


NETWORK = ConceptGraphNetwork(torch.eye(6), draw(6, 4).float(), 8)
QUERIES = draw(3, 8, seed=12).float()


def test_convolution_and_attention_by_hand():
    """Â X = (3, 2); times −1 is (−3, −2), of which the activation keeps a fifth; times 2 is (6, 4)."""
    graph = torch.tensor([[1.0, 1.0], [0.0, 1.0]])
    nodes = torch.tensor([[1.0], [2.0]])
    actual = graph_convolution(graph, nodes, torch.tensor([[-1.0, 2.0]]))
    torch.testing.assert_close(actual, torch.tensor([[-0.6, 6.0], [-0.4, 4.0]]))
    # q W y = (0.1, 0): λ 10 makes softmax(1, 0) = (0.731, 0.269), λ 1 softmax(0.1, 0)
    nodes = torch.eye(2)
    query = torch.tensor([[0.1, 0.0]])
    weight = torch.eye(2)
    sharp = attend(query, nodes, weight, smoothing=10.0)
    torch.testing.assert_close(sharp.attention, torch.tensor([[0.7310586, 0.2689414]]))
    assert sharp.attention[0, 0] > attend(query, nodes, weight, smoothing=1.0).attention[0, 0]
    longer = attend(3 * query, nodes, weight)  # the query's length counts
    assert longer.attention[0, 0] > sharp.attention[0, 0]
    torch.testing.assert_close(sharp.embeddings.norm(dim=1), torch.ones(1))
    with pytest.raises(ValueError, match="smoothing must be > 0, got 0"):
        attend(query, nodes, weight, smoothing=0.0)


@pytest.mark.parametrize(
    ("layers", "narrow", "hidden", "slopes"),
    [(1, True, [], [0.2]), (2, True, [3], [0.2, 1.0]), (2, False, [6], [0.2, 0.2])],
)
def test_the_network_matches_loops_and_returns_unit_rows(layers, narrow, hidden, slopes):
    """Two layers as in CVSE: half the width in the hidden layer, no activation after the last."""
    graph = draw(5, 5, seed=1).abs()
    vectors = draw(5, 4, seed=2)
    network = ConceptGraphNetwork(graph, vectors, 6, layers=layers, narrow=narrow).double()
    nodes = vectors.tolist()
    for weight, slope in zip(network.weights, slopes, strict=True):
        nodes = reference.convolved(graph.tolist(), nodes, weight.tolist(), slope)
    assert [weight.shape[1] for weight in network.weights] == [*hidden, 6]
    expected = torch.tensor([reference.unit(row) for row in nodes], dtype=torch.float64)
    torch.testing.assert_close(network(), expected)
    torch.testing.assert_close(network().norm(dim=1), torch.ones(5, dtype=torch.float64))


@pytest.mark.parametrize("smoothing", [1.0, 10.0])
def test_attention_matches_reference_loops(smoothing):
    queries = draw(3, 4, seed=3)
    nodes = draw(6, 5, seed=4)
    weight = draw(4, 5, seed=5)
    actual = attend(queries, nodes, weight, smoothing=smoothing)
    for row, query in enumerate(queries.tolist()):
        expected = reference.attention(query, nodes.tolist(), weight.tolist(), smoothing)
        torch.testing.assert_close(actual.attention[row], torch.tensor(expected, dtype=torch.float64))
        mixed = reference.read(expected, nodes.tolist())
        torch.testing.assert_close(actual.embeddings[row], torch.tensor(mixed, dtype=torch.float64))


def test_gradients():
    graph = draw(4, 4, seed=6).abs()
    vectors = draw(4, 3, seed=7)
    weight = draw(3, 5, seed=8).requires_grad_()
    square = draw(2, 5, seed=9).requires_grad_()
    assert torch.autograd.gradcheck(partial(graph_convolution, graph), (vectors.requires_grad_(), weight))
    queries = draw(3, 2, seed=10).requires_grad_()
    nodes = draw(4, 5, seed=11).requires_grad_()
    assert torch.autograd.gradcheck(partial(attend, smoothing=2.0), (queries, nodes, square))


def test_the_branch_has_a_weight_per_modality_and_unit_queries_ignore_length():
    branch = ConceptBranch(NETWORK)
    nodes = branch.nodes()
    exact = branch.embed_images(QUERIES, nodes)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert torch.equal(branch.nodes(), nodes)
        assert torch.equal(branch.embed_images(QUERIES, nodes).attention, exact.attention)
        assert branch.embed_texts(QUERIES.bfloat16(), nodes).embeddings.dtype == torch.float32

    assert not torch.equal(branch.embed_texts(QUERIES, nodes).attention, exact.attention)
    assert branch.count == 6
    # graph and vectors are not weights and are not saved
    assert sorted(branch.state_dict()) == ["image_weight", "network.weights.0", "text_weight"]
    assert not any(buffer.requires_grad for buffer in branch.buffers())
    branch = ConceptBranch(NETWORK, unit_queries=True)
    nodes = branch.nodes()
    actual = branch.embed_images(QUERIES, nodes).attention
    torch.testing.assert_close(branch.embed_images(35 * QUERIES, nodes).attention, actual)
    rows = QUERIES / QUERIES.norm(dim=1, keepdim=True)
    torch.testing.assert_close(actual, attend(rows, nodes, branch.image_weight).attention)
    branch.unit_queries = False
    assert not torch.allclose(branch.embed_images(QUERIES, nodes).attention, actual)
