"""What the commands of long work share: progress in the terminal and in a file, and how they end."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

from rich.console import Console
from rich.progress import Progress as Bar

from coder_core.console.display import print_faults
from coder_core.console.faults import InputError
from coder_core.console.progress import Progress, ProgressFile, Tell


def work(compute: Callable[[Tell], str], progress: Path | None) -> int:
    """Run `compute`, showing how far it is; print the sentence it returns.

    Args:
        compute: does the work and calls its argument with (fraction, phase).
        progress: a file that another program reads; None writes none.

    Returns:
        The exit status: 0, or 1 for an input that cannot be used.
    """
    file = ProgressFile(progress) if progress else None
    console = Console()
    try:
        with Bar(console=console, transient=True, disable=not console.is_terminal) as bar:
            task = bar.add_task("", total=1.0)

            def tell(fraction: float, phase: str) -> None:
                bar.update(task, completed=fraction, description=phase)
                if file:
                    file(fraction, phase)

            said = compute(tell)
        if file:
            file.write(Progress(1.0, "finished", "finished"))
    except (InputError, MemoryError) as error:
        message = str(error) or "there is not enough memory"
        if isinstance(error, InputError):
            print_faults(Console(stderr=True), error.faults)
        else:
            print(message, file=sys.stderr)
        if file:
            file.write(Progress(0.0, "failed", "failed", message))
        return 1
    console.print(said, markup=False, highlight=False, soft_wrap=True)
    return 0
