"""A report as one HTML page: no script, nothing loaded from elsewhere, readable in print."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jinja2 import Environment, StrictUndefined
from markupsafe import Markup

POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'"

_STYLE = """
:root { color-scheme: light; --line: #d5dce0; --faint: #5d6b73; --strong: #0b6e8a; --soft: #e8f2f5; }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 1080px; padding: 32px 24px 64px; background: #fff; color: #1c262b;
  font: 16px/1.55 system-ui, "Segoe UI", Roboto, "Helvetica Neue", sans-serif; }
h1 { font-size: 28px; line-height: 1.25; margin: 0 0 4px; }
h2 { font-size: 20px; margin: 44px 0 6px; padding-top: 14px; border-top: 1px solid var(--line); }
h3 { font-size: 16px; margin: 22px 0 6px; }
p.how, caption, .fact, footer { color: var(--faint); font-size: 14px; }
p.how { margin: 0 0 10px; max-width: 760px; }
ul.short { background: var(--soft); border-radius: 8px; margin: 18px 0; padding: 14px 18px 14px 36px; }
table { border-collapse: collapse; font-size: 14px; margin: 8px 0; }
caption { text-align: left; padding-bottom: 4px; }
th, td { border-bottom: 1px solid var(--line); padding: 5px 10px 5px 0; text-align: left; vertical-align: top; }
.interval { color: var(--faint); font-size: 12px; white-space: nowrap; }
td.number, th.number { white-space: nowrap; text-align: right; font-variant-numeric: tabular-nums; }
td.cell { border: 1px solid #fff; min-width: 58px; text-align: right; padding: 6px 8px; }
.wide { overflow-x: auto; }
.pair { display: flex; flex-wrap: wrap; gap: 36px; }
.cards { display: grid; grid-template-columns: repeat(auto-fill, minmax(320px, 1fr)); gap: 16px; }
.card { border: 1px solid var(--line); border-radius: 8px; padding: 12px; break-inside: avoid; }
.card p { margin: 0 0 8px; overflow-wrap: anywhere; }
.card .pictures { display: flex; gap: 10px; }
.card figure { margin: 0; flex: 1; min-width: 0; }
.card img { width: 100%; height: 130px; object-fit: cover; border-radius: 4px; display: block; }
.card .own img { outline: 3px solid #2c8a4b; outline-offset: -3px; }
figcaption { font-size: 12px; color: var(--faint); overflow-wrap: anywhere; }
.bar { display: inline-block; height: 10px; background: var(--strong); border-radius: 2px; vertical-align: middle; }
pre { background: #f4f6f7; border-radius: 6px; padding: 10px 12px; font-size: 13px; white-space: pre-wrap;
  overflow-wrap: anywhere; margin: 4px 0 12px; }
svg text { font-size: 11px; fill: var(--faint); }
@media print { body { max-width: none; padding: 0; font-size: 12px; } h2 { break-after: avoid; } }
"""

_TEMPLATE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta http-equiv="Content-Security-Policy" content="{{ policy }}">
<meta name="viewport" content="width=device-width, initial-scale=1"><title>{{ report.title }}</title>
<style>{{ style }}</style></head><body>
{% macro facts(values) %}<table>
{% for name, value in values.items() %}<tr><th>{{ name }}</th><td>{{ value }}</td></tr>{% endfor %}</table>{% endmacro %}
{% macro sentences(values) %}{% for sentence in values %}<p>{{ sentence }}</p>{% endfor %}{% endmacro %}
{% macro subheading(text) %}<h3>{{ text }}</h3>{% endmacro %}
{% macro table(frame) %}{% set index = frame.index.name %}
<div class="wide"><table><tr>{% if index is not none %}<th>{{ index }}</th>{% endif %}
{% for name in frame.columns %}<th class="{{ 'number' if numeric(frame[name]) }}">{{ name }}</th>{% endfor %}</tr>
{% for row in frame.itertuples() %}<tr>{% if index is not none %}<th>{{ row[0] }}</th>{% endif %}
{% for name in frame.columns %}
<td class="{{ 'number' if numeric(frame[name]) }}">{{ cell(row[loop.index]) }}</td>
{% endfor %}</tr>{% endfor %}</table></div>{% endmacro %}
{% macro bands(tables) %}<div class="pair">{% for one in tables %}<div><h3>{{ one.heading }}</h3>
<table><tr><td></td>{% for label in one.labels %}<th class="number">{{ label }}</th>{% endfor %}</tr>
{% for row in one.counts.tolist() %}{% set above = loop.index0 %}<tr><th>{{ one.labels[loop.index0] }}</th>
{% for count in row %}
<td class="cell" style="background:{{ shade(count, one.counts.max(), above, loop.index0) }}">{{ cell(count) }}</td>
{% endfor %}</tr>{% endfor %}</table>
<p class="fact">{{ one.outcomes }} (within the first result)<br>{{ one.gain }}</p></div>{% endfor %}</div>{% endmacro %}
{% macro examples(cards) %}<div class="cards">
{% for one in cards %}<div class="card"><p>{{ one.caption }}</p><div class="pictures">
{% for source, name, kind in ((one.picture, one.own, "own"), (one.answer, one.answer_name, "other")) %}
<figure class="{{ kind }}">{% if source %}<img src="{{ source }}" alt="">{% endif %}
<figcaption>{{ name }}</figcaption></figure>
{% endfor %}</div><div class="fact">{{ one.fact }}</div></div>{% endfor %}</div>{% endmacro %}
{% macro histogram(values) %}{% set counts, low = values %}{% set most = counts|max or 1 %}
<svg width="640" height="150" role="img" aria-label="Captions by diversity">
{% for count in counts %}<rect x="{{ loop.index0 * 31 + 8 }}" width="28" y="{{ 120 - 100 * count / most }}"
 height="{{ 100 * count / most }}" fill="#0b6e8a"><title>{{ cell(count) }} captions</title></rect>{% endfor %}
<text x="8" y="140">{{ "%.3f"|format(low) }}</text><text x="628" y="140" text-anchor="end">1</text></svg>{% endmacro %}
{% macro commands(values) %}{% for name, command in values if command %}
<div class="fact">{{ name }}</div><pre>{{ command }}</pre>{% endfor %}{% endmacro %}
{% set blocks = {"facts": facts, "sentences": sentences, "subheading": subheading, "table": table, "bands": bands,
 "examples": examples, "histogram": histogram, "commands": commands} %}
<h1>{{ report.question }}</h1><p class="how">{{ report.title }}</p>
{% if report.short %}<ul class="short">
{% for sentence in report.short %}<li>{{ sentence }}</li>{% endfor %}</ul>{% endif %}
{% for section in report.sections %}<h2>{{ section.heading }}</h2>
{% if section.how %}<p class="how">{{ section.how }}</p>{% endif %}
{% for kind, content in section.blocks %}{{ blocks[kind](content) }}{% endfor %}
{% endfor %}<footer>{{ report.versions }}</footer></body></html>
"""


@dataclass(frozen=True)
class Section:
    """A section of a report."""

    heading: str
    how: str  # how to read it, one paragraph
    # kind and content, from top to bottom. Kinds are the macros of the template: "facts" (a mapping),
    # "sentences", "subheading", "table" (a DataFrame, with its index where that has a name; a cell may be
    # mean, low and high), "bands" (queries of every direction by the band of their rank in the first run, rows
    # of `counts`, and in the last, columns), "examples" (captions as queries, with data URLs or "" for the
    # pictures), "histogram" (counts and the smallest value), "commands" (pairs of a name and a command)
    blocks: Sequence[tuple[str, Any]]


@dataclass(frozen=True)
class Report:
    """A page."""

    question: str  # the heading
    title: str  # of the window
    short: Sequence[str]  # sentences, the findings first
    sections: Sequence[Section]
    versions: str  # of the programs


def render(report: Report) -> str:
    """The page. Every value is escaped; the only markup is the template's own."""
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True)
    helpers: Mapping[str, Any] = {"numeric": _numeric, "cell": _cell, "shade": _shade}
    return environment.from_string(_TEMPLATE).render(report=report, style=_STYLE, policy=POLICY, **helpers)


def _numeric(column: Any) -> bool:
    return not column.map(type).eq(str).any()


def _cell(value: Any) -> str:
    """A cell; (mean, low, high) has its interval below it."""
    if isinstance(value, tuple):
        cell = Markup('{:.1f}<br><span class="interval">{:.1f} to {:.1f}</span>')
        return cell.format(*value)
    if isinstance(value, float | np.floating):
        return "–" if np.isnan(value) else f"{value:,.0f}" if float(value).is_integer() else f"{value:,.4g}"
    return f"{value:,}" if isinstance(value, int | np.integer) else str(value)


def _shade(count: int, most: int, row: int, column: int) -> str:
    """Background of a cell: green where the last run ranks higher, red where lower, grey on the diagonal."""
    share = 0.08 + 0.62 * (count / most) ** 0.5 if count and most else 0.0
    red, green, blue = (90, 105, 115) if row == column else (44, 138, 75) if row > column else (190, 70, 50)
    return f"rgba({red},{green},{blue},{share:.2f})"
