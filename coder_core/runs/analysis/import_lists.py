"""Import the lists of another system, such as a reranker's, from a TREC run file, as a run beside one of the same samples."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np

from coder_core.console.faults import Fault
from coder_core.data.qrels import Ids, SampleIds
from coder_core.data.search_log import QueryIds
from coder_core.data.trec_run import TrecRun, read_trec_run
from coder_core.evaluation.lists import Lists, rank_lists
from coder_core.evaluation.rank_metrics import Metrics, rank_metrics
from coder_core.evaluation.relevance import Relevance
from coder_core.files.sealed import file_sha256
from coder_core.runs.analysis import tables
from coder_core.runs.analysis.import_embeddings import check_has_lists, import_folder
from coder_core.runs.analysis.joined import joined_columns
from coder_core.runs.analysis.read import Analysis, open_analysis
from coder_core.runs.analysis.write import write_analysis

_OF_SAMPLES = (tables.CAPTION_IDS, tables.IMAGE_GROUPS, tables.JUDGEMENTS, tables.PICTURE_POSITIONS)


def import_lists(
    file: Path, like: Path, root: Path, name: str, split: str, *, overwrite: bool = False
) -> tuple[Path, Metrics, list[Fault]]:
    """Write the lists of a run file as the split of a run `root/name`, with the pictures, captions or queries, groups,
    columns and judgments of the same split of the run `like`. Return its folder, its metrics, and warnings and notes.
    InputError: as for `read_trec_run` and `import_folder`; the run `like` does not have the split."""
    folder = import_folder(root, name, split, overwrite=overwrite)
    if folder.exists():
        check_has_lists(folder)

    analysis = open_analysis(like, split)
    given = read_trec_run(file, *_ids(analysis))
    relevance = analysis.judged or Relevance.of_labels(np.asarray(analysis.image_of_text), analysis.n_images)

    lists_of_images = Lists(*given.i2t, candidates_in_all=analysis.n_texts)
    lists_of_texts = Lists(*given.t2i, candidates_in_all=analysis.n_images)
    ranks = rank_lists(lists_of_images, lists_of_texts, relevance)
    metrics = rank_metrics(ranks, relevance)

    arrays = {name: analysis.array(name) for name in _OF_SAMPLES if name in analysis.arrays}
    arrays |= {"image_lists": given.i2t.candidates, "image_list_scores": given.i2t.scores}
    arrays |= {"text_lists": given.t2i.candidates, "text_list_scores": given.t2i.scores}

    documents = _documents(analysis, file, like, given)
    write_analysis(
        folder,
        split,
        captions=analysis.captions,
        image_of_text=np.asarray(analysis.image_of_text),
        image_names=analysis.image_names,
        picture_folder=analysis.picture_folder,
        packed=analysis.document("images").get("packed"),
        documents=documents,
        metrics=metrics,
        beta=None,
        fingerprint=documents[tables.DOCUMENT_LISTS]["sha256"][:12],
        kind=tables.KIND_IMPORTED,
        source=f"run file: {file}",
        columns=analysis.columns.joined(joined_columns(like, analysis)),
        **arrays,
        **tables.rank_tables(ranks),
    )
    return folder, metrics, given.faults


def _ids(analysis: Analysis) -> tuple[Ids, int, int, str]:
    """Return what finds the samples of a split by their ids, their numbers, and an example of an id."""
    counts = (analysis.n_images, analysis.n_texts)
    if analysis.search_log is not None:
        first = str(analysis.search_log["query_ids"][0])
        return QueryIds(analysis.image_names, analysis.search_log), *counts, first
    owner = np.asarray(analysis.image_of_text)
    ids = SampleIds(analysis.image_names, owner, analysis.caption_ids)
    return ids, *counts, f"{analysis.image_names[0]} and {analysis.image_names[0]}#0"


def _documents(analysis: Analysis, file: Path, like: Path, given: TrecRun) -> dict[str, Any]:
    """Return the documents of the new analysis: its origin, and those on the samples."""
    imported = {
        "created": time.strftime("%Y-%m-%d %H:%M:%S %z"),
        "files": {"run file": str(file), "samples of": str(like), "tag": given.tag},
        "images": analysis.n_images,
        "captions": analysis.n_texts,
        "queries": 0,
        "dimension": 0,
        "notes": [str(fault) for fault in given.faults],
    }
    lists = {"tag": given.tag, "sha256": file_sha256(file)}
    of_log = {} if analysis.search_log is None else {tables.DOCUMENT_SEARCH_LOG: analysis.search_log}
    return {tables.DOCUMENT_IMPORTED: imported, tables.DOCUMENT_LISTS: lists, **of_log}
