"""Figures of docs/results.md, the glossary and the API are those that the lab notes measured."""

import re
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[2]
MEASURED = "\n".join(path.read_text("utf-8") for path in sorted((PROJECT / "lab").glob("*.md")))
MEAN = re.compile(r"\d{2,3}\.\d ± \d+\.\d")  # mean ± standard deviation of R@sum over seeds


def test_means_over_seeds_were_measured():
    figures = set(MEAN.findall((PROJECT / "docs/results.md").read_text("utf-8")))
    assert figures
    assert {figure for figure in figures if figure not in MEASURED} == set()


def test_suspicion_has_one_precision():
    """The share of wrong pairs among the doubtful ones, in the glossary, the API and the lab notes."""
    sources = ("app/components/glossary.toml", "coder_core/api/data_quality.py", "lab/data_quality.md")
    for source in sources:
        assert "84%" in (PROJECT / source).read_text("utf-8"), source
