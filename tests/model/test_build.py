"""Names in a configuration become their modules, and its settings reach the model."""

import torch

from coder_core.config.model import ModelConfig
from coder_core.model.coder import ModelParts, build_model
from coder_core.model.encoders import local as pooling
from coder_core.model.encoders.bert import BertWords
from coder_core.model.encoders.recurrent import RecurrentWords
from coder_core.model.scoring import InteractionScorer, PVSEScorer
from tests.support.tiny_bert import write_tiny_bert


def built(words=9, **model):
    return build_model(ModelConfig(**model), ModelParts(4, words))


def test_models_have_the_configured_sizes_and_encode_an_image_of_zeros():
    """Supplement A.1: 2048 → 1024 for regions, 300-d words through a BiGRU, GPO of 32 on both sides."""
    model = build_model(ModelConfig(), ModelParts(2048, 50))
    assert model.regions.linear.weight.shape == (1024, 2048)
    assert isinstance(model.words, RecurrentWords)
    assert model.words.vectors.weight.shape == (50, 300)
    assert (model.words.gru.hidden_size, model.words.gru.bidirectional) == (1024, True)
    for part in (model.image_pooling, model.text_pooling):
        assert isinstance(part, pooling.GeneralisedPooling)
        assert (part.code_size, pooling.TEMPERATURE) == (32, 0.1)

    assert model.image_pooling is not model.text_pooling
    dropouts = {"image_dropout": 0.1, "word_dropout": 0.2, "embedding_dropout": 0.3}
    settings = {"dimension": 8, "word_size": 3, "image_layers": 3, "text_layers": 2, **dropouts}
    vectors = torch.rand(5, 3)
    model = build_model(ModelConfig(**settings), ModelParts(4, 5, vectors=vectors))
    assert (model.regions.dropout.p, model.words.dropout.p, model.dropout.p) == (0.1, 0.2, 0.3)
    assert model.words.gru.num_layers == 2
    assert not model.regions.one_mask
    assert built(image_dropout_mask="image", **settings).regions.one_mask
    assert torch.equal(model.words.vectors.weight, vectors)
    lengths = torch.full((6,), 2), torch.full((6,), 3)
    images, texts = model(torch.rand(6, 2, 4), lengths[0], torch.ones(6, 3).long(), lengths[1])[:2]
    assert images.shape == texts.shape == (6, 8)
    torch.testing.assert_close(images.norm(dim=1), torch.ones(6))
    model = built(dimension=8, image_layers=0)
    torch.nn.init.zeros_(model.regions.linear.bias)
    embeddings = model.encode_images(torch.zeros(2, 3, 4), torch.tensor([3, 3]))
    assert not embeddings.any()
    embeddings.sum().backward()
    assert model.regions.linear.weight.grad.isfinite().all()


def test_poolings_scorers_and_bert_are_built_by_name(tmp_path):
    kinds = {"gpo": pooling.GeneralisedPooling, "mean": pooling.MeanPooling, "max": pooling.MaxPooling}
    for name, kind in kinds.items():
        model = built(dimension=8, image_pooling=name, text_pooling="max")
        assert isinstance(model.image_pooling, kind)
        assert isinstance(model.text_pooling, pooling.MaxPooling)
    several = built(dimension=8, word_size=4, embeddings=3)
    assert isinstance(several.scorer, PVSEScorer)
    assert isinstance(several.image_pooling, pooling.PVSEPooling)
    assert several.image_pooling.heads.weight.shape == (3, 4)
    local = built(dimension=8, word_size=4, scorer="interaction", interaction_size=5)
    assert isinstance(local.scorer, InteractionScorer)
    assert (local.scorer.sharpness, local.scorer.align.weight.shape) == (9.0, (5, 8))
    assert not any(name.startswith(("image_pooling", "text_pooling")) for name, _ in local.named_parameters())
    folder = write_tiny_bert(tmp_path / "bert", ["a", "star"])
    model = built(7, text_encoder="bert", bert=str(folder), dimension=8)
    assert isinstance(model.words, BertWords)
    assert model.words.linear.weight.shape == (8, 16)
    assert model.encode_texts(torch.tensor([[2, 5, 3]]), torch.tensor([3])).shape == (1, 8)
