"""The name of a split on the command line."""

from typing import Annotated

import tyro

from coder_core.config.data import OTHER_DEV_NAMES


def _read(words: list[str]) -> str:
    return "dev" if words[0].lower() in OTHER_DEV_NAMES else words[0]


# "val" is "dev", as in the data, so that analyses, reports and maps of both have the same folder
SplitName = Annotated[
    str,
    tyro.constructors.PrimitiveConstructorSpec(
        nargs=1,
        metavar="STR",
        instance_from_str=_read,
        is_instance=lambda value: isinstance(value, str),
        str_from_instance=lambda value: [value],
    ),
]
