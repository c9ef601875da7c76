"""Names of splits on the command line: val is dev."""

import pytest
import tyro

from coder_core.ablate import AblateArguments
from coder_core.cluster import ClusterArguments
from coder_core.embed import EmbedArguments, FolderArguments, PicturesArguments
from coder_core.evaluate import EvaluateArguments
from coder_core.export import ExportArguments
from coder_core.project import ProjectArguments
from coder_core.report import ReportArguments

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
