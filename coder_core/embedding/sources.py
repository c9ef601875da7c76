"""Open what the flags name: pictures with captions, the pretrained model, and the processes that decode pictures."""

from collections.abc import Sequence
from pathlib import Path

from coder_core.data.captioned.collection import CaptionedData
from coder_core.data.captioned.decoding import usual_workers
from coder_core.data.captioned.reading import read_captioned
from coder_core.data.captioned.splits import split_name
from coder_core.embedding.arguments import TowerArguments
from coder_core.model.reader import data_folder
from coder_core.model.towers.checkpoints import ModelChoice


def read_pictures(flags: TowerArguments, data: Path, splits: Sequence[str]) -> CaptionedData:
    """Read the data; if `splits` names only one split, look for the picture files of that one alone. InputError: the
    data cannot be read at all."""
    only = split_name(splits[0]) if len(splits) == 1 else ""
    folder = data_folder(str(data))
    return read_captioned(folder, flags.reading, pictures=flags.pictures, only=only)


def model_choice(flags: TowerArguments) -> ModelChoice:
    """Return the model that the flags name."""
    return ModelChoice(flags.model, flags.revision, flags.base)


def decoders(flags: TowerArguments, device: str) -> int:
    """Return the number of processes that decode pictures for a type of device."""
    return usual_workers(device) if flags.workers < 0 else flags.workers
