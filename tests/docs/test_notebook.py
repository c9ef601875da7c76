"""The lines of docs/app.md run as printed."""

import ast
import re
import subprocess
import sys
from pathlib import Path

from tests.support.run_folders import write_run

PROJECT = Path(__file__).resolve().parents[2]


def statements():
    text = (PROJECT / "docs" / "app.md").read_text(encoding="utf-8")
    [program] = re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL)
    return [ast.unparse(statement) for statement in ast.parse(program).body]


def test_ten_lines_and_their_imports_run_without_streamlit(tmp_path):
    program = statements()
    assert len(program) <= 10
    for name, loss, noise in (("demo-baseline", "btr-hardest", 3.0), ("coder-demo", "dcl", 1.5)):
        write_run(tmp_path / "checkpoints", name, loss=loss, noise=noise, images=30, pictures=False)
    check = [
        "import sys",
        "import plotly.graph_objects as go",
        "shown = []",
        "go.Figure.show = lambda figure: shown.append(figure)",
        *program,
        "assert len(ambiguous) == 10 and ambiguous.caption.str.len().min() > 0",
        "assert len(nearest) == 10 and set(moved.outcome) <= {'broken'} and (almost['rank'] > 1).all()",
        "assert len(shown) == 1 and len(shown[0].data) == 2",
        "print('streamlit' in sys.modules, 'torch' in sys.modules)",
    ]
    result = subprocess.run(
        [sys.executable, "-c", "\n".join(check)],
        cwd=tmp_path,
        env={"PYTHONPATH": str(PROJECT), "PATH": ""},
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    assert result.stdout.strip().endswith("False False")
