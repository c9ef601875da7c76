"""Names of splits on the command line: val is dev."""

import pytest
import tyro

from coder_core.ablation.arguments import AblateArguments
from coder_core.cluster import ClusterArguments
from coder_core.embed import EmbedArguments, FolderArguments, PicturesArguments
from coder_core.evaluate import EvaluateArguments
from coder_core.export import ExportArguments
from coder_core.project import ProjectArguments
from coder_core.report import ReportArguments

FLAGS = {kind: ["run"] for kind in (ClusterArguments, EvaluateArguments, ProjectArguments, ReportArguments)}
FLAGS |= {AblateArguments: ["boosting"], ExportArguments: ["run", "--to", "faiss", "file"]}
FLAGS |= {FolderArguments: ["folder", "--name=n"], PicturesArguments: ["folder", "--name=n", "--model=m"]}
FLAGS[EmbedArguments] = ["--images=i", "--texts=t", "--captions=c", "--name=n"]


@pytest.mark.parametrize("kind", FLAGS)
def test_every_command_accepts_val_for_dev(kind):
    for word, split in {"val": "dev", "Validation": "dev", "Dev": "dev", "TestA": "TestA"}.items():
        parsed = tyro.cli(kind, args=[*FLAGS[kind], "--split", word])
        assert getattr(parsed, "target", parsed).split == split
