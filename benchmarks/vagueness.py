"""Diversity against the vagueness of the demo's test captions: does low diversity find the vague ones?

    python -m benchmarks.vagueness [checkpoints/coder-demo …]

The vagueness of a caption is known from its generation (`side/test_vagueness.txt`) and not used in training. The bar is
an AUC of 0.95 for the CODER run. Spearman's ρ is over all five grades.
"""

import sys
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table
from sklearn.metrics import roc_auc_score

from coder_core.api import open_run, rank_correlation
from coder_core.demo import vagueness
from coder_core.evaluate import main as evaluate
from coder_core.model.reader import data_folder

SPLIT = "test"
VAGUE_FROM = 0.75  # the grades are 0, 0.25, 0.5, 0.75 and 1
BAR = 0.95
DEMO_RUNS = ("checkpoints/coder-demo", "checkpoints/demo-baseline")


def agreement(folder: Path, function: str) -> tuple[float, float]:
    """Return the area under the ROC curve of −diversity of the test captions for "is vague", and Spearman's ρ of
    diversity and grade."""
    run = open_run(folder)
    table = run.diversity(SPLIT, modality="text", function="entropy" if function == "entropy" else "std")
    grades = vagueness(data_folder("demo"), SPLIT)
    area = float(roc_auc_score(grades >= VAGUE_FROM, -table["diversity"]))
    return area, rank_correlation(table["diversity"], grades)


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table; return 1 if a run cannot be evaluated, otherwise 0."""
    folders = [Path(name) for name in (sys.argv[1:] if arguments is None else arguments) or DEMO_RUNS]
    if evaluate([*map(str, folders), "--split", SPLIT]):
        return 1
    table = Table("run", "AUC of −diversity (std)", "bar", "AUC (entropy)", "ρ (std)", "ρ (entropy)")
    for folder in folders:
        (area, rho), (by_entropy, entropy_rho) = (agreement(folder, name) for name in ("std", "entropy"))
        areas = f"{area:.4f}", f"≥ {BAR}", f"{by_entropy:.4f}"
        table.add_row(str(folder), *areas, f"{rho:+.2f}", f"{entropy_rho:+.2f}")
    Console().print(
        f"Vague captions (grade ≥ {VAGUE_FROM}) of the demo's test split, found by low diversity:", table
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
