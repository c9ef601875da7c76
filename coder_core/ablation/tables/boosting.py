"""Deep Boosting Learning's ablations as grids, with what its paper reports (Diao et al. 2024, Flickr30K test, BiGRU).

The paper prints R@1 and R@5 of every row, and no R@10. Its rows are of its interaction model; the text gives R@1
alone for others.
"""

from coder_core.ablation.rows import TRIPLET, AblationTable, Change, Recalls, Row, RunOf

PAPER = "Deep Boosting Learning, Flickr30K test, BiGRU"
Changes = dict[str, Change]
HARDEST: Changes = {"loss": "btr-hardest", **TRIPLET}
TOGETHER: Changes = {"boosting-scenario": "online", "boosting-start-epoch": 0.0}  # from the first step
ONLINE: Changes = {**HARDEST, **TOGETHER}


def _printed(
    i2t_r1: float, t2i_r1: float, i2t_r5: float | None = None, t2i_r5: float | None = None
) -> Recalls:
    return (i2t_r1, i2t_r5, None, t2i_r1, t2i_r5, None)


_ALONE: Changes = {**HARDEST, "boosting": "none", "boosting-scenario": "momentum"}
_ALONE |= {"boosting-teacher": "", "boosting-branches": 2}
_BASELINE = Row(
    "btr-hardest", "no second branch", _ALONE, (), _printed(75.8, 56.5, 93.4, 81.4), source="table II"
)
RM = _printed(79.3, 59.1, 95.4, 83.0)  # both branches online, in tables II and IV
AM = _printed(79.0, 58.5, 94.9, 83.1)


def _imitation(form: str, title: str, scenario: str, reported: Recalls) -> Row:
    """A row beside the baseline, whose run is the teacher of "offline"."""
    changes: Changes = {**HARDEST, "boosting": form, "boosting-scenario": scenario}
    changes["boosting-teacher"] = RunOf(_BASELINE.name) if scenario == "offline" else ""
    if scenario == "online":
        changes |= TOGETHER
    return Row(f"{form}-{scenario}", f"{title}, {scenario}", changes, (), reported, "table II")


def _inferior(name: str, title: str, training: Changes, model: Changes) -> tuple[Row, Row]:
    """A teacher weaker than the baseline by its training, or by the model both are; and AM over it."""
    teacher = f"teacher-{name}"
    boosted: Changes = {**HARDEST, **model, "boosting": "am", "boosting-scenario": "offline"}
    boosted["boosting-teacher"] = RunOf(teacher)
    return (
        Row(teacher, f"no second branch, {title}", {**_ALONE, **training, **model}),
        Row(f"am-offline-{name}", f"AM, offline, the teacher {title}", boosted, reference=teacher),
    )


SCENARIOS = AblationTable(
    "boosting-scenarios",
    "boosting and imitation: branches that train together, or a moving average",
    "table II (more memory and time than its baseline: online 100% and 73%, momentum 11% and 18%)",
    (
        _BASELINE,
        _imitation("dml", "mutual learning (DML)", "online", _printed(77.7, 57.4, 93.6, 82.8)),
        _imitation("rm", "RM", "online", RM),
        _imitation("am", "AM", "online", AM),
        _imitation("dino", "DINO", "momentum", _printed(76.5, 58.5, 93.4, 83.2)),
        _imitation("dino-reversed", "DINO*", "momentum", _printed(77.9, 58.8, 93.9, 83.5)),
        _imitation("rm", "RM", "momentum", _printed(78.4, 59.1, 94.4, 83.6)),
        _imitation("am", "AM", "momentum", _printed(79.4, 59.7, 94.7, 83.5)),
    ),
    "btr-hardest",
    quoted=PAPER,
)

_PLAIN_MODEL: Changes = {"image-pooling": "mean", "text-pooling": "mean", "image-layers": 0}
OFFLINE = AblationTable(
    "boosting-offline",
    "boosting and imitation: the finished run of another row as the second branch; and AM over inferior ones (section "
    "IV-C gives AM's gains in R@1 alone: margin 2.7 and 1.9, half 7.4 and 5.8, with VSE++, here plain, 1.8 and 1.3)",
    "table II (more memory and time than its baseline: 12% and 120%)",
    (
        _BASELINE,
        _imitation("dr", "ranks (DR)", "offline", _printed(76.8, 57.4, 93.7, 81.8)),
        _imitation("rkd", "relations (RKD)", "offline", _printed(77.6, 56.8, 93.8, 81.9)),
        _imitation("rm", "RM", "offline", _printed(79.1, 58.5, 94.6, 83.3)),
        _imitation("am", "AM", "offline", _printed(79.7, 58.7, 94.6, 83.2)),
        *_inferior("margin", "with a margin of 0.1", {"margin": 0.1}, {}),
        *_inferior("half", "with half of the images", {"train-part": 0.5}, {}),
        *_inferior("plain", "with mean pooling and a linear layer", {}, _PLAIN_MODEL),
    ),
    "btr-hardest",
    quoted=PAPER,
    compared_with="its teacher's (a teacher's: − btr-hardest's)",
)


def _online(name: str, title: str, form: str, reported: Recalls, *, soft: bool = False) -> Row:
    changes: Changes = {**ONLINE, "boosting-soft": soft, "boosting": form}
    return Row(name, title, changes, (), reported, f"table IV #{name[0].upper()}")


CONFIGURATIONS = AblationTable(
    "boosting",
    "all negatives or the hardest, relative or absolute, fixed or soft margins; two branches that train together",
    "table IV",
    (
        Row("a-none", "no second branch", _ALONE, (), _BASELINE.reported, "table IV #A"),
        _online("b-rs", "RS", "rs", _printed(77.6, 58.1, 94.6, 82.4)),
        _online("c-as", "AS", "as", _printed(78.2, 57.1, 94.8, 82.5)),
        _online("d-rm-soft", "RM, soft margin", "rm", _printed(77.1, 59.6, 94.5, 83.9), soft=True),
        _online("e-am-soft", "AM, soft margins", "am", _printed(77.2, 58.8, 94.6, 83.5), soft=True),
        _online("f-rm", "RM", "rm", RM),
        _online("g-am", "AM", "am", AM),
        _online("h-rs-as", "the mean of RS and AS", "rs-as", _printed(78.0, 57.8, 94.6, 82.3)),
        _online("i-rm-am", "the mean of RM and AM", "rm-am", _printed(78.9, 58.7, 95.1, 83.0)),
    ),
    "a-none",
    quoted=PAPER,
)


def _margins(form: str, word: str, letter: str, flag: str, *values: float) -> tuple[Row, ...]:
    group, rows = f"{form.upper()}, {letter}", []
    for value in values:
        changes: Changes = {**ONLINE, "boosting": form, flag: value}
        title = f"{group} = {value:g}"
        rows.append(Row(f"{form}-{word}-{value:g}", title, changes, x=value, group=group))
    return tuple(rows)


MARGIN = AblationTable(
    "boosting-margin",
    "γ of RM, and the positive's share α of it in AM; two branches that train together (the paper draws them without "
    "numbers: its text says at least 1.9 and 1.3 more R@1 for γ from 0.1 to 0.3, 3.2 and 1.9 for α from 0.3 to 0.7)",
    "figure 4",
    (
        *_margins("rm", "gamma", "γ", "boosting-margin", 0.1, 0.15, 0.2, 0.25, 0.3),
        *_margins("am", "alpha", "α", "boosting-split", 0.3, 0.4, 0.5, 0.6, 0.7),
    ),
    "rm-gamma-0.2",
    "γ or α",
    PAPER,
)


def _branches(form: str, count: int, reported: Recalls | None) -> Row:
    changes: Changes = {**ONLINE, "boosting": form, "boosting-branches": count}
    name, source = form.upper(), "section IV-B" if reported else ""
    return Row(f"{form}-{count}", f"{name}, {count} branches", changes, (), reported, source, count, name)


BRANCHES = AblationTable(
    "boosting-branches",
    "how many branches train together",
    "section IV-B",
    (
        _BASELINE,
        _branches("rm", 2, RM),
        _branches("rm", 3, _printed(79.4, 59.5)),
        _branches("rm", 4, None),
        _branches("dml", 2, _printed(77.7, 57.4, 93.6, 82.8)),
        _branches("dml", 3, None),
        _branches("dml", 4, _printed(78.3, 58.8)),
    ),
    "btr-hardest",
    "branches",
    PAPER,
)


def _loss(name: str, title: str, *reported: float) -> Row:
    changes: Changes = {"loss": name, **TRIPLET, "boosting": "none"}
    return Row(name, title, changes, (), _printed(*reported), "table III")


METRIC_LEARNING = AblationTable(
    "metric-learning",
    "one branch and other losses, beside boosting with a moving average",
    "table III (its VSE0 and VSE++ are the first two)",
    (
        _loss("btr-sum", "triplet, all negatives", 74.4, 54.3, 92.8, 81.2),
        _BASELINE,
        _loss("cmpm", "cross-modal projection matching", 76.8, 57.8, 95.1, 82.8),
        _loss("polynomial", "polynomial loss (MPL)", 77.1, 57.4, 94.3, 82.3),
        *(row for row in SCENARIOS.rows if row.name in ("rm-momentum", "am-momentum")),
    ),
    "btr-hardest",
    quoted=PAPER,
)


def _scorer(name: str, title: str, reported: Recalls | None = None, **changes: Change) -> Row:
    flags = {flag.replace("_", "-"): value for flag, value in changes.items()}
    plain: Changes = {**_ALONE, "scorer": "cosine", "embeddings": 1}
    return Row(name, title, {**plain, **flags}, (), reported, "table II" if reported else "")


_PVSE = "… both: PVSE as its paper has it"
_SUM = "the same, all negatives to the end"
SCORERS = AblationTable(
    "scorers",
    "how a pair is scored: one embedding each, three each (PVSE), or words that attend to regions",
    "",
    (
        _scorer("cosine", "the cosine of two embeddings"),
        _scorer("pvse-3", "the best of 3 × 3 cosines", embeddings=3),
        _scorer("pvse-3-heads", "… heads kept apart", embeddings=3, weight_heads=0.1),
        _scorer("pvse-3-mmd", "… modalities kept together", embeddings=3, weight_mmd=0.01),
        _scorer("pvse-3-both", _PVSE, embeddings=3, weight_heads=0.1, weight_mmd=0.01),
        _scorer("interaction", "DBL's single branch", _BASELINE.reported, scorer="interaction"),
        _scorer("cosine-sum", "the cosine, all negatives to the end", loss="btr-sum"),
        _scorer("interaction-sum", _SUM, scorer="interaction", loss="btr-sum"),
    ),
    "cosine",
    quoted=PAPER,
)

BOOSTING_TABLES = (CONFIGURATIONS, SCENARIOS, OFFLINE, MARGIN, BRANCHES, METRIC_LEARNING, SCORERS)
