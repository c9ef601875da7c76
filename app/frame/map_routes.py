"""Routes of the map of the joint space: its library, columns of numbers, and samples by name or by words.

The guard stands before them, as before every other answer. No route takes a path: a column is found by its hash, and
runs, splits and samples by names that are compared with the existing ones.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING

import numpy as np
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from app.components.space_map import LIBRARY
from app.components.space_map.columns import published

if TYPE_CHECKING:
    from app.ask import RunSummary

HERE = {"cross-origin-resource-policy": "same-origin", "cache-control": "private, no-cache"}
NUMBERS = "application/octet-stream"
SCRIPT = "text/javascript"
LONGEST_QUERY = 200


async def library(request: Request) -> Response:
    """Answer with the bundled library."""
    content, tag = _library()
    return _tagged(request, content, tag, SCRIPT)


async def column(request: Request) -> Response:
    """Answer with the bytes of a published column; 404 if there is none under this key."""
    key = request.path_params["key"]
    content = published(key)
    if content is None:
        return PlainTextResponse("No page of this server has published this column.", 404, HERE)
    return _tagged(request, content, key, NUMBERS)


async def sample(request: Request) -> Response:
    """Answer with name, text and picture (data URL) of a sample of a run's split, such as "caption-12"."""
    values = request.query_params
    run = values.get("run", "")
    split = values.get("split", "")
    described = await run_in_threadpool(_described, run, split, values.get("sample", ""))
    if described is None:
        return PlainTextResponse("There is no such sample.", 404, HERE)
    return JSONResponse(described, headers=HERE | {"cache-control": "private, max-age=600"})


async def find(request: Request) -> Response:
    """Answer with the points of a split that match a search, as ascending uint32 numbers, images first."""
    values = request.query_params
    query = values.get("query", "")[:LONGEST_QUERY]
    found = await run_in_threadpool(_found, values.get("run", ""), values.get("split", ""), query)
    if found is None:
        return PlainTextResponse("There is no such split.", 404, HERE)
    return Response(found, media_type=NUMBERS, headers=HERE | {"cache-control": "no-store"})


ROUTES = [
    Route("/map/library.js", library),
    Route("/map/columns/{key}", column),
    Route("/map/sample", sample),
    Route("/map/find", find),
]


@cache
def _library() -> tuple[bytes, str]:
    content = LIBRARY.read_bytes()
    return content, hashlib.blake2b(content, digest_size=16).hexdigest()


def _tagged(request: Request, content: bytes, tag: str, kind: str) -> Response:
    """Answer with the content, or with 304 if the browser has it."""
    headers = HERE | {"etag": f'"{tag}"'}
    if headers["etag"] in request.headers.get("if-none-match", ""):
        return Response(status_code=304, headers=headers)
    return Response(content, media_type=kind, headers=headers)


# These import modules with Streamlit's caches, which warn before a server exists
def _run(name: str, split: str) -> RunSummary | None:
    from app.ask import all_runs

    runs = {run.name: run for run in all_runs() if run.usable and split in run.splits}
    return runs.get(name)


def _described(run: str, split: str, sample: str) -> Mapping[str, str] | None:
    from app.components.opened import parse
    from app.components.samples import describe

    summary = _run(run, split)
    parsed = parse(sample)
    if summary is None or parsed is None:
        return None
    modality, number = parsed
    return describe(summary, split, modality, number)


def _found(run: str, split: str, query: str) -> bytes | None:
    from app.components.map_search import points_of_split

    summary = _run(run, split)
    if summary is None:
        return None
    return points_of_split(summary, split, query).astype(np.uint32).tobytes()
