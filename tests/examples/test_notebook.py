"""examples/look.ipynb: every cell runs, in order, and prints what the notebook shows."""

import ast
import json

import plotly.graph_objects as go
import pytest


def run(source, names):
    """Run a cell and return the value of its last line, as a notebook shows it; None without one."""
    tree = ast.parse(source)
    value = None
    if isinstance(tree.body[-1], ast.Expr):
        last = ast.Expression(tree.body.pop().value)
        exec(compile(tree, "cell", "exec"), names)
        value = eval(compile(last, "cell", "eval"), names)
    else:
        exec(compile(tree, "cell", "exec"), names)
    return value


@pytest.mark.filterwarnings("ignore:.*have a text that another image has")  # its vague captions are equal
def test_the_cells_print_what_the_notebook_shows(tmp_path, monkeypatch, capsys, pytestconfig):
    notebook = json.loads((pytestconfig.rootpath / "examples" / "look.ipynb").read_text("utf-8"))
    monkeypatch.chdir(tmp_path)
    names = {}
    figures = 0
    for cell in notebook["cells"]:
        if cell["cell_type"] != "code":
            continue
        value = run("".join(cell["source"]), names)
        if isinstance(value, go.Figure):
            figures += 1
            assert len(value.data) > 0
            continue
        printed = capsys.readouterr().out + ("" if value is None else repr(value))
        outputs = [output.get("text") or output["data"]["text/plain"] for output in cell["outputs"]]
        assert printed == "".join("".join(output) for output in outputs)
    assert figures == 3
