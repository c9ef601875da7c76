"""The name of a split on the command line."""

from typing import Annotated

import tyro

from coder_core.config.data import OTHER_DEV_NAMES


def canonical_split(name: str) -> str:
    """Return "dev" for every name of the dev split; other names are returned unchanged."""
    return "dev" if name.lower() in ("dev", *OTHER_DEV_NAMES) else name


# "val" is "dev", as in the data, so that analyses, reports and maps of both have the same folder
SplitName = Annotated[
    str,
    tyro.constructors.PrimitiveConstructorSpec(
        nargs=1,
        metavar="STR",
        instance_from_str=lambda words: canonical_split(words[0]),
        is_instance=lambda value: isinstance(value, str),
        str_from_instance=lambda value: [value],
    ),
]
