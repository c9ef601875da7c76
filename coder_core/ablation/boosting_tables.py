"""Deep Boosting Learning's ablations as grids, with what its paper reports (Diao et al. 2024, Flickr30K test, BiGRU).

The paper prints R@1 and R@5 of every row, and no R@10. Its rows are of its interaction model; where only the text
speaks, R@1 stands alone.
"""

from __future__ import annotations

from coder_core.ablation.rows import TRIPLET, AblationTable, Change, Recalls, Row

PAPER = "Deep Boosting Learning, Flickr30K test, BiGRU"
HARDEST: dict[str, Change] = {"loss": "btr-hardest", **TRIPLET}
TOGETHER: dict[str, Change] = {"boosting-scenario": "online", "boosting-start-epoch": 0.0}  # from the first step
ONLINE: dict[str, Change] = {**HARDEST, **TOGETHER}
NEEDS_ANCHOR = ("boosting-anchor",)


def _printed(i2t_r1: float, t2i_r1: float, i2t_r5: float | None = None, t2i_r5: float | None = None) -> Recalls:
    return (i2t_r1, i2t_r5, None, t2i_r1, t2i_r5, None)


_BASELINE = Row(
    "btr-hardest", "no second branch", {**HARDEST, "boosting": "none", "boosting-scenario": "momentum",
    "boosting-anchor": "", "boosting-branches": 2}, reported=_printed(75.8, 56.5, 93.4, 81.4), source="table II",
)  # fmt: skip


def _offline(form: str, about: str, reported: Recalls) -> Row:
    """Only with --boosting-anchor: a finished run of yours."""
    changes: dict[str, Change] = {**HARDEST, "boosting": form, "boosting-scenario": "offline"}
    return Row(f"{form}-offline", f"{about}, offline", changes, NEEDS_ANCHOR, reported, "table II")


def _beside(form: str, about: str, reported: Recalls | None, scenario: str) -> Row:
    changes: dict[str, Change] = {**HARDEST, "boosting": form, "boosting-anchor": ""}
    changes |= TOGETHER if scenario == "online" else {"boosting-scenario": scenario}
    return Row(
        f"{form}-{scenario}", f"{about}, {scenario}", changes, reported=reported, source="table II" if reported else ""
    )


SCENARIOS = AblationTable(
    "boosting-scenarios",
    "boosting and imitation: branches that train together, or a moving average",
    "table II (more memory and time than its baseline: online 100% and 73%, momentum 11% and 18%)",
    (
        _BASELINE,
        _beside("dml", "mutual learning (DML)", _printed(77.7, 57.4, 93.6, 82.8), "online"),
        _beside("rm", "RM", _printed(79.3, 59.1, 95.4, 83.0), "online"),
        _beside("am", "AM", _printed(79.0, 58.5, 94.9, 83.1), "online"),
        _beside("dino", "DINO", _printed(76.5, 58.5, 93.4, 83.2), "momentum"),
        _beside("dino-reversed", "DINO*", _printed(77.9, 58.8, 93.9, 83.5), "momentum"),
        _beside("rm", "RM", _printed(78.4, 59.1, 94.4, 83.6), "momentum"),
        _beside("am", "AM", _printed(79.4, 59.7, 94.7, 83.5), "momentum"),
    ),
    "btr-hardest",
    quoted=PAPER,
)

OFFLINE = AblationTable(
    "boosting-offline",
    "boosting and imitation: a finished run as the second branch, named with --boosting-anchor",
    "table II (more memory and time than its baseline: 12% and 120%)",
    (
        _BASELINE,
        _offline("dr", "ranks (DR)", _printed(76.8, 57.4, 93.7, 81.8)),
        _offline("rkd", "relations (RKD)", _printed(77.6, 56.8, 93.8, 81.9)),
        _offline("rm", "RM", _printed(79.1, 58.5, 94.6, 83.3)),
        _offline("am", "AM", _printed(79.7, 58.7, 94.6, 83.2)),
    ),
    "btr-hardest",
    quoted=PAPER,
)

_CONFIGURATIONS: tuple[tuple[str, str, dict[str, Change], Recalls], ...] = (
    ("b-rs", "RS", {"boosting": "rs"}, _printed(77.6, 58.1, 94.6, 82.4)),
    ("c-as", "AS", {"boosting": "as"}, _printed(78.2, 57.1, 94.8, 82.5)),
    ("d-rm-soft", "RM, soft margin", {"boosting": "rm", "boosting-soft": True}, _printed(77.1, 59.6, 94.5, 83.9)),
    ("e-am-soft", "AM, soft margins", {"boosting": "am", "boosting-soft": True}, _printed(77.2, 58.8, 94.6, 83.5)),
    ("f-rm", "RM", {"boosting": "rm"}, _printed(79.3, 59.1, 95.4, 83.0)),
    ("g-am", "AM", {"boosting": "am"}, _printed(79.0, 58.5, 94.9, 83.1)),
    ("h-rs-as", "the mean of RS and AS", {"boosting": "rs-as"}, _printed(78.0, 57.8, 94.6, 82.3)),
    ("i-rm-am", "the mean of RM and AM", {"boosting": "rm-am"}, _printed(78.9, 58.7, 95.1, 83.0)),
)
CONFIGURATIONS = AblationTable(
    "boosting",
    "all negatives or the hardest, relative or absolute, fixed or soft margins; two branches that train together",
    "table IV",
    (
        Row("a-none", "no second branch", _BASELINE.changes, reported=_BASELINE.reported, source="table IV #A"),
        *(
            Row(
                name, about, {**ONLINE, "boosting-soft": False, **changes}, (), reported, f"table IV #{name[0].upper()}"
            )
            for name, about, changes, reported in _CONFIGURATIONS
        ),
    ),
    "a-none",
    quoted=PAPER,
)

MARGIN = AblationTable(
    "boosting-margin",
    "γ of RM, and the positive's share α of it in AM; two branches that train together (the paper draws them without "
    "numbers: its text says at least 1.9 and 1.3 more R@1 for γ from 0.1 to 0.3, 3.2 and 1.9 for α from 0.3 to 0.7)",
    "figure 4",
    (
        *(
            Row(f"rm-gamma-{gamma:g}", f"RM, γ = {gamma:g}", {**ONLINE, "boosting": "rm", "boosting-margin": gamma},
                x=gamma, group="RM, γ")
            for gamma in (0.1, 0.15, 0.2, 0.25, 0.3)
        ),
        *(
            Row(f"am-alpha-{alpha:g}", f"AM, α = {alpha:g}", {**ONLINE, "boosting": "am", "boosting-split": alpha},
                x=alpha, group="AM, α")
            for alpha in (0.3, 0.4, 0.5, 0.6, 0.7)
        ),
    ),
    "rm-gamma-0.2",
    "γ or α",
    quoted=PAPER,
)  # fmt: skip

BRANCHES = AblationTable(
    "boosting-branches",
    "how many branches train together",
    "section IV-B",
    (
        _BASELINE,
        *(
            Row(
                f"{form}-{count}", f"{form.upper()}, {count} branches",
                {**ONLINE, "boosting": form, "boosting-branches": count}, (), reported,
                "section IV-B" if reported else "", count, form.upper(),
            )
            for form, count, reported in (
                ("rm", 2, _printed(79.3, 59.1, 95.4, 83.0)), ("rm", 3, _printed(79.4, 59.5)), ("rm", 4, None),
                ("dml", 2, _printed(77.7, 57.4, 93.6, 82.8)), ("dml", 3, None), ("dml", 4, _printed(78.3, 58.8)),
            )
        ),
    ),
    "btr-hardest",
    "branches",
    quoted=PAPER,
)  # fmt: skip

METRIC_LEARNING = AblationTable(
    "metric-learning",
    "one branch and other losses, beside boosting with a moving average",
    "table III (its VSE0 and VSE++ are the first two)",
    (
        Row("btr-sum", "triplet, all negatives", {"loss": "btr-sum", **TRIPLET, "boosting": "none"},
            reported=_printed(74.4, 54.3, 92.8, 81.2), source="table III"),
        _BASELINE,
        Row("cmpm", "cross-modal projection matching", {"loss": "cmpm", **TRIPLET, "boosting": "none"},
            reported=_printed(76.8, 57.8, 95.1, 82.8), source="table III"),
        Row("polynomial", "polynomial loss (MPL)", {"loss": "polynomial", **TRIPLET, "boosting": "none"},
            reported=_printed(77.1, 57.4, 94.3, 82.3), source="table III"),
        *(row for row in SCENARIOS.rows if row.name in ("rm-momentum", "am-momentum")),
    ),
    "btr-hardest",
    quoted=PAPER,
)  # fmt: skip

BOOSTING_TABLES = (CONFIGURATIONS, SCENARIOS, OFFLINE, MARGIN, BRANCHES, METRIC_LEARNING)
