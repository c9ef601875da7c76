"""Named configurations. Those of f30k and coco carry the values that CODER prints."""

from dataclasses import dataclass
from typing import Any

from coder_core.config.schema import Config, with_settings
from coder_core.console.faults import InputError


@dataclass(frozen=True)
class Preset:
    """A configuration and one sentence on its purpose."""

    config: Config
    about: str


Settings = dict[str, Any]  # key → value; what is not named has the schema's default
ZERO_SHOT = "clip-zero-shot"
DEMO_RUNS = ("demo-baseline", "coder-demo", "demo-weights")

# The built-in pictures: captions of few words, about 600 dev and 3,800 train pairs, 59 steps an epoch.
DEMO: Settings = {"data": "demo", "word_threshold": 2, "dimension": 256, "epochs": 10, "batch_size": 64}
DEMO |= {"learning_rate": 1e-3, "schedule": "cosine", "warmup_steps": 20, "save_every": 20.0}
# Switched to the hardest negative too early (3 of 10 epochs), this loss collapses: cosines of 0.88 and 0.87.
DEMO_TRIPLET = DEMO | {"loss": "btr-hardest", "warmup_epochs": 7.0, "weight_instance": 1.0}
# With λ of 6.125 batches, as the paper has it, this training is unstable: R@sum 301 after two epochs, then 180.
DEMO_WEIGHTS = DEMO | {"loss": "npairs-hinge", "weight_instance": 1.0}
DEMO_WEIGHTS |= {"sample_weights": "combined", "weight_scale": 1.0, "neighbours": 20}
DEMO_DCL = DEMO | {"temperature": 0.05, "bank_size": 512, "momentum": 0.97, "bank_start_epoch": 1.0}
# Eleven settings each were tried for the baseline and for CODER (docs/results.md).
DEMO_CODER = DEMO_DCL | {"learning_rate": 2e-3, "concepts": 60, "concept_query": "unit"}
DEMO_CODER |= {"prototypes": 50, "weight_prototypes": 0.03, "prototype_temperature": 0.1}

# Flickr8k, chosen on dev (lab/components.md lists what was tried). Learned word vectors help both losses. The dropout
# that helps DCL makes the hardest-negative loss collapse: it takes a longer warm-up, and dropout on the word vectors
# alone. These regions are windows of a feature map whose lengths say little: at one length they serve both losses.
FLICKR8K: Settings = {"data": "f8k_precomp", "word_vectors": "learned", "dimension": 256}
FLICKR8K |= {"region_norm": "rms", "epochs": 8, "learning_rate": 1e-3, "schedule": "cosine"}
FLICKR8K |= {"warmup_steps": 200, "weight_decay": 0.1}
FLICKR8K_TRIPLET = FLICKR8K | {"word_dropout": 0.2, "loss": "btr-hardest", "warmup_epochs": 2.0}
FLICKR8K_TRIPLET |= {"weight_instance": 1.0}
# The same recipe, so that the two differ by boosting alone. Less than 5% of the teacher's random start is left after
# the 1,872 steps of eight epochs. At the paper's weight of 1 boosting loses ten points, at a fifth it gains; it begins
# where the loss's own warm-up ends.
FLICKR8K_BOOSTED = FLICKR8K_TRIPLET | {"boosting": "rm", "boosting_weight": 0.2}
FLICKR8K_BOOSTED |= {"boosting_start_epoch": 2.0, "boosting_momentum": 0.9965}
# The baseline's model under the loss that the weights of complementary samples were made for.
FLICKR8K_NPAIRS = FLICKR8K | {"word_dropout": 0.2, "loss": "npairs-hinge", "weight_instance": 1.0}
FLICKR8K_DIVERSITY = FLICKR8K_NPAIRS | {"sample_weights": "diversity"}
FLICKR8K_DISCREPANCY = FLICKR8K_NPAIRS | {"sample_weights": "discrepancy"}
FLICKR8K_COMBINED = FLICKR8K_NPAIRS | {"sample_weights": "combined-stats"}
FLICKR8K_DCL = FLICKR8K | {"image_dropout": 0.1, "word_dropout": 0.3, "embedding_dropout": 0.1}
FLICKR8K_DCL |= {"temperature": 0.05, "weight_memory": 0.3}
FLICKR8K_DCL |= {"bank_size": 1024, "momentum": 0.97, "bank_start_epoch": 1.0}
# Both concept queries at length 1, and a cross-entropy that does not drown the other losses, sharpened, or its
# classifier learns little in eight epochs. The concept branch has twice the paper's share of a score and of the loss
# (its printed sum counts it twice); both were chosen on dev.
FLICKR8K_CODER = FLICKR8K_DCL | {"concepts": 400, "concept_query": "unit", "weight_concept": 2.0, "beta": 0.8}
FLICKR8K_CODER |= {"prototypes": 1_000, "weight_prototypes": 0.03, "prototype_temperature": 0.1}
FLICKR8K_CODER_GPU = FLICKR8K_CODER | {"dimension": 1024, "bank_size": 4096, "epochs": 12, "device": "cuda"}

# The values the paper prints: μ, γ, ε, λ = 3, β, D, epochs, batch, rate and its step, a bank of 4,096, momentum, 400
# concepts (sections 4.1 and 4.2) and the prototypes of section 4.2. On the rest it is silent, and the schema's help
# names the source: AdamW instead of its Adam, clipping, dropping, BERT's rate and the MLP are vse_infty's, the graph's
# threshold is CVSE's; λ_s = 10, the graph's normalisation and the unscaled positive term (the paper prints μ) are ours.
# Name a GloVe file for the concepts, as the paper has it, with --word-vectors.
F30K: Settings = {"data": "f30k_precomp", "bank_size": 4096}
F30K_CODER = F30K | {"concepts": 400, "prototypes": 10_000}
COCO: Settings = {"data": "coco_precomp", "bank_size": 4096}
COCO_CODER = COCO | {"concepts": 400, "prototypes": 20_000}
BERT: Settings = {"text_encoder": "bert"}

# Diao et al. 2024, section IV-A: SCAN's encoders (a linear layer, a BiGRU, nothing left out at random) and alignment
# vectors; the rate falls after 30 of 40 epochs on Flickr30K and after 10 of 20 on COCO. Batch size, warm-up and weight
# decay, which the paper does not print, are the schema's; of its strategies, the momentum scenario with RM.
PLAIN: Settings = {"image_layers": 0, "drop_regions": 0.0, "drop_words": 0.0, "weight_instance": 1.0}
DBL = PLAIN | {"scorer": "interaction", "loss": "btr-hardest", "boosting": "rm"}
DBL_F30K = DBL | {"data": "f30k_precomp", "epochs": 40, "decay_at": 0.75}
DBL_COCO = DBL | {"data": "coco_precomp", "epochs": 20, "decay_at": 0.5}
# Thomas and Kovashka 2022, section 3.5 and the COCO column of table 1: PVSE with K = 3, COMBINED-VAL with shares 1 : 4,
# λ = 196. Their images are ImageNet features of whole pictures, ours the regions of the data; epochs are ours.
THOMAS_COCO = PLAIN | {"data": "coco_precomp", "embeddings": 3, "word_vectors": "learned", "word_size": 200}
THOMAS_COCO |= {"loss": "npairs-hinge", "sample_weights": "combined", "discrepancy_share": 4.0}
THOMAS_COCO |= {"batch_size": 32, "learning_rate": 1e-4, "weight_decay": 1e-5, "schedule": "plateau"}

# Pretrained towers on pictures with captions; name the data with --data. Both start in their own space, as they were
# trained (`embed pictures` is the same model without a step).
# WiSE-FT (Wortsman et al. 2022): AdamW, weight decay 0.1, cosine, 500 steps of warm-up. Its rate, 3e-5, is for
# ImageNet; BLIP (Li et al. 2022) fine-tunes for retrieval at 1e-5, six epochs. The temperature is where CLIP's learned
# one ends (1 / 100), rounded up so that the hardest negative does not take all.
CLIP, SIGLIP = "openai/clip-vit-base-patch32", "google/siglip-base-patch16-224"
TOWERS: Settings = {"data": "flickr30k", "projection": "none", "augment": "crop-flip", "drop_words": 0.0}
TOWERS |= {"image_pooling": "tower", "text_pooling": "tower"}
TOWERS |= {"epochs": 6, "schedule": "cosine", "warmup_steps": 500, "weight_decay": 0.1}
TOWERS |= {"loss": "infonce", "weight_instance": 1.0, "temperature": 0.02, "learn_scale": True}
OF_CLIP: Settings = {"image_tower": CLIP, "text_tower": CLIP}
CLIP_FULL = TOWERS | OF_CLIP | {"image_tuning": "full", "text_tuning": "full", "learning_rate": 1e-5}
# Hu et al. 2022, table 11: 2e-4, dropout 0.1, decay 0.01; rank and α are peft's usual ones.
LORA: Settings = {"image_tuning": "lora", "text_tuning": "lora"}
LORA |= {"learning_rate": 2e-4, "lora_dropout": 0.1, "weight_decay": 0.01}
# The pairwise loss the model was trained with (Zhai et al. 2023), from where its scale and bias ended.
SIGLIP_LORA = TOWERS | LORA | {"image_tower": SIGLIP, "text_tower": SIGLIP}
SIGLIP_LORA |= {"loss": "sigmoid", "temperature": 0.01, "learn_scale": False, "logit_bias": -10.0}
# LiT (Zhai et al. 2022): the image tower locked, the text encoder trained. CODER's recipe, with patches as regions.
TOWER_FROZEN: Settings = {"data": "flickr30k", "image_tower": CLIP, "bank_size": 4096}


_PRESETS: dict[str, tuple[Settings, str]] = {
    "demo-baseline": (DEMO_TRIPLET, "built-in pictures, triplet loss: what CODER is compared with"),
    "demo-weights": (DEMO_WEIGHTS, "built-in pictures, n-pairs hinge, both weights of complementary samples"),
    "demo": (DEMO_DCL, "built-in pictures, CODER's instance branch"),
    "flickr8k-baseline": (FLICKR8K_TRIPLET, "Flickr8k on two CPU cores, bidirectional triplet loss"),
    "flickr8k-boosted": (FLICKR8K_BOOSTED, "Flickr8k on two CPU cores, Deep Boosting Learning"),
    "flickr8k": (FLICKR8K_DCL, "Flickr8k on two CPU cores, CODER's instance branch"),
    "flickr8k-npairs": (FLICKR8K_NPAIRS, "Flickr8k on two CPU cores, n-pairs hinge without weights"),
    "flickr8k-diversity-weights": (FLICKR8K_DIVERSITY, "Flickr8k, n-pairs hinge weighted by diversity"),
    "flickr8k-discrepancy-weights": (FLICKR8K_DISCREPANCY, "Flickr8k, n-pairs hinge weighted by discrepancy"),
    "flickr8k-combined-weights": (FLICKR8K_COMBINED, "Flickr8k, n-pairs hinge weighted by both"),
    "f30k-bigru": (F30K, "Flickr30K, BiGRU, the values the paper prints"),
    "f30k-bert": (F30K | BERT, "Flickr30K, BERT, the values the paper prints"),
    "coco-bigru": (COCO, "MS-COCO, BiGRU, the values the paper prints"),
    "coco-bert": (COCO | BERT, "MS-COCO, BERT, the values the paper prints"),
    "coder-demo": (DEMO_CODER, "built-in pictures, the whole of CODER"),
    "coder-flickr8k": (FLICKR8K_CODER, "Flickr8k on two CPU cores, the whole of CODER"),
    "coder-flickr8k-gpu": (FLICKR8K_CODER_GPU, "Flickr8k on a single GPU, the whole of CODER"),
    "coder-f30k-bigru": (F30K_CODER, "Flickr30K, BiGRU, the whole of CODER, the values the paper prints"),
    "coder-f30k-bert": (F30K_CODER | BERT, "Flickr30K, BERT, the whole of CODER, as the paper prints it"),
    "coder-coco-bigru": (COCO_CODER, "MS-COCO, BiGRU, the whole of CODER, the values the paper prints"),
    "coder-coco-bert": (COCO_CODER | BERT, "MS-COCO, BERT, the whole of CODER, as the paper prints it"),
    "dbl-f30k": (DBL_F30K, "Flickr30K, Deep Boosting Learning's interaction model, its paper's recipe"),
    "dbl-coco": (DBL_COCO, "MS-COCO, Deep Boosting Learning's interaction model, its paper's recipe"),
    "clip-full": (CLIP_FULL, "pictures with captions, CLIP's two towers trained in full (BLIP, WiSE-FT)"),
    "clip-lora": (TOWERS | OF_CLIP | LORA, "pictures with captions, CLIP with low-rank adapters (LoRA)"),
    "siglip-lora": (SIGLIP_LORA, "pictures with captions, SigLIP with low-rank adapters and its own loss"),
    "tower-frozen": (TOWER_FROZEN, "pictures with captions, CLIP's image tower frozen, CODER's text encoder"),
    "thomas-coco": (THOMAS_COCO, "MS-COCO, PVSE with complementary-sample weights, their paper's recipe"),
}
PRESETS = {name: Preset(with_settings(Config(), values), about) for name, (values, about) in _PRESETS.items()}

_TUNED = {
    ("demo", "btr-hardest"): "demo-baseline",
    ("flickr8k", "btr-hardest"): "flickr8k-baseline",
    ("flickr8k", "npairs-hinge"): "flickr8k-npairs",
}


def tuned_for(preset: str, loss: str) -> str:
    """Return the preset of the same data and budget whose other values were chosen for this loss, or the preset itself."""
    return _TUNED.get((preset.removeprefix("coder-"), loss), preset)


def find_preset(name: str) -> Config:
    """The configuration of a preset (InputError: there is no such preset)."""
    if name == ZERO_SHOT:
        fix = f"python -m coder_core.embed pictures DATA --model {CLIP} --name {ZERO_SHOT} evaluates it as it is"
        fact, expected = "is a model that is not trained", "a preset that takes steps"
        raise InputError.at(f"preset {name}", fact, expected, fix)
    if name not in PRESETS:
        raise InputError.at(f"preset {name[:60]!r}", "is not known", f"one of {', '.join(PRESETS)}")
    return PRESETS[name].config
