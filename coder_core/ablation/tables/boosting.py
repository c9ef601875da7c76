"""Deep Boosting Learning's ablations as grids, with what its paper reports (Diao et al. 2024, Flickr30K test, BiGRU).

The paper prints R@1 and R@5 of every row, and no R@10. Its rows are of its interaction model; the text gives R@1
alone for others.
"""

from __future__ import annotations

from coder_core.ablation.rows import TRIPLET, AblationTable, Change, Recalls, Row, RunOf

PAPER = "Deep Boosting Learning, Flickr30K test, BiGRU"
HARDEST: dict[str, Change] = {"loss": "btr-hardest", **TRIPLET}
TOGETHER: dict[str, Change] = {
    "boosting-scenario": "online",
    "boosting-start-epoch": 0.0,
}  # from the first step
ONLINE: dict[str, Change] = {**HARDEST, **TOGETHER}


def _printed(
    i2t_r1: float, t2i_r1: float, i2t_r5: float | None = None, t2i_r5: float | None = None
) -> Recalls:
    return (i2t_r1, i2t_r5, None, t2i_r1, t2i_r5, None)


_BASELINE = Row(
    "btr-hardest",
    "no second branch",
    {
        **HARDEST,
        "boosting": "none",
        "boosting-scenario": "momentum",
        "boosting-teacher": "",
        "boosting-branches": 2,
    },
    reported=_printed(75.8, 56.5, 93.4, 81.4),
    source="table II",
)


def _imitation(form: str, about: str, scenario: str, *reported: float) -> Row:
    """A row beside the baseline, whose run is the teacher of "offline"."""
    teacher = RunOf(_BASELINE.name) if scenario == "offline" else ""
    changes: dict[str, Change] = {
        **HARDEST,
        "boosting": form,
        "boosting-scenario": scenario,
        "boosting-teacher": teacher,
    }
    if scenario == "online":
        changes |= TOGETHER
    return Row(f"{form}-{scenario}", f"{about}, {scenario}", changes, (), _printed(*reported), "table II")


def _inferior(
    name: str, about: str, training: dict[str, Change], model: dict[str, Change]
) -> tuple[Row, Row]:
    """A teacher weaker than the baseline by its training, or by the model both are; and AM over it."""
    boosted: dict[str, Change] = {
        **HARDEST,
        **model,
        "boosting": "am",
        "boosting-scenario": "offline",
        "boosting-teacher": RunOf(f"teacher-{name}"),
    }
    return (
        Row(f"teacher-{name}", f"no second branch, {about}", {**_BASELINE.changes, **training, **model}),
        Row(f"am-offline-{name}", f"AM, offline, the teacher {about}", boosted, reference=f"teacher-{name}"),
    )


SCENARIOS = AblationTable(
    "boosting-scenarios",
    "boosting and imitation: branches that train together, or a moving average",
    "table II (more memory and time than its baseline: online 100% and 73%, momentum 11% and 18%)",
    (
        _BASELINE,
        _imitation("dml", "mutual learning (DML)", "online", 77.7, 57.4, 93.6, 82.8),
        _imitation("rm", "RM", "online", 79.3, 59.1, 95.4, 83.0),
        _imitation("am", "AM", "online", 79.0, 58.5, 94.9, 83.1),
        _imitation("dino", "DINO", "momentum", 76.5, 58.5, 93.4, 83.2),
        _imitation("dino-reversed", "DINO*", "momentum", 77.9, 58.8, 93.9, 83.5),
        _imitation("rm", "RM", "momentum", 78.4, 59.1, 94.4, 83.6),
        _imitation("am", "AM", "momentum", 79.4, 59.7, 94.7, 83.5),
    ),
    "btr-hardest",
    quoted=PAPER,
)

OFFLINE = AblationTable(
    "boosting-offline",
    "boosting and imitation: the finished run of another row as the second branch; and AM over inferior ones (section "
    "IV-C gives AM's gains in R@1 alone: margin 2.7 and 1.9, half 7.4 and 5.8, with VSE++, here plain, 1.8 and 1.3)",
    "table II (more memory and time than its baseline: 12% and 120%)",
    (
        _BASELINE,
        _imitation("dr", "ranks (DR)", "offline", 76.8, 57.4, 93.7, 81.8),
        _imitation("rkd", "relations (RKD)", "offline", 77.6, 56.8, 93.8, 81.9),
        _imitation("rm", "RM", "offline", 79.1, 58.5, 94.6, 83.3),
        _imitation("am", "AM", "offline", 79.7, 58.7, 94.6, 83.2),
        *_inferior("margin", "with a margin of 0.1", {"margin": 0.1}, {}),
        *_inferior("half", "with half of the images", {"train-part": 0.5}, {}),
        *_inferior(
            "plain",
            "with mean pooling and a linear layer",
            {},
            {"image-pooling": "mean", "text-pooling": "mean", "image-layers": 0},
        ),
    ),
    "btr-hardest",
    quoted=PAPER,
    compared_with="its teacher's (a teacher's: − btr-hardest's)",
)


def _online(name: str, about: str, reported: Recalls, **changes: Change) -> Row:
    flags = {f"boosting-{flag}" if flag != "boosting" else flag: value for flag, value in changes.items()}
    return Row(
        name, about, {**ONLINE, "boosting-soft": False, **flags}, (), reported, f"table IV #{name[0].upper()}"
    )


CONFIGURATIONS = AblationTable(
    "boosting",
    "all negatives or the hardest, relative or absolute, fixed or soft margins; two branches that train together",
    "table IV",
    (
        Row(
            "a-none", "no second branch", _BASELINE.changes, reported=_BASELINE.reported, source="table IV #A"
        ),
        _online("b-rs", "RS", _printed(77.6, 58.1, 94.6, 82.4), boosting="rs"),
        _online("c-as", "AS", _printed(78.2, 57.1, 94.8, 82.5), boosting="as"),
        _online("d-rm-soft", "RM, soft margin", _printed(77.1, 59.6, 94.5, 83.9), boosting="rm", soft=True),
        _online("e-am-soft", "AM, soft margins", _printed(77.2, 58.8, 94.6, 83.5), boosting="am", soft=True),
        _online("f-rm", "RM", _printed(79.3, 59.1, 95.4, 83.0), boosting="rm"),
        _online("g-am", "AM", _printed(79.0, 58.5, 94.9, 83.1), boosting="am"),
        _online("h-rs-as", "the mean of RS and AS", _printed(78.0, 57.8, 94.6, 82.3), boosting="rs-as"),
        _online("i-rm-am", "the mean of RM and AM", _printed(78.9, 58.7, 95.1, 83.0), boosting="rm-am"),
    ),
    "a-none",
    quoted=PAPER,
)

MARGIN = AblationTable(
    "boosting-margin",
    "γ of RM, and the positive's share α of it in AM; two branches that train together (the paper draws them without "
    "numbers: its text says at least 1.9 and 1.3 more R@1 for γ from 0.1 to 0.3, 3.2 and 1.9 for α from 0.3 to 0.7)",
    "figure 4",
    tuple(
        Row(
            f"{form}-{word}-{value:g}",
            f"{form.upper()}, {letter} = {value:g}",
            {**ONLINE, "boosting": form, f"boosting-{flag}": value},
            x=value,
            group=f"{form.upper()}, {letter}",
        )
        for form, word, letter, flag, values in (
            ("rm", "gamma", "γ", "margin", (0.1, 0.15, 0.2, 0.25, 0.3)),
            ("am", "alpha", "α", "split", (0.3, 0.4, 0.5, 0.6, 0.7)),
        )
        for value in values
    ),
    "rm-gamma-0.2",
    "γ or α",
    PAPER,
)

BRANCHES = AblationTable(
    "boosting-branches",
    "how many branches train together",
    "section IV-B",
    (
        _BASELINE,
        *(
            Row(
                f"{form}-{count}",
                f"{form.upper()}, {count} branches",
                {**ONLINE, "boosting": form, "boosting-branches": count},
                (),
                reported,
                "section IV-B" if reported else "",
                count,
                form.upper(),
            )
            for form, count, reported in (
                ("rm", 2, _printed(79.3, 59.1, 95.4, 83.0)),
                ("rm", 3, _printed(79.4, 59.5)),
                ("rm", 4, None),
                ("dml", 2, _printed(77.7, 57.4, 93.6, 82.8)),
                ("dml", 3, None),
                ("dml", 4, _printed(78.3, 58.8)),
            )
        ),
    ),
    "btr-hardest",
    "branches",
    PAPER,
)


def _loss(name: str, about: str, *reported: float) -> Row:
    return Row(
        name, about, {"loss": name, **TRIPLET, "boosting": "none"}, (), _printed(*reported), "table III"
    )


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


def _scorer(name: str, about: str, reported: Recalls | None = None, **changes: Change) -> Row:
    flags = {flag.replace("_", "-"): value for flag, value in changes.items()}
    plain = {**_BASELINE.changes, "scorer": "cosine", "embeddings": 1}
    return Row(name, about, {**plain, **flags}, (), reported, "table II" if reported else "")


SCORERS = AblationTable(
    "scorers",
    "how a pair is scored: one embedding each, three each (PVSE), or words that attend to regions",
    "",
    (
        _scorer("cosine", "the cosine of two embeddings"),
        _scorer("pvse-3", "the best of 3 × 3 cosines", embeddings=3),
        _scorer("pvse-3-heads", "… heads kept apart", embeddings=3, weight_heads=0.1),
        _scorer("pvse-3-mmd", "… modalities kept together", embeddings=3, weight_mmd=0.01),
        _scorer(
            "pvse-3-both", "… both: PVSE as its paper has it", embeddings=3, weight_heads=0.1, weight_mmd=0.01
        ),
        _scorer("interaction", "DBL's single branch", _BASELINE.reported, scorer="interaction"),
        _scorer("cosine-sum", "the cosine, all negatives to the end", loss="btr-sum"),
        _scorer(
            "interaction-sum", "the same, all negatives to the end", scorer="interaction", loss="btr-sum"
        ),
    ),
    "cosine",
    quoted=PAPER,
)

BOOSTING_TABLES = (CONFIGURATIONS, SCENARIOS, OFFLINE, MARGIN, BRANCHES, METRIC_LEARNING, SCORERS)
