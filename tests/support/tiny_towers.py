"""Folders of tiny dual encoders as transformers saves them, with random weights."""

import torch

SIZE = 32
WIDTH = 32
LONGEST = 16
_LAYERS = {"hidden_size": WIDTH, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2}
TEXT = _LAYERS | {"max_position_embeddings": LONGEST}
VISION = _LAYERS | {"patch_size": 8}


def write_tiny_clip(folder, *, seed=0, space=24, ends_last=False):
    """Write a CLIP folder: 32 × 32 pixels, letters as tokens, `space`-dimensional embeddings. `ends_last`: start and end
    of a text are the last two tokens, as in CLIP; otherwise the first."""
    from transformers import CLIPConfig, CLIPImageProcessorPil, CLIPModel, CLIPTokenizer

    letters = [letter + end for letter in "abcdefghijklmnopqrstuvwxyz0123456789,:" for end in ("", "</w>")]
    ends = ["<|startoftext|>", "<|endoftext|>"]
    tokens = [*letters, *ends] if ends_last else [*ends, *letters]
    vocabulary = {token: number for number, token in enumerate(tokens)}
    start, end = (vocabulary[token] for token in ends)
    special = {"bos_token_id": start, "eos_token_id": end, "pad_token_id": end, "vocab_size": len(vocabulary)}
    torch.manual_seed(seed)
    text = TEXT | special
    vision = VISION | {"image_size": SIZE}
    config = CLIPConfig(text_config=text, vision_config=vision, projection_dim=space)
    _spread(CLIPModel(config)).save_pretrained(folder)
    CLIPTokenizer(vocab=vocabulary, merges=[], model_max_length=LONGEST).save_pretrained(folder)
    crop = {"height": SIZE, "width": SIZE}
    CLIPImageProcessorPil(size={"shortest_edge": SIZE}, crop_size=crop).save_pretrained(folder)
    return folder


def write_tiny_siglip(folder, words, *, seed=0):
    """Write a SigLIP folder: 32 × 32 pixels, words as tokens."""
    from transformers import SiglipConfig, SiglipImageProcessorPil, SiglipModel

    SiglipImageProcessorPil(size={"height": SIZE, "width": SIZE}).save_pretrained(folder)
    return _write(folder, SiglipModel, SiglipConfig, {"image_size": SIZE}, words, seed)


def write_tiny_naflex(folder, words, *, seed=0):
    """Write a SigLIP 2 folder for any aspect ratio: at most 16 patches of 8 × 8 pixels."""
    from transformers import Siglip2Config, Siglip2ImageProcessorPil, Siglip2Model

    Siglip2ImageProcessorPil(patch_size=8, max_num_patches=16).save_pretrained(folder)
    return _write(folder, Siglip2Model, Siglip2Config, {"num_patches": 16}, words, seed)


def _write(folder, model, kind, vision, words, seed):
    torch.manual_seed(seed)
    text = TEXT | {"vocab_size": len(words) + 2, "projection_size": WIDTH}
    _spread(model(kind(text_config=text, vision_config=VISION | vision))).save_pretrained(folder)
    _word_tokenizer(words).save_pretrained(folder)
    return folder


def _spread(model):
    """Enlarge a model's weights, so that embeddings of different inputs differ clearly."""
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim > 1:
                parameter.mul_(4)
    return model


def _word_tokenizer(words):
    """Return a tokenizer with one token per word; like SigLIP's, it also returns a mask, which SigLIP must not use."""
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    vocabulary = {word: number for number, word in enumerate(["<pad>", "<unk>", *words])}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    special = {"pad_token": "<pad>", "unk_token": "<unk>"}
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, model_max_length=LONGEST, **special)


def embedded_by_transformers(folder, pictures, captions, *, pad=False):
    """Embed images and captions with transformers, in one batch; `pad`: to full length without mask, as SigLIP does."""
    from transformers import AutoImageProcessor, AutoModel, AutoTokenizer

    shape = {"padding": "max_length" if pad else True, "truncation": True, "max_length": LONGEST}
    tokens = AutoTokenizer.from_pretrained(folder)(list(captions), return_tensors="pt", **shape)
    tokens = {"input_ids": tokens["input_ids"]} if pad else dict(tokens)
    images = [picture.convert("RGB") for picture in pictures]
    pixels = AutoImageProcessor.from_pretrained(folder, backend="pil")(images=images, return_tensors="pt")
    with torch.inference_mode():
        output = AutoModel.from_pretrained(folder, use_safetensors=True).eval()(**pixels, **tokens)
    return output.image_embeds.numpy(), output.text_embeds.numpy()
