"""A report as one HTML page: no script, nothing loaded from elsewhere, readable in print."""

from __future__ import annotations

from typing import Any

import numpy as np
from jinja2 import Environment, StrictUndefined
from markupsafe import Markup

from coder_core.api.report.sections import LABELS, Report

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
<h1>{{ report.question }}</h1><p class="how">{{ report.title }}</p>
{% if report.short %}<ul class="short">
{% for sentence in report.short %}<li>{{ sentence }}</li>{% endfor %}</ul>{% endif %}

<h2>Data</h2>
<table>{% for name, value in report.data.items() %}<tr><th>{{ name }}</th><td>{{ value }}</td></tr>{% endfor %}</table>

<h2>Recall</h2>
<p class="how">Percent of the queries with a true match among the first K results, with the 95% interval of a bootstrap
over images. The interval of a difference is narrower than those of two runs suggest: it stands below.</p>
{{ table(report.recalls, "run") }}
{% for sentence in report.gains if report.gains|length > 1 %}<p>{{ sentence }}</p>{% endfor %}

{% for source, rows in report.judged.items() %}<h2>By the judgements of {{ source }}</h2>
<p class="how">R@K by the labels alone, and with what people judged to fit counted as well, over the same queries. R is
the number of a query’s matches: mAP@R and R-Precision ask for all of them.</p>
{{ table(rows, none) }}{% endfor %}

{% if report.outcomes %}<h2>What moved</h2>
<p class="how">Queries by rank of their true match in the first run (rows) and in the last (columns). Below the
diagonal, green, the last run ranks it higher.</p>
<div class="pair">{% for way, bands in report.bands.items() %}<div><h3>{{ way }}</h3>
<table><tr><td></td>{% for label in labels %}<th class="number">{{ label }}</th>{% endfor %}</tr>
{% for row in bands.tolist() %}{% set above = loop.index0 %}<tr><th>{{ labels[loop.index0] }}</th>{% for count in row %}
<td class="cell" style="background:{{ shade(count, bands.max(), above, loop.index0) }}">{{ "{:,}".format(count) }}</td>
{% endfor %}</tr>{% endfor %}</table>
<p class="fact">{% for name, count in report.outcomes[way].items() %}
{{ name }} {{ "{:,}".format(count) }}{{ " · " if not loop.last }}{% endfor %}
 (within the first result)<br>{{ report.moved[way] }}</p></div>{% endfor %}</div>{% endif %}

<h2>Typical failures</h2>
<p class="how">Captions as queries. Left, in green, the image that belongs to the caption; right the best other one.</p>
{% for heading, examples in report.examples.items() %}<h3>{{ heading }}</h3><div class="cards">
{% for one in examples %}<div class="card"><p>{{ one.caption }}</p><div class="pictures">
{% for source, name, kind in ((one.picture, one.own, "own"), (one.answer, one.answer_name, "other")) %}
<figure class="{{ kind }}">{% if source %}<img src="{{ source }}" alt="">{% endif %}
<figcaption>{{ name }}</figcaption></figure>
{% endfor %}</div><div class="fact">{{ one.fact }}</div></div>{% endfor %}</div>{% endfor %}

<h2>Slices</h2>
<p class="how">Captions by what they say, the slice with the most misses beyond the expected ones first. Slices are
ordered by one half of the images; every number but the queries is of the other half, with 95% intervals over images.
R@1 in percent, text→image.
{% if "gain" in report.slices %}A gain whose interval holds zero may be noise.{% endif %}</p>
{{ table(report.slices, none) }}

{% if report.clusters|length %}<h2>Clusters</h2>
<p class="how">The largest prototypes of the last run: size in pairs, share of pairs whose image and caption carry the
same label, mean cosine to the centroid, and the words that mark them.</p>
{{ table(report.clusters, none) }}{% endif %}

{% if report.diversity %}<h2>Ambiguity</h2>
<p class="how">CODER’s diversity of every caption (eq. 3): low means that it is about equally similar to many images.
Least {{ "%.3f"|format(report.diversity[1]) }}, most 1.</p>
{{ histogram(report.diversity[0], report.diversity[1]) }}
<h3>The least diverse captions</h3>{{ table(report.ambiguous, none) }}{% endif %}

{% if report.reviews %}<h2>Reviews</h2>
<table>{% for name, value in report.reviews.items() %}<tr><th>{{ name }}</th><td>{{ value }}</td></tr>{% endfor %}
</table>{% endif %}

{% if report.settings is not none %}<h2>Settings that differ</h2>
{% if report.settings|length %}{{ table(report.settings, "setting") }}{% else %}<p>None.</p>{% endif %}{% endif %}

<h2>How to reproduce</h2>
{% for name, command in report.commands if command %}
<div class="fact">{{ name }}</div><pre>{{ command }}</pre>{% endfor %}
<footer>{{ report.versions }}</footer></body></html>
"""

_TABLE = """<div class="wide"><table><tr>{% if index is not none %}<th>{{ index }}</th>{% endif %}
{% for name in frame.columns %}<th class="{{ 'number' if numeric[name] }}">{{ name }}</th>{% endfor %}</tr>
{% for row in frame.itertuples() %}<tr>{% if index is not none %}<th>{{ row[0] }}</th>{% endif %}
{% for name in frame.columns %}<td class="{{ 'number' if numeric[name] }}">{{ shown(row[loop.index]) }}</td>
{% endfor %}</tr>{% endfor %}</table></div>
"""

_HISTOGRAM = """<svg width="640" height="150" role="img" aria-label="Captions by diversity">
{% for count in counts %}<rect x="{{ loop.index0 * 31 + 8 }}" width="28" y="{{ 120 - 100 * count / most }}"
 height="{{ 100 * count / most }}" fill="#0b6e8a"><title>{{ "{:,}".format(count) }} captions</title></rect>{% endfor %}
<text x="8" y="140">{{ "%.3f"|format(low) }}</text><text x="628" y="140" text-anchor="end">1</text></svg>
"""


def render(report: Report) -> str:
    """The page. Every value is escaped; the only markup is the template's own."""
    environment = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    table, histogram = environment.from_string(_TABLE), environment.from_string(_HISTOGRAM)

    def show_table(frame: Any, index: str | None) -> Markup:
        numeric = {name: not frame[name].map(type).eq(str).any() for name in frame.columns}
        return Markup(table.render(frame=frame, index=index, numeric=numeric, shown=_shown))

    def show_histogram(counts: list[int], low: float) -> Markup:
        return Markup(histogram.render(counts=counts, low=low, most=max(counts) or 1))

    return environment.from_string(_TEMPLATE).render(
        report=report,
        style=_STYLE,
        policy=POLICY,
        labels=LABELS,
        shade=_shade,
        table=show_table,
        histogram=show_histogram,
    )


def _shown(value: Any) -> str:
    """A cell; (mean, low, high) has its interval below it."""
    if isinstance(value, tuple):
        mean, low, high = value
        return Markup('{}<br><span class="interval">{} to {}</span>').format(
            *(f"{one:.1f}" for one in (mean, low, high))
        )
    if isinstance(value, float | np.floating):
        return "–" if np.isnan(value) else f"{value:,.0f}" if float(value).is_integer() else f"{value:,.4g}"
    return f"{value:,}" if isinstance(value, int | np.integer) else str(value)


def _shade(count: int, most: int, row: int, column: int) -> str:
    """Background of a cell: green where the last run ranks higher, red where lower, grey on the diagonal."""
    share = 0.08 + 0.62 * (count / most) ** 0.5 if count and most else 0.0
    red, green, blue = (90, 105, 115) if row == column else (44, 138, 75) if row > column else (190, 70, 50)
    return f"rgba({red},{green},{blue},{share:.2f})"
