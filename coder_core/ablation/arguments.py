"""The command line of an ablation."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import tyro

from coder_core.config.presets import PRESETS
from coder_core.config.schema import Config, named_settings, parse, replaced, settings
from coder_core.config.split_name import SplitName
from coder_core.console.faults import InputError

NO_FLAG = "is not a flag of an ablation"
DEFAULT_PRESET = "coder-flickr8k"


@dataclass(frozen=True)
class AblateArguments:
    """Rows and seeds to run. Every other flag is a setting of the runs, as in coder-lab train, and
    applies to every row that does not set it itself."""

    config: Annotated[Config, tyro.conf.arg(name="")]
    table: tyro.conf.Positional[str] = ""  # A table of the papers, or a TOML file with a grid of your own.
    preset: str = DEFAULT_PRESET
    """The full model that the rows change (coder-lab train --help lists the presets)."""
    seeds: tuple[int, ...] = (0,)  # Each row is run once with each seed.
    rows: tuple[str, ...] = ()  # Names or numbers of the rows to run; empty: all.
    split: SplitName = "dev"  # Split to compare the rows on. Choose on dev; use test once.
    reference: str = ""  # Row the others are compared with; empty: the table's.
    root: Path | None = None  # Folder of the runs and results; empty: checkpoints/ablation-TABLE.
    jobs: int = 0
    """Concurrent runs; 0 is one per GPU, or one on the CPU. The CPU's cores are divided among the runs."""
    report: bool = False  # Train nothing; write the tables of finished runs.
    dry_run: bool = False  # Show the commands and train nothing.
    named: tyro.conf.Suppress[tuple[str, ...]] = ()  # keys of the settings that the command line names

    @property
    def overrides(self) -> dict[str, Any]:
        """Settings that the command line names, including those that equal the default: flag without dashes → value."""
        named = [settings()[key] for key in self.named]
        return {setting.flag.removeprefix("--"): setting.of(self.config) for setting in named}


def read_ablation(arguments: Sequence[str]) -> AblateArguments:
    """Read the command line, with the preset it names as defaults. InputError: an unknown preset, a repeated seed, or
    --seed or --name, which the command sets."""
    parsed = parse_ablation(arguments, Config())
    named = {setting.key: setting.of(parsed.config) for setting in named_settings(arguments)}
    if "seed" in named:
        raise InputError.at("--seed", NO_FLAG, "--seeds 0 1 2")
    if parsed.config.name:
        raise InputError.at("--name", NO_FLAG, "--root: runs are named by row and seed")
    if parsed.preset not in PRESETS:
        raise InputError.at(f"--preset {parsed.preset}", "does not exist", f"one of {', '.join(PRESETS)}")
    if len(set(parsed.seeds)) < len(parsed.seeds):
        seeds = " ".join(map(str, parsed.seeds))
        raise InputError.at(f"--seeds {seeds}", "repeats a seed", "different seeds, one run each")
    config = replaced(PRESETS[parsed.preset].config, named)
    return replace(parsed, config=config, named=tuple(named))


def parse_ablation(arguments: Sequence[str], config: Config) -> AblateArguments:
    """Read flags, with these settings as defaults."""
    description = "Repeat an ablation of the paper on your data."
    prog = "coder-lab ablate"
    return parse(arguments, AblateArguments(config), prog=prog, description=description)
