"""Make a run from any model: embed pictures with a pretrained model, or import existing embeddings.

coder-lab embed pictures DATA --model NAME_OR_FOLDER --split dev --name NAME
coder-lab embed import --images I.npy --texts T.npy --captions C.txt --name NAME
coder-lab embed import FOLDER_OF_CLIP_RETRIEVAL --name NAME
coder-lab embed import --run TREC_RUN --like RUN --split SPLIT --name NAME
"""

from typing import TypeVar

import tyro

from coder_core.console.faults import stop_on_errors
from coder_core.console.runner import asks_for_help, command, run_subcommand
from coder_core.embedding.arguments import EmbedArguments, FolderArguments, ListsArguments, PicturesArguments

PROGRAM = "coder-lab embed"
USAGE = f"""usage: {PROGRAM} pictures DATA --model NAME_OR_FOLDER --name NAME
       {PROGRAM} import --images I.npy --texts T.npy --captions C.txt --name NAME
       {PROGRAM} import TABLE.parquet --name NAME
       {PROGRAM} import FOLDER_OF_CLIP_RETRIEVAL --name NAME
       {PROGRAM} import --run TREC_RUN --like RUN --split SPLIT --name NAME
       {PROGRAM} pictures --help
       {PROGRAM} import --help
       {PROGRAM} import TABLE.parquet --help
       {PROGRAM} import --run --help"""
FILES = ("--images", "--texts", "--captions")
RUN_FILE = "--run"
Arguments = TypeVar("Arguments")


@command
def main(arguments: list[str]) -> int:
    """Embed pictures, or import embeddings, as a run. Return 2 for any other command."""
    return run_subcommand(arguments, {"pictures": _embed_pictures, "import": _import}, USAGE)


def _parse(kind: type[Arguments], name: str, arguments: list[str], required: str) -> Arguments:
    """Parse the arguments of a command. Its help begins with the required flags, which tyro does not name there."""
    if asks_for_help(arguments):
        name = f"{name} {required}"
        arguments = ["--help"]
    return tyro.cli(kind, prog=f"{PROGRAM} {name}", args=arguments)


def _import(arguments: list[str]) -> int:
    of_files = any(word.startswith(FILES) for word in arguments) or arguments[:1] in ([], ["--help"], ["-h"])
    kind: type[ListsArguments | EmbedArguments | FolderArguments]
    if any(word.split("=")[0] == RUN_FILE for word in arguments):
        kind = ListsArguments
        required = "--run FILE --like RUN --split SPLIT --name NAME"
    elif of_files:
        kind = EmbedArguments
        required = "--images I.npy --texts T.npy --captions C.txt --name NAME"
    else:
        kind = FolderArguments
        required = "--name NAME"
    parsed = _parse(kind, "import", arguments, required)

    from coder_core.embedding.importing import import_embeddings, import_run_file

    if isinstance(parsed, ListsArguments):
        import_run_file(parsed)
    else:
        import_embeddings(parsed)
    return 0


def _embed_pictures(arguments: list[str]) -> int:
    parsed = _parse(PicturesArguments, "pictures", arguments, "--model NAME_OR_FOLDER --name NAME")
    stop_on_errors(parsed.towers.faults())

    from coder_core.embedding.pictures import embed_pictures

    embed_pictures(parsed)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
