"""Tables fit: no word is broken in a file, and a narrow terminal gets fewer columns."""

import pytest

from coder_core.console.faults import Fault
from coder_core.console.output import open_console, print_faults
from coder_core.console.tables import Column, FittingTable, choices_table, metrics_table
from tests.support.tiny_runs import quiet

LONG = "coder-flickr8k-with-a-name-of-many-words-and-seed-0-whose-folder-somebody-named-on-a-friday-afternoon"
RECALLS = {f"{way}_r{k}": 12.3 for way in ("i2t", "t2i") for k in (1, 5, 10)}
KEYS = [f"{way}_{key}" for way in ("i2t", "t2i") for key in ("mrr", "medr", "meanr", "ties")]
METRICS = RECALLS | dict.fromkeys(KEYS, 4.0)
ROWS = {name: METRICS | {"rsum": 345.6, "md": 0.789} for name in ("demo", LONG)}


def printed(table, width):
    console = quiet(width)
    console.print(table)
    return console.file.getvalue()


def test_redirected_tables_keep_every_column_and_cells_are_escaped(capsys, monkeypatch):
    monkeypatch.delenv("COLUMNS", raising=False)
    open_console().print(metrics_table(ROWS, "dev"))
    out = capsys.readouterr().out
    [line] = [line for line in out.splitlines() if LONG in line]
    assert all(cell in line for cell in ("12.3/12.3/12.3", "4 · 4.0", "345.6", "0.789"))
    assert "too narrow" not in out
    monkeypatch.setenv("COLUMNS", "60")
    open_console().print(metrics_table({"demo": ROWS["demo"]}, "dev"))
    assert max(map(len, capsys.readouterr().out.splitlines())) <= 60
    table = FittingTable("", [Column("[red]run", text=True)])
    table.add_row("[bold]x[/nothing]")
    assert "[bold]x[/nothing]" in printed(table, 80)
    print_faults(open_console(stderr=True), [Fault("a[bold]", "is \x1b]0;owned\x07")])
    assert capsys.readouterr().err == "error: a[bold]: is \\x1b]0;owned\\x07\n"


@pytest.mark.parametrize(
    ("width", "missing"),
    [
        (100, ""),
        (80, "MRR nDCG@10"),
        (73, "MRR nDCG@10, ties %"),
        (61, "MRR nDCG@10, MD, ties %"),
        (50, "MRR nDCG@10, MedR MeanR, MD, ties %"),
        (41, "MRR nDCG@10, MedR MeanR, text→image R@1/5/10, MD, ties %"),
        (20, "image→text R@1/5/10, MRR nDCG@10, MedR MeanR, text→image R@1/5/10, MD, ties %"),
    ],
)
def test_narrow_terminals_drop_whole_columns(width, missing):
    text = printed(metrics_table({"demo": ROWS["demo"]}, "dev"), width)
    [row] = [line for line in text.splitlines() if line.startswith(" demo")]
    assert "345.6" in row
    assert row.count(" 4.0/–") == (0 if missing else 2)
    assert ("0.789" in row) == ("MD" not in missing)
    assert row.count("12.3/12.3/12.3") == 2 - missing.count("R@1/5/10")
    assert f"too narrow for {missing}" in " ".join(text.split()) if missing else "too narrow" not in text
    assert max(map(len, text.splitlines())) <= width


def test_wide_names_fold_text_wraps_and_the_largest_choices_go_first():
    text = printed(metrics_table(ROWS, "dev"), 40)
    assert LONG in "".join(line.split()[0] for line in text.splitlines() if line[:1] == " " and line.strip())
    assert text.count("345.6") == 2
    table = FittingTable("", [Column("preset"), Column("about", text=True, dropped=1)])
    table.add_row("demo", "built-in pictures and nothing else")
    assert "nothing" in printed(table, 25)
    assert "nothing" not in printed(table, 10)
    row = {f"{way}_{c}way": 50.0 for way in ("i2t", "t2i") for c in (5, 20)}
    table = choices_table({"demo": row | {f"{key}_interval": 1.0 for key in row}}, (5, 20, 100), "c-way")
    wide = printed(table, 120)
    narrow = printed(table, 40)
    assert (wide.count("50.0 ± 1.0"), wide.count("–")) == (4, 2)
    assert narrow.count("50.0 ± 1.0") == 2
    assert "5-way" in narrow
