"""The tables of complementary samples (Thomas and Kovashka 2022): what weighs a positive, and how.

All rows train the same model with the same n-pairs hinge. The paper measures top-1 accuracy among c options, not recall
over a whole split; its figures take the places of R@1.
"""

from dataclasses import replace

from coder_core.ablation.rows import TRIPLET, AblationTable, Change, Recalls, Row

PLAIN: dict[str, Change] = {**TRIPLET, "loss": "npairs-hinge", "boosting": "none"}
PAPERS_SHARES = ((1, 1), (1, 2), (2, 1), (1, 3), (3, 1), (1, 4), (4, 1), (1, 5), (5, 1))
"""(β̂, γ̂) the paper chooses from (eq. 7)."""
CHOSEN_ON_COCO = (1, 4)  # table 1
TABLE_2, TABLE_3 = "table 2, COCO", "table 3, Politics"
WITHIN = 0.1  # of THOMAS, whose paper chooses its two weights on dev
RANDOM = "DIVERSITY's weights, each given to another pair"


def _row(name: str, title: str, weights: str, source: str, *reported: float, **changes: Change) -> Row:
    """`reported`: accuracy of images and of texts; none where the paper has no figure."""
    flags = {flag.replace("_", "-"): value for flag, value in changes.items()}
    recalls: Recalls | None = (reported[0], None, None, reported[1], None, None) if reported else None
    return Row(name, title, {**PLAIN, "sample-weights": weights, **flags}, reported=recalls, source=source)


def _combined(diversity: int, discrepancy: int) -> Row:
    reported = (70.56, 70.13) if (diversity, discrepancy) == CHOSEN_ON_COCO else ()
    title = f"COMBINED-VAL, {diversity}·DIV + {discrepancy}·DIS"
    shares: dict[str, Change] = {"diversity_share": float(diversity), "discrepancy_share": float(discrepancy)}
    return _row(f"combined-{diversity}-{discrepancy}", title, "combined", TABLE_2, *reported, **shares)


def _recipe(name: str, title: str, weights: str, discrepancy_share: float) -> Row:
    """A row under the paper's own recipe."""
    settings: dict[str, Change] = {"batch_size": 32, "warmup_steps": 0, "learning_rate": 1e-4}
    settings |= {"weight_decay": 1e-5, "schedule": "plateau", "discrepancy_share": discrepancy_share}
    row = _row(f"recipe-{name}", f"the paper's recipe, {title}", weights, "", **settings)
    return replace(row, reference="recipe-none")


_LOSSES = "THOMAS, losses within a modality"
SAMPLE_WEIGHTS = AblationTable(
    "sample-weights",
    "which positives should count more? Weights of complementary samples beside those of other methods",
    "table 2",
    (
        _row("none", "no weights", "none", TABLE_2, 65.41, 65.61),
        _row("diversity", "DIVERSITY", "diversity", TABLE_2, 67.29, 67.18),
        _row("discrepancy", "DISCREPANCY", "discrepancy", TABLE_2, 68.51, 68.44),
        *(_combined(*shares) for shares in PAPERS_SHARES),
        _row("combined-stats", "COMBINED-STATS", "combined-stats", TABLE_2, 70.62, 70.07),
        _row("hal", "HAL, hubs", "hal", TABLE_2, 66.65, 68.45),
        _row("mithun", "MITHUN, ranks", "mithun", TABLE_2, 69.67, 69.50),
        _row("amrani", "AMRANI, density", "amrani", TABLE_2, 67.46, 67.56),
        _row("thomas", _LOSSES, "none", TABLE_2, 65.52, 64.94, within_image=WITHIN, within_text=WITHIN),
        _row("random", RANDOM, "random", ""),
        _recipe("none", "no weights", "none", 1.0),
        _recipe("combined-1-4", "COMBINED-VAL, 1·DIV + 4·DIS", "combined", 4.0),
    ),
    "none",
    compared_with="no weights' under the same recipe",
    quoted="COCO, top-1 accuracy among 100 options in the places of R@1, PVSE",
)

# DIVERSITY, then DISCREPANCY: images, texts
_DIRECTIONS = {
    -1: ((62.68, 63.66), (62.11, 62.28)),
    0: ((60.46, 60.20), (60.46, 60.20)),
    1: ((62.06, 62.26), (61.58, 61.87)),
}
_MODALITIES = {
    "sum": ((61.88, 62.51), (61.30, 61.84)),
    "image": ((61.55, 61.92), (60.58, 60.40)),
    "text": ((60.59, 61.09), (60.32, 60.06)),
}
_KINDS = ("diversity", "discrepancy")


def _direction(kind: str, direction: int) -> Row:
    reported = _DIRECTIONS[direction][_KINDS.index(kind)]
    title = f"{kind.upper()}, Γ = {direction:+d}"
    return _row(f"{kind}-gamma{direction}", title, kind, TABLE_3, *reported, weight_direction=direction)


def _modality(kind: str, form: str) -> Row:
    reported = _MODALITIES[form][_KINDS.index(kind)]
    alpha = "α_X + α_Y" if form == "sum" else f"α of the {form} alone"
    title = f"{kind.upper()}, {alpha}"
    return _row(f"{kind}-{form}", title, kind, TABLE_3, *reported, weight_modalities=form)


WEIGHT_FORMS = AblationTable(
    "sample-weights-forms",
    "which way do the weights point, and how do the two modalities' become one?",
    "table 3",
    (
        *(_direction(kind, direction) for kind in _KINDS for direction in _DIRECTIONS),
        *(_modality(kind, form) for kind in _KINDS for form in _MODALITIES),
        _row("random", RANDOM, "random", TABLE_3, 57.77, 57.80),
    ),
    "diversity-gamma-1",
    quoted="Politics, top-1 accuracy among 5 options in the places of R@1, PVSE",
)

WEIGHT_TABLES = (SAMPLE_WEIGHTS, WEIGHT_FORMS)
