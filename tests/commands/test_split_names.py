"""Names of splits on the command line: val is dev."""

from pathlib import Path

import pytest
import tyro

from coder_core.ablate import AblateArguments
from coder_core.api import open_run
from coder_core.cluster import ClusterArguments
from coder_core.embed import EmbedArguments, FolderArguments, PicturesArguments
from coder_core.evaluate import EvaluateArguments, main
from coder_core.export import ExportArguments
from coder_core.project import ProjectArguments
from coder_core.report import ReportArguments
from coder_core.report import main as report

IMPORTED = ["--images=i", "--texts=t", "--captions=c", "--name=n"]


@pytest.mark.parametrize(
    ("kind", "flags"),
    [
        (ClusterArguments, ["run"]),
        (EmbedArguments, IMPORTED),
        (EvaluateArguments, ["run"]),
        (ExportArguments, ["run", "--to", "faiss", "file"]),
        (FolderArguments, ["folder", "--name=n"]),
        (PicturesArguments, ["folder", "--name=n", "--model=m"]),
        (ProjectArguments, ["run"]),
        (ReportArguments, ["run"]),
        (AblateArguments, ["boosting"]),
    ],
)
def test_every_command_takes_val_for_dev(kind, flags):
    given = {
        word: tyro.cli(kind, args=[*flags, "--split", word]).split for word in ("val", "Validation", "TestA")
    }
    assert given == {"val": "dev", "Validation": "dev", "TestA": "TestA"}


def test_the_analysis_of_val_is_that_of_dev(runs: list[Path], tmp_path: Path) -> None:
    assert main([str(runs[0]), "--split", "val"]) == 0
    assert open_run(runs[0]).splits == ("dev",)
    assert report([str(runs[0]), "--split", "val", "--out", str(tmp_path / "report.html")]) == 0
