"""Settings of the data and of the search for wrong captions: the sections [data] and [cleaning] of a configuration."""

from dataclasses import dataclass
from typing import Literal

from coder_core.config.setting import setting, with_help
from coder_core.config.training import Loss
from coder_core.console.faults import Fault

OTHER_DEV_NAMES = ("val", "valid", "validate", "validation")
_Flickr = Literal["flickr8k", "flickr30k-annotations", "flickr30k-results", "kaggle", "multi30k"]
_PictureFolder = Literal[_Flickr, "coco", "imagefolder", "chinese-clip"]
_OwnPictures = Literal["img2dataset", "table", "text-files", "video-frames", "llava", "visual-genome"]
Format = Literal["auto", "precomp", "karpathy", _PictureFolder, "parquet", "webdataset", _OwnPictures]


@dataclass(frozen=True)
@with_help
class ReadingArguments:
    """Pictures with captions, in any of the usual layouts (docs/data.md, section 9)."""

    format: Format = setting(
        "auto", "Layout of pictures with captions; auto recognizes it and prints which one and why."
    )
    image_column: str = setting(
        "", "Column of a CSV, TSV, JSON-lines or Parquet table that names the pictures; guessed if empty."
    )
    caption_column: str = setting("", "Column of such a table with the captions; guessed if empty.")
    group_column: str = setting(
        "",
        "Column, or key in JSON, whose equal values mark images that show the same thing, such as product_id. "
        "Pairs of a group are never negatives of each other, and a group stays in one split (docs/data.md, "
        "section 13).",
    )
    groups: str = setting(
        "",
        "File of such groups, for data without a column: lines of y.jpg, a tab and an id.",
        may_change=True,
    )
    columns: str = setting(
        "",
        "Table with further facts, such as brand and price, joined to the data by the column with names of pictures or "
        "ids of captions, and kept with the run (docs/data.md, section 14). --group-column may name one of its columns.",
        may_change=True,
    )
    language: str = setting(
        "", "Read only captions of this language, such as en, where the data names languages; all if empty."
    )
    dev_share: float = setting(
        0.1,
        "Share of the images assigned to dev, by a hash of each image's name, if pictures with captions "
        "have no splits.",
        ge=0,
        le=1,
    )
    test_share: float = setting(
        0.1, "Share assigned to test by the same hash; the rest is train.", ge=0, le=1
    )
    split_seed: int = setting(0, "Seed of the hash that assigns images to splits.", ge=0, le=2_147_483_647)
    skip_broken: bool = setting(
        False, "Leave out pictures that are missing or broken, with their captions, instead of stopping."
    )


def group_faults(reading: ReadingArguments) -> list[Fault]:
    """Return the fault of groups that are given twice."""
    if not (reading.groups and reading.group_column):
        return []
    flags = "--group-column and --groups"
    return [Fault(flags, "are both given", "one of them", "leave one out")]


@dataclass(frozen=True)
@with_help
class DataConfig(ReadingArguments):
    """Source of images and captions, and what training drops at random."""

    data: str = setting(
        "",
        'Folder with {split}_ims.npy and {split}_caps.txt, or a Karpathy dataset_*.json; "demo" is the '
        "built-in set. With an image tower: pictures with captions in any layout (docs/data.md, section "
        "9).",
        may_change=True,
    )
    pictures: str = setting(
        "",
        "Folder with the picture files, which the app shows and an image tower reads. Optional.",
        may_change=True,
    )
    word_threshold: int = setting(
        4,
        "A word enters the vocabulary if it occurs at least this often in the train captions (vsepp, "
        "vse_infty: 4).",
        ge=1,
    )
    word_vectors: str = setting(
        "random",
        'Initial vectors: "random", "learned" (PPMI and truncated SVD of the captions), or the path of a '
        "GloVe text file.",
        suggestions=("random", "learned"),
    )
    drop_regions: float = setting(
        0.2, "Share of an image's regions left out, on average, in training (vse_infty: 0.2).", ge=0, le=0.5
    )
    drop_words: float = setting(
        0.2,
        "Share of a caption's words left out in training; at least one stays (vse_infty: 0.2).",
        ge=0,
        lt=1,
    )
    train_part: float = setting(
        1.0,
        "Share of the train images, drawn by the seed, that the run learns from; the vocabulary comes "
        "from all. For experiments with less data (ablate boosting-offline), and for two runs that score "
        "each other's pairs (docs/data.md, section 6).",
        gt=0,
        le=1,
    )
    other_part: bool = setting(False, "Learn from the images that train-part leaves out instead.")
    vague_captions: float = setting(
        0.0,
        "Share of the train captions made vague: coarse words for nouns, or little more than a noun. For "
        "experiments on ambiguity (ablate ambiguity); dev and test stay as they are.",
        ge=0,
        le=1,
    )
    wrong_captions: float = setting(
        0.0,
        "Share of the train captions exchanged among images, drawn by the seed. For experiments on wrong "
        "captions (ablate noise); dev and test stay as they are.",
        ge=0,
        le=1,
    )
    omit_wrong: bool = setting(
        False,
        "Leave the exchanged captions out: the best result that a search for wrong captions could reach "
        "(ablate noise).",
    )
    reviews: str = setting(
        "",
        "File of verdicts on pairs of train (docs/data.md, section 12); dev and test stay as they are.",
        may_change=True,
    )
    wrong_weight: float = setting(
        0.0, "Weight of pairs reviewed as wrong-caption; 0: left out, 1: as if unjudged.", ge=0, le=1
    )
    vague_weight: float = setting(
        0.5,
        "Weight of pairs reviewed as too-vague; at 0.5 the model still learns from them, but less.",
        ge=0,
        le=1,
    )
    duplicate_weight: float = setting(
        1.0, "Weight of pairs reviewed as duplicate; 1, as usual in the field, counts them fully.", ge=0, le=1
    )
    also_matches: bool = setting(
        True,
        "Also train on pairs reviewed as also-matches, and use no caption of either image as a negative "
        "of the other image.",
    )

    equal_texts: Literal["match", "label"] = setting(
        "match",
        "Captions with the same text, apart from spaces at the ends, at different images, once they exceed "
        "1% of the train captions: match, never negatives of each other; label, negatives. The choice is "
        "printed.",
        before="label",
    )


@dataclass(frozen=True)
@with_help
class CleaningConfig:
    """Score the train pairs, and train without those that probably belong to another image."""

    clean: bool = setting(
        False,
        "Score the train pairs first, by a regression or by two runs on complementary halves of the images "
        "(--clean-by), and leave out those that probably belong to another image (docs/training.md, Wrong "
        "captions).",
    )
    clean_by: Literal["auto", "halves", "small-loss", "regression"] = setting(
        "auto",
        "What scores the pairs. Halves: two runs on complementary halves. Small-loss: one run on all pairs "
        "for a quarter of the epochs, and a mixture of two Gaussians over its losses (DivideMix, Li et al. "
        "2020; NCR, Huang et al. 2021). Regression: no run; each image's region features are predicted from "
        "its captions, in a minute. Auto: a regression if it tells right pairs from random ones well "
        "enough, as with literal captions, otherwise halves.",
        may_change=True,
    )
    clean_loss: Loss = setting("infonce", "Loss of the scorers, which have no banks, concepts or prototypes.")
    clean_above: float = setting(
        0.5,
        "Leave out pairs whose estimated probability of belonging to another image is at least this.",
        gt=0,
        le=1,
    )
    clean_weigh: bool = setting(
        False,
        "Weigh suspicious pairs by the estimated probability that they belong to their image, instead of "
        "leaving them out.",
    )
    clean_rounds: int = setting(
        0,
        "Number of rounds; in each further round, the scorers train on the pairs kept by the last one and "
        "score all again. 0: one, and a second if the first leaves out more than half of the pairs.",
        ge=0,
        le=5,
        before=1,
    )
    clean_scorers: str = setting(
        "",
        "Path of another cleaned run, whose scorers and reviews this run shares; or A:B, two finished "
        "runs trained on complementary halves; empty: the run trains its own scorers.",
        may_change=True,
        former="clean_judges",
    )
    keep_scorers: bool = setting(
        True,
        "Keep the scorers' runs, which the app's Data page needs to list the pairs; their reviews are kept "
        "in any case.",
        may_change=True,
        former="keep_judges",
    )
