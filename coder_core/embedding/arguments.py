"""Flags shared by the commands that embed pictures and that extract features."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import tyro

from coder_core.config.data import ReadingArguments
from coder_core.console.faults import Fault

if TYPE_CHECKING:
    from coder_core.data.captioned.reading import CaptionedData
    from coder_core.model.towers.checkpoints import ModelChoice


@dataclass(frozen=True)
class TowerArguments:
    """Choice of the pretrained tower, the pictures, and the settings."""

    model: str = ""
    """Folder of a transformers model, or the name of a downloaded one, for example google/siglip2-base-patch16-224; or a
    checkpoint of another trainer (docs/data.md, section 10). Required, unless --tower is given."""
    base: str = ""
    """Model whose configuration, image processor and tokenizer belong to a --model that lacks them: a .pt, an adapter."""
    tower: str = ""
    """Instead of --model: package.module:function, which returns your own towers (docs/training.md)."""
    revision: str = ""  # Branch, tag or commit of a downloaded model.
    pictures: Path | None = None  # Folder of the picture files, if it is not beside the captions.
    reading: Annotated[ReadingArguments, tyro.conf.arg(name="")] = field(default_factory=ReadingArguments)
    batch_size: int = 256
    """Pictures or captions that a GPU encodes at once. The CPU always encodes 32, so results do not depend on it."""
    workers: int = -1
    """Processes that decode pictures ahead of the model; −1 chooses a number, 0 decodes in this process."""
    device: str = "auto"  # One of "auto", "cpu", "cuda".
    precision: Literal["bfloat16", "float32"] = "bfloat16"
    """Precision of matrix products on a GPU (autocast); the CPU computes in float32."""

    def read_pictures(self, data: Path, splits: Sequence[str]) -> CaptionedData:
        """Read the data; if `splits` names only one split, look for the picture files of that one alone. InputError:
        the data cannot be read at all."""
        from coder_core.data.captioned.reading import read_captioned
        from coder_core.data.captioned.splits import split_name
        from coder_core.model.splits import data_folder

        only = split_name(splits[0]) if len(splits) == 1 else ""
        return read_captioned(data_folder(str(data)), self.reading, pictures=self.pictures, only=only)

    def choice(self) -> ModelChoice:
        """Return the model that the flags name."""
        from coder_core.model.towers.checkpoints import ModelChoice

        return ModelChoice(self.model, self.revision, self.base)

    def decoders(self, device: str) -> int:
        """Return the number of processes that decode pictures for a type of device."""
        from coder_core.data.captioned.decoding import usual_workers

        return usual_workers(device) if self.workers < 0 else self.workers

    def faults(self) -> list[Fault]:
        """List the flags that do not go together or are out of range."""
        faults = []
        if bool(self.model) == bool(self.tower):
            problem = "are both given" if self.model else "are missing"
            fix = "for example --model google/siglip2-base-patch16-224"
            faults.append(Fault("--model and --tower", problem, "one of them", fix))
        if self.batch_size < 1 or self.workers < -1:
            problem = f"are {self.batch_size} and {self.workers}"
            faults.append(Fault("--batch-size and --workers", problem, "1 or more, and −1 or more"))
        return faults
