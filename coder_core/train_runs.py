"""Start, clean and continue runs as the train command does."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rich.console import Console

from coder_core.config.presets import DEMO_RUNS, PRESETS
from coder_core.config.schema import Config, replaced
from coder_core.console.output import say
from coder_core.queue.planned import check_same_values
from coder_core.runs.load import read_config
from coder_core.runs.record import read_status
from coder_core.training.launch import continue_run, start_run


@dataclass(frozen=True)
class Training:
    """Training in the foreground, which prints what it does."""

    console: Console
    progress: Path | None  # file that receives the progress of the preparation

    def start(self, config: Config, root: Path, *, fit_warmup: bool = False) -> None:
        """Start the run `root/config.name`; with --clean, score its train pairs first."""
        if config.cleaning.clean:
            from coder_core.cleaning import without_wrong_pairs  # here, because only cleaning needs pandas

            config = without_wrong_pairs(config, root, self.console, self.progress)
        start_run(config, root, self.console, fit_warmup=fit_warmup, progress_file=self.progress)

    def resume(self, folder: Path, named: Mapping[str, Any], asked: Config | None = None) -> None:
        """Continue a run with the values given on the command line. InputError: it did not begin with those of
        `asked`."""
        stored = read_config(folder)[0]
        if asked is not None:
            check_same_values(folder, asked, fitted="warmup_steps" not in named)
        overrides = replaced(stored, named) if named else None
        continue_run(folder, overrides, self.console, download="bert" in named, progress_file=self.progress)

    def train_demo(self, root: Path) -> None:
        """Start or continue the three demo runs; leave finished ones alone."""
        for name in DEMO_RUNS:
            folder = root / name
            if not folder.exists() or not any(folder.iterdir()):
                self.start(replace(PRESETS[name].config, name=name), root)
            elif (read_status(folder) or {}).get("state") == "finished":
                say(self.console, f"{folder} is finished; nothing to do.")
            else:
                self.resume(folder, {})
