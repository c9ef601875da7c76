"""Whose scorers and reviews a run uses: its own, those of another cleaned run, or two finished runs of halves."""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from glob import escape
from pathlib import Path

from coder_core.config.schema import Config
from coder_core.console.faults import Fault, InputError
from coder_core.runs.load import read_config


@dataclass(frozen=True)
class Origin:
    """The run whose scorers and reviews a run uses: itself, or another cleaned run that shares them."""

    base: Path
    shared: bool

    @classmethod
    def of(cls, config: Config, root: Path) -> "Origin":
        """Return the origin of a run's scorers below `root`. InputError: the run that shares them does not exist."""
        named = "" if given_scorers(config) else config.cleaning.clean_scorers
        base = Path(named or root / config.name)
        if named and not any(base.parent.glob(f"{escape(base.name)}*")):
            raise InputError.at(
                f"--clean-scorers {named}", "does not exist", "a cleaned run", "check the path"
            )
        return cls(base, bool(named))

    def reviews(self, config: Config, ending: str) -> Path:
        """Return the file of a round's reviews."""
        how = "weighed" if config.cleaning.clean_weigh else "cleaned"
        return self.base.with_name(f"{self.base.name}-{how}{ending}.jsonl")


def given_scorers(config: Config) -> list[Path]:
    """Return the folders of the two finished runs in `clean_scorers`; [] if it does not name two."""
    paths = config.cleaning.clean_scorers.split(os.pathsep)
    return [Path(path) for path in paths] if len(paths) > 1 else []


def trained_on_other_pairs(scorers: Sequence[Path], config: Config) -> Iterator[Fault]:
    """Yield a fault for each scorer whose data folder's name or exchanged captions differ from the run's."""
    own = _pairs_of(config)
    for scorer in scorers:
        theirs = _pairs_of(read_config(scorer)[0])
        if theirs != own:
            yield Fault(str(scorer), f"was trained on {theirs}", own, "choose other --clean-scorers")


def _pairs_of(config: Config) -> str:
    """Describe the train pairs of a run: data, and which of its captions are exchanged."""
    share = config.data.wrong_captions
    data = Path(config.data.data).name
    return f"{data}, --wrong-captions {share:g}" + (f", --seed {config.training.seed}" if share else "")
