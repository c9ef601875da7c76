"""The ablations of CODER (ECCV 2022), with its figures (BERT, Flickr30K test; "main" and "supplement").

Rows are departures from the full model of a preset: a row without banks switches them off, a row with banks keeps the
preset's. So every table fits every preset and data set. The paper's figures belong to other data: compare differences.
"""

from collections.abc import Sequence
from dataclasses import replace

from coder_core.ablation.rows import (
    INSTANCE,
    NO_CONCEPTS,
    NO_PROTOTYPES,
    TRIPLET,
    AblationTable,
    Change,
    Recalls,
    Row,
    Times,
)

Changes = dict[str, Change]
BANK, ALL = ("bank-size",), ("bank-size", "concepts", "prototypes")
HARDEST: Changes = {"loss": "btr-hardest", **TRIPLET}
IN_BATCH_DCL: Changes = {"loss": "dcl", **INSTANCE}
TABLE_2 = (
    (78.7, 94.5, 97.0, 58.6, 84.8, 90.1),
    (81.9, 95.6, 97.9, 61.5, 85.8, 91.8),
    (82.6, 96.1, 98.0, 62.6, 86.7, 92.3),
    (82.8, 96.1, 98.0, 62.8, 86.8, 92.6),
    (83.2, 96.5, 98.0, 63.1, 87.1, 93.0),
)
BTR, DCL, *_, FULL = TABLE_2
TABLE_3 = (
    (80.3, 94.8, 97.3, 60.2, 85.3, 91.1),
    (81.5, 95.6, 97.5, 61.2, 85.6, 91.2),
    (81.9, 95.6, 97.7, 61.5, 85.8, 91.4),
    (82.0, 95.8, 97.7, 61.6, 86.2, 92.2),
    (82.8, 96.3, 97.9, 62.6, 87.0, 92.7),
    FULL,
)
TABLE_4 = {
    0.5: (82.9, 96.3, 98.0, 63.1, 87.0, 92.7),
    1.0: FULL,
    1.5: (83.2, 96.3, 98.2, 63.0, 87.1, 92.8),
    2.0: (82.8, 96.2, 97.9, 62.8, 87.0, 92.5),
}
TABLE_7 = ((81.5, 95.8, 98.1, 61.3, 85.7, 91.0), FULL, (83.0, 96.2, 98.1, 62.4, 86.9, 92.5))
FIGURE_3: dict[str, Recalls] = {
    "without-32": (79.3, None, None, 59.3, None, None),
    "without-128": (81.9, None, None, 61.5, None, None),
    "with-32": (82.3, None, None, 62.2, None, None),
    "with-128": FULL,
}


def _numbered(
    source: str, reported: Sequence[Recalls], *rows: tuple[str, str, Changes, tuple[str, ...]]
) -> tuple[Row, ...]:
    """Rows of name, description, changes and needs, with the paper's figures for each; `#` gets the row's number."""
    return tuple(
        Row(*row, recalls, source.replace("#", f"#{number}"))
        for number, (row, recalls) in enumerate(zip(rows, reported, strict=True), 1)
    )


COMPONENTS = AblationTable(
    "components",
    "what each part of CODER adds, from the triplet loss to the full model",
    "main, table 2",
    _numbered(
        "table 2 #",
        TABLE_2,
        ("1-btr", "bidirectional triplet loss", HARDEST, ()),
        ("2-dcl", "+ L_DCL of the instance branch", IN_BATCH_DCL, ()),
        ("3-m-dcl", "+ M-DCL against the banks", {"loss": "dcl", **NO_CONCEPTS}, BANK),
        ("4-concepts", "+ L_DCL of the concept branch", {"loss": "dcl", **NO_PROTOTYPES}, ALL[:2]),
        ("5-coder", "+ prototype-guided classification: the full model", {"loss": "dcl"}, ALL),
    ),
    "1-btr",
)

_FROM_BANK: Changes = {"loss": "dcl", "diversity-from-bank": True}
_FROM_BATCH: Changes = {"loss": "dcl", "diversity-from-bank": False}
DIVERSITY_CONFIGURATION = AblationTable(
    "diversity-configuration",
    "implicit or explicit diversity, from the batch or from the banks too, with and without M-DCL",
    "main, table 3",
    _numbered(
        "table 3 #",
        TABLE_3,
        ("1-implicit", "DCL_I", {"loss": "dcl-i", "bank-size": 0}, ()),
        ("2-explicit", "DCL, diversity from the batch", {"loss": "dcl", "bank-size": 0}, ()),
        ("3-explicit-bank", "DCL, diversity from batch and banks", _FROM_BANK | {"weight-memory": 0.0}, BANK),
        ("4-m-implicit", "M-DCL and DCL_I", {"loss": "dcl-i"}, BANK),
        ("5-m-explicit", "M-DCL and DCL, diversity from the batch", _FROM_BATCH, BANK),
        ("6-m-explicit-bank", "M-DCL and DCL, diversity from batch and banks", _FROM_BANK, BANK),
    ),
    "1-implicit",
)


def _clusters_row(factor: float, reported: Recalls) -> Row:
    changes: Changes = {"prototypes": Times(factor)}
    source = f"table 4, K = {10_000 * factor:,.0f}"
    return Row(f"k-{factor:g}x", f"K × {factor:g}", changes, ("prototypes",), reported, source, factor)


CLUSTERS = AblationTable(
    "clusters",
    "how many prototypes; multiples of the preset's K (the paper's 10,000 for the 145,000 pairs of Flickr30K)",
    "main, table 4",
    tuple(_clusters_row(*figures) for figures in TABLE_4.items()),
    "k-1x",
    "K ÷ the preset's",
)


def _batch_row(name: str, size: int, banks: str, changes: Changes, needs: tuple[str, ...]) -> Row:
    changes = {"batch-size": size, **changes}
    title, reported = f"batch {size}, {banks} banks", FIGURE_3.get(name)
    return Row(name, title, changes, needs, reported, "section 4.4.1", size, f"{name.split('-')[0]} M-DCL")


BATCH_SIZE = AblationTable(
    "batch-size",
    "do the banks make up for small batches? (the paper gives the ends of its figure in its text)",
    "main, figure 3",
    (
        *(_batch_row(f"without-{size}", size, "no", {"bank-size": 0}, ()) for size in (32, 64, 128)),
        *(_batch_row(f"with-{size}", size, "with", {}, BANK) for size in (32, 64, 128)),
    ),
    "with-128",
    "pairs in a batch",
)

DIVERSITY_FUNCTION = AblationTable(
    "diversity-function",
    "how diversity is measured",
    "supplement, table 7",
    _numbered(
        "table 7",
        TABLE_7,
        ("none", "no explicit diversity", {"loss": "dcl-i"}, ()),
        ("std", "standard deviation", {"loss": "dcl", "diversity": "std"}, ()),
        ("entropy", "entropy", {"loss": "dcl", "diversity": "entropy"}, ()),
    ),
    "none",
)

EPSILON = AblationTable(
    "epsilon",
    "the turning point of the diversity's squashing (the paper prints a figure without numbers)",
    "supplement, figure 2",
    tuple(
        Row(f"epsilon-{value:g}", f"ε = {value:g}", {"loss": "dcl", "epsilon": value}, x=value)
        for value in (0.01, 0.05, 0.1, 0.2, 0.5, 1.0)
    ),
    "epsilon-0.1",
    "ε",
)

OBJECTIVES = AblationTable(
    "objectives",
    "one loss beside another: the instance branch alone, no banks",
    "main, table 2 #1, #2 and table 3 #1",
    (
        Row("btr-sum", "triplet, all negatives", {"loss": "btr-sum", **TRIPLET}),
        Row("btr-hardest", "triplet, hardest negative", HARDEST, (), BTR, "table 2 #1"),
        Row("infonce", "bidirectional InfoNCE", {"loss": "infonce", **INSTANCE}),
        Row("infonce-scale", "InfoNCE, learned scale", {"loss": "infonce", "learn-scale": True, **INSTANCE}),
        Row("sigmoid", "SigLIP's sigmoid", {"loss": "sigmoid", **INSTANCE}),
        Row("dcl-i", "DCL without diversity", {"loss": "dcl-i", **INSTANCE}, (), TABLE_3[0], "table 3 #1"),
        Row("dcl", "DCL", IN_BATCH_DCL, (), DCL, "table 2 #2"),
    ),
    "btr-hardest",
)

_MOMENTA = (0.9, 0.97, 0.99, 0.995, 0.999)
BANKS = AblationTable(
    "banks",
    "size of the banks (multiples of the preset's) and momentum of the key encoders",
    "",
    (
        Row("no-bank", "no banks", {"bank-size": 0}),
        *(Row(f"size-{f:g}x", f"size × {f:g}", {"bank-size": Times(f)}, BANK) for f in (0.5, 1.0, 2.0, 4.0)),
        *(Row(f"momentum-{m:g}", f"momentum {m:g}", {"momentum": m}, BANK) for m in _MOMENTA),
    ),
    "no-bank",
)

MASKING = AblationTable(
    "masking",
    "are other captions of the anchor's image negatives? (the paper does not say; no ancestor of its code masks them)",
    "",
    (
        Row("masked", "no negatives (default)", {"same-image-negatives": False}),
        Row("kept", "negatives, the literal reading", {"same-image-negatives": True}),
    ),
    "masked",
)


def _scale_row(name: str, title: str, scale: str, clamp: str) -> Row:
    return Row(name, title, {"positive-scale": scale, "positive-clamp": clamp})


POSITIVE_SCALE = AblationTable(
    "positive-scale",
    "the positive term of eq. 4: unscaled as HAL and USER do, or times μ as printed; and HAL's clamp",
    "",
    (
        _scale_row("one", "unscaled (default)", "one", "clamp"),
        _scale_row("temperature", "times μ, as printed", "temperature", "clamp"),
        _scale_row("one-relu", "unscaled, HAL's relu", "one", "relu"),
    ),
    "one",
)


def _ambiguity_row(share: float, name: str, title: str, changes: Changes, needs: tuple[str, ...]) -> Row:
    percent = round(100 * share)
    vague: Changes = {**changes, "vague-captions": share}
    row = Row(f"{name}-{percent}", f"{title}, {percent}% vague", vague, needs, x=percent)
    return replace(row, group=title, reference=f"dcl-i-{percent}")


_UNDER_AMBIGUITY: tuple[tuple[str, str, Changes, tuple[str, ...]], ...] = (
    ("btr", "BTR", HARDEST, ()),
    ("infonce", "InfoNCE", {"loss": "infonce", **INSTANCE}, ()),
    ("dcl-i", "DCL_I", {"loss": "dcl-i", **INSTANCE}, ()),
    ("dcl", "DCL", IN_BATCH_DCL, ()),
    ("m-dcl", "DCL + M-DCL", {"loss": "dcl", **NO_CONCEPTS}, BANK),
    ("coder", "full CODER", {"loss": "dcl"}, ALL),
)
AMBIGUITY = AblationTable(
    "ambiguity",
    "does diversity pay where captions are ambiguous? A share of the train captions is made vague, dev stays",
    "",
    tuple(_ambiguity_row(share, *row) for share in (0.0, 0.1, 0.2, 0.4) for row in _UNDER_AMBIGUITY),
    "dcl-i-0",
    "% of the train captions made vague",
    compared_with="DCL_I at the same share",
)

CODER_TABLES = (
    *(COMPONENTS, DIVERSITY_CONFIGURATION, CLUSTERS, BATCH_SIZE, DIVERSITY_FUNCTION, EPSILON),
    *(OBJECTIVES, BANKS, MASKING, POSITIVE_SCALE, AMBIGUITY),
)
