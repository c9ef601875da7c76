"""Rows and text that the command coder_core.evaluate writes."""

import json

from coder_core.evaluate import main


def rows_of(folder, *arguments, output=None):
    """Return the rows that the command writes as JSON; drop earlier output from the capture `output`."""
    if output is not None:
        output.readouterr()
    assert main([*map(str, arguments), f"--json={folder / 'out.json'}", "--overwrite"]) == 0
    return dict(json.loads((folder / "out.json").read_text())["runs"])


def row_of(run, folder, *flags):
    """Return the row of one run."""
    return dict(rows_of(folder, run, *flags)[str(run)])


def printed(output):
    """Return everything printed, on one line."""
    return " ".join("".join(output.readouterr()).split())
