"""The figure of a table: its contents, and that names from files are shown as plain text."""

import pytest

from coder_core.ablation.papers import TABLES
from coder_core.ablation.results import RECALLS, SUM, Measured, ResultRow, Results, measured
from coder_core.ablation.rows import AblationTable, Row
from coder_core.ablation.writing import figure, latex, markdown, write_figure
from coder_core.evaluation.bootstrap import Difference


def results(table, sums):
    """Return a table with these R@sum values; all other metrics are 40."""
    base = measured(sums[table.reference]).mean
    rows = []
    for row in (row for row in table.rows if row.name in sums):
        values = sums[row.name]
        gain = measured(values).mean - base
        against = None if row.name == table.reference else Difference(gain, gain - 4, gain + 4, seeds=True)
        metrics = {name: Measured(40.0, None) for name in RECALLS} | {SUM: measured(values)}
        rows.append(ResultRow(row, tuple(range(len(values))), metrics, values, table.reference, against, 3.0))
    return Results(table, "dev", table.reference, tuple(rows), ())


def test_the_figure_shows_seeds_means_and_the_papers_differences():
    drawing = figure(results(TABLES["components"], {"1-btr": (250.0, 254.0), "2-dcl": (262.0,)}))
    by_name = {trace.name: trace for trace in drawing.data}
    assert list(by_name["one seed"].x) == [250.0, 254.0, 262.0]
    assert list(by_name["mean ± spread"].x) == [252.0, 262.0]
    assert "image → text R@5 40.0<br>" in by_name["mean ± spread"].hovertext[0]
    assert by_name["mean ± spread"].error_x.array == pytest.approx((8**0.5, 0.0))
    assert list(next(trace for trace in drawing.data if trace.name is None).x) == [10.0]
    assert list(by_name["the paper's difference (Flickr30K)"].x) == pytest.approx([514.5 - 503.7])


def test_a_curve_figure_has_one_line_per_group():
    sums = {row.name: (200.0 + i,) for i, row in enumerate(TABLES["batch-size"].rows)}
    drawing = figure(results(TABLES["batch-size"], sums))
    lines = {trace.name: list(trace.y) for trace in drawing.data if trace.mode == "lines+markers"}
    assert lines == {"without M-DCL": [200, 201, 202], "with M-DCL": [203, 204, 205]}


def test_line_colour_encodes_the_loss_and_dash_the_cleaning():
    rows = [f"{loss}-40-{way}" for loss in ("infonce", "coder") for way in ("as-is", "cleaned", "oracle")]
    sums = dict.fromkeys(("coder-0-as-is", *rows), (200.0,))
    lines = {trace.name: trace.line for trace in figure(results(TABLES["noise"], sums)).data[:6]}
    assert len(lines) == 6
    infonce, coder = (lines[f"{loss}, cleaned"] for loss in ("InfoNCE", "CODER"))
    assert infonce.color != coder.color
    assert infonce.dash == coder.dash != lines["InfoNCE, as it is"].dash
    assert len({lines[f"CODER, {way}"].color for way in ("as it is", "cleaned", "true pairs only")}) == 1


def test_names_from_a_file_are_escaped(tmp_path):
    evil = '<a href="http://x">&amp;</a>$\\alpha$_%'
    table = AblationTable("mine", evil, (Row("a", evil), Row("b", "")), "a")
    table_results = results(table, {"a": (1.0,), "b": (2.0,)})
    page = write_figure(table_results, tmp_path).read_text("utf-8")
    assert "<title>Ablation: mine</title>" in page
    assert "<a href" not in page.split("</script>")[-2]
    assert "&lt;a href" in str(figure(table_results).data[0].y)
    assert r"\$\textbackslash alpha\$\_\%" in latex(table_results)
    assert "\nb & " in latex(table_results)
    text = markdown(table_results, "command")
    assert text.count("|\n") == 4
    assert text.count("40.0 | – | – | ") == 4  # runs without MRR and nDCG@10
    assert latex(table_results).count(" & -- & -- & 40.0") == 2


@pytest.mark.parametrize("name", TABLES)
def test_every_table_can_be_plotted_complete_or_incomplete(name):
    table = TABLES[name]
    whole = {row.name: (200.0 + i, 201.0) for i, row in enumerate(table.rows)}
    assert len(figure(results(table, whole)).data) >= 3
    assert len(figure(results(table, {table.reference: (200.0,)})).data) >= 2
