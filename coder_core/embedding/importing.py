"""Import embeddings that exist: three files, a Parquet table, or a folder of clip-retrieval."""

from dataclasses import asdict, replace
from pathlib import Path

from coder_core.config.setting import spelt_as_flag
from coder_core.console.faults import Fault, InputError, stop_on_errors
from coder_core.console.output import open_console, print_faults, say, watching
from coder_core.data.embeddings import (
    Embeddings,
    check_names,
    open_matrix,
    picture_names,
    read_clip_retrieval,
    read_embeddings,
    read_unit_rows,
)
from coder_core.data.groups import group_numbers, ids_of_column, read_groups
from coder_core.data.joined_columns import read_table_columns
from coder_core.data.lines import read_lines
from coder_core.data.search_log import read_search_log
from coder_core.embedding.arguments import EmbedArguments, FolderArguments, ListsArguments
from coder_core.embedding.metrics import print_metrics
from coder_core.embedding.tables import EmbeddingColumns, read_table
from coder_core.evaluation.sampled import RankOptions, parse_rank
from coder_core.files.matrices import is_matrix
from coder_core.model.device import choose_device, use_onednn
from coder_core.runs.analysis.import_embeddings import import_folder, import_run, metric_warnings
from coder_core.runs.analysis.import_lists import import_lists


def import_embeddings(parsed: EmbedArguments | FolderArguments) -> None:
    """Make a run from the embeddings that the flags name, and print its metrics."""
    console = open_console()
    target = parsed.target
    options = RankOptions(parse_rank(target.rank), str(choose_device(target.device)))
    # before the files are read
    import_folder(target.root, target.name, target.split, overwrite=target.overwrite)

    states = _states(parsed)
    embeddings = _read_folder(parsed) if isinstance(parsed, FolderArguments) else _read_files(parsed)
    if target.columns is not None:
        embeddings = _with_columns(embeddings, target.columns)
    embeddings = _with_groups(embeddings, parsed)
    print_faults(console, embeddings.faults)
    use_onednn()
    with watching(console, "ranking", rate=True) as progress:
        folder, metrics = import_run(
            embeddings,
            target.root,
            target.name,
            target.split,
            overwrite=target.overwrite,
            options=options,
            progress=progress,
        )
    stop_on_errors(_changes(states, _states(parsed)))
    print_faults(console, metric_warnings(embeddings, metrics))

    n = len(embeddings.images)
    m = len(embeddings.texts)
    width = embeddings.images.shape[1]
    saved = f", {len(embeddings.query_texts):,} saved queries" if embeddings.query_texts else ""
    say(console, f"{n:,} images and {m:,} captions, {width:,} numbers each{saved}: {folder}")
    if metrics:
        print_metrics(console, folder, target.split, f"{target.split} · pessimistic ties")
        return

    command_line = f"coder-lab evaluate {folder} --split {target.split} --rank all"
    say(console, f"not ranked, except for the queries that you open in the app. To rank all: {command_line}")


def _states(parsed: EmbedArguments | FolderArguments) -> dict[Path, tuple[int, int, int]]:
    """Map the files that stay mapped until their rows are written to their inodes, sizes and times of change."""
    given = [parsed.images, parsed.texts, parsed.queries] if isinstance(parsed, EmbedArguments) else []
    mapped = [file for file in given if file is not None and file.is_file() and not is_matrix(file)]
    stats = {file: file.stat() for file in mapped}
    return {file: (status.st_ino, status.st_size, status.st_mtime_ns) for file, status in stats.items()}


def _changes(
    before: dict[Path, tuple[int, int, int]], after: dict[Path, tuple[int, int, int]]
) -> list[Fault]:
    """Return an error for every file that changed while it was imported. One that was moved or replaced by another stays
    mapped as it was."""
    fact = "changed while it was imported, so that the run may have rows of both versions"
    fix = "import it again with --overwrite"
    changed = [
        file
        for file, state in before.items()
        if after.get(file, state) != state and after[file][0] == state[0]
    ]
    return [Fault(str(file), fact, "the same file until the end", fix) for file in changed]


def import_run_file(parsed: ListsArguments) -> None:
    """Make a run from the lists of another system, and print its metrics."""
    console = open_console()
    folder, _, faults = import_lists(
        parsed.run, parsed.like, parsed.root, parsed.name, parsed.split, overwrite=parsed.overwrite
    )
    print_faults(console, faults)
    say(console, f"lists of {parsed.run}: {folder}")
    print_metrics(console, folder, parsed.split, f"{parsed.split} · pessimistic ties")


def _with_groups(embeddings: Embeddings, parsed: EmbedArguments | FolderArguments) -> Embeddings:
    """Return the embeddings with the groups of their images, by a column or a file, if one is named. InputError: both
    are; the column does not exist; the file names none of the images."""
    column = parsed.group_column if isinstance(parsed, FolderArguments) else ""
    if column and parsed.target.groups is not None:
        raise InputError.at("--group-column and --groups", "are both given", "one of them", "leave one out")
    if column:
        where = embeddings.source.get("table", str(parsed.target.name))
        ids, note = ids_of_column(embeddings.columns, column, where)
        groups = group_numbers(ids)
    elif parsed.target.groups is not None:
        groups, note = read_groups(parsed.target.groups, embeddings.image_names or [])
    else:
        return embeddings
    return replace(embeddings, image_groups=groups, faults=[*embeddings.faults, note])


def _with_columns(embeddings: Embeddings, file: Path) -> Embeddings:
    """Join the columns of a table; its notes are added to the faults."""
    names = embeddings.image_names or [f"image {image}" for image in range(len(embeddings.images))]
    columns, notes = read_table_columns(file, names, embeddings.image_of_text)
    joined = embeddings.columns.joined(columns)
    return replace(embeddings, columns=joined, faults=[*embeddings.faults, *notes])


def _read_folder(parsed: FolderArguments) -> Embeddings:
    """Read a table or a folder of clip-retrieval. InputError: a flag of tables is given with a folder."""
    columns = EmbeddingColumns(
        parsed.image_embeddings, parsed.text_embeddings, parsed.image_column, parsed.caption_column
    )
    if parsed.folder.suffix.lower() == ".parquet":
        return read_table(parsed.folder, columns, pictures=parsed.target.pictures)

    problem = f"is given, but {parsed.folder} is not a Parquet table"
    flags = [spelt_as_flag(name) for name, title in asdict(columns).items() if title]
    stop_on_errors(Fault(flag, problem, fix="leave it out") for flag in flags)
    return read_clip_retrieval(parsed.folder, pictures=parsed.target.pictures)


def _read_files(parsed: EmbedArguments) -> Embeddings:
    if parsed.qrels is not None:
        return _read_log(parsed, parsed.qrels)
    return read_embeddings(
        parsed.images,
        parsed.texts,
        parsed.captions,
        ids=parsed.ids,
        pictures=parsed.target.pictures,
        queries=parsed.queries,
        query_texts=parsed.query_texts,
    )


def _read_log(parsed: EmbedArguments, qrels: Path) -> Embeddings:
    """Read the embeddings of pictures and of the queries of a search log. InputError: --ids is missing or --queries is
    given; numbers of rows differ; as for `read_search_log`."""
    if parsed.ids is None or parsed.queries is not None:
        fact = "is missing" if parsed.ids is None else "is given with --queries"
        raise InputError.at(
            "--ids and --qrels", fact, "--ids with the names of the pictures, and no --queries"
        )

    faults: list[Fault] = []
    names = read_lines(parsed.ids, "id", faults)
    images = read_unit_rows(open_matrix(parsed.images, faults), "images", faults)
    texts = read_unit_rows(open_matrix(parsed.texts, faults), "queries", faults)
    log, notes = read_search_log(parsed.captions, qrels, names)
    stop_on_errors(faults)
    if len(names) != len(images):
        raise InputError.at(parsed.ids, f"has {len(names):,} lines", f"{len(images):,}, one for every image")
    if len(log.rows) and int(log.queries_in_all) != len(texts):
        fact = f"has {log.queries_in_all:,} queries"
        raise InputError.at(parsed.captions, fact, f"{len(texts):,}, one for every row of {parsed.texts}")
    if images.shape[1] != texts.shape[1]:
        fact = f"has {texts.shape[1]:,} numbers per row"
        raise InputError.at(parsed.texts, fact, f"{images.shape[1]:,}, as {parsed.images}")

    source = {"images": str(parsed.images), "texts": str(parsed.texts), "queries": str(parsed.captions)}
    source["judgements"] = str(qrels)
    names, folder = picture_names(names, parsed.target.pictures, faults)
    faults += check_names(folder, names)
    return Embeddings(
        images,
        texts[log.rows],
        log.texts,
        log.image_of_text,
        names,
        folder,
        source,
        [*stop_on_errors(faults), *notes],
        search_log=log,
    )
