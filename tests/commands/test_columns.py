"""Columns in the commands: joined to a finished run or while embedding, in evaluate --by, the report and its gate."""

import csv
import json

import numpy as np
import pytest

import coder_core
from coder_core.api import open_run, slices
from coder_core.evaluate import main as evaluate
from coder_core.report import main as report
from coder_core.runs.analysis.read import open_analysis
from tests.support.precomp_folders import refusal

COUNT = 240
BAD = np.arange(COUNT) % 3 == 0


@pytest.fixture
def runs(tmp_path):
    """Return two runs: captions of brand Bad are those of other images in the second one."""
    rng = np.random.default_rng(0)
    images = rng.normal(size=(COUNT, 16))
    right = images + rng.normal(size=(COUNT, 16)) / 100
    wrong = right.copy()
    wrong[BAD] = np.roll(right[BAD], 1, axis=0)
    folders = [tmp_path / "good", tmp_path / "worse"]
    for folder, texts in zip(folders, (right, wrong), strict=True):
        named = {"captions": [f"a thing of number {n}" for n in range(COUNT)]}
        coder_core.log_split(
            folder, "dev", images, texts, pictures=[f"shop/{n}.jpg" for n in range(COUNT)], **named
        )
    return folders


def write_table(file):
    """Write a table about most pictures, by their names without folder and ending, and about others."""
    with file.open("w", newline="") as content:
        table = csv.writer(content)
        table.writerow(["id", "brand", "price", "note"])
        for n in range(10, COUNT + 5):
            table.writerow([n, "Bad" if BAD[n % COUNT] else "Good", 5 + n / 10, f"{n} words " + "x" * 100])
        table.writerow([10, "Other", 1, ""])
    return file


def test_a_table_is_joined_to_finished_runs_and_recall_is_printed_by_column(runs, tmp_path, capsys):
    file = write_table(tmp_path / "catalogue.csv")
    before = open_analysis(runs[1], "dev").manifest_sha256
    assert evaluate([*map(str, runs), "--columns", str(file), "--by", "brand", "price"]) == 0
    printed = capsys.readouterr().out
    assert "joined by the column 'id' to 230 of 240 pictures; 5 rows are about other" in " ".join(
        printed.split()
    )
    assert "1 rows repeat a sample" in printed
    [row] = [" ".join(line.split()) for line in printed.splitlines() if "brand “Bad”" in line]
    bad = int(BAD[10:].sum())
    assert row.endswith(f"{bad} 100.0 [100.0, 100.0] 0.0 [0.0, 0.0]")
    assert "price below" in printed
    assert open_analysis(runs[1], "dev").manifest_sha256 == before
    columns = open_run(runs[1]).columns("dev")
    assert [columns.images["brand"].cell(image) for image in (9, 10, 12)] == [None, "Good", "Bad"]
    assert columns.images["note"].kind == "text"
    refused = refusal(slices.slices_by, slices.slice_columns(open_run(runs[1]), "dev"), ["note"])
    assert "--by note: is a column of texts" in str(refused)


def test_joined_columns_that_cannot_be_read_are_named_and_change_nothing(runs, tmp_path):
    file = write_table(tmp_path / "catalogue.csv")
    assert evaluate([str(runs[0]), "--columns", str(file)]) == 0
    stored = runs[0] / "columns" / "dev" / "image_columns.parquet"
    stored.write_bytes(stored.read_bytes()[:-1] + b"x")
    run = open_run(runs[0])
    assert not run.columns("dev")
    assert "image_columns.parquet" in run.column_faults("dev")[0]
    assert slices.slice_columns(run, "dev").own == {}
    assert evaluate([str(runs[0]), "--columns", str(file)]) == 0  # joined again
    assert open_run(runs[0]).columns("dev").images
    rng = np.random.default_rng(1)
    others = [rng.normal(size=(COUNT, 16)) for _ in range(2)]
    with pytest.warns(UserWarning, match="no better than chance"):
        coder_core.log_split(runs[0], "dev", *others, captions=[f"something else {n}" for n in range(COUNT)])
    run = open_run(runs[0])
    assert not run.columns("dev")
    assert "belongs to other samples" in run.column_faults("dev")[0]


def test_tables_that_are_not_about_the_split_are_refused(runs, tmp_path, capsys):
    file = tmp_path / "other.csv"
    file.write_text("picture,brand\nx.jpg,Acme\n")
    assert evaluate([str(runs[0]), "--columns", str(file)]) == 1
    assert evaluate([str(runs[0]), "--columns", str(tmp_path / "nothing.csv")]) == 1
    assert evaluate([str(runs[0]), "--by", "brand"]) == 1
    printed = " ".join(capsys.readouterr().err.split())
    assert "has no row about a picture or a caption of this split" in printed
    assert "nothing.csv: is not a file" in printed
    assert "--by brand: is not a column of the split" in printed


def test_the_report_and_its_gate_use_the_columns(runs, tmp_path, capsys):
    file = write_table(tmp_path / "catalogue.csv")
    assert evaluate([*map(str, runs), "--columns", str(file)]) == 0
    page = tmp_path / "report.html"
    gate = ["--gate-slices=-5", "--gate-queries=40", "--by", "brand"]
    assert report([*map(str, runs), "--split=dev", f"--out={page}", *gate]) == 1
    result = json.loads(page.with_suffix(".json").read_text())
    checks = {check["name"]: check["passed"] for check in result["checks"]}
    ways = ("i2t_r1", "t2i_r1")
    assert checks == {f"{way}, brand “{brand}”": brand == "Good" for way in ways for brand in ("Bad", "Good")}
    text = page.read_text()
    assert "brand “Bad”" in text
    assert "length" not in text.partition("Slices")[2].partition("</table>")[0].partition("<tbody>")[2]
    assert report([*map(str, runs), "--split=dev", f"--out={page}", *gate[:2], "--overwrite"]) == 1
    names = {check["name"] for check in json.loads(page.with_suffix(".json").read_text())["checks"]}
    assert "t2i_r1, brand “Bad”" in names
    assert any("price" in name for name in names)
