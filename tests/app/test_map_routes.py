"""Routes of the map: columns by their hash with ETag, samples and searches by names that are compared."""

import asyncio
import json
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import urlencode

import numpy as np
import pytest
from starlette.applications import Starlette

from app.components.space_map import columns
from app.components.space_map.columns import publish, published
from app.frame.map_routes import ROUTES
from coder_core.api import open_run
from tests.app.conftest import write_pair

APP = Starlette(routes=ROUTES)
HOSTILE = ("..", "../demo", "/etc/passwd", "demo/../demo", "<b>", "", "demo\u0000")


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    return write_pair(tmp_path_factory.mktemp("routes") / "runs")


@pytest.fixture
def get(root, monkeypatch):
    """Function that requests a path: status, headers and content."""
    monkeypatch.setenv("CODER_CHECKPOINTS", str(root))

    def request(path, tag="", **query):
        sent = []

        async def receive():
            return {"type": "http.request", "body": b"", "more_body": False}

        async def send(message):
            sent.append(message)

        headers = [(b"if-none-match", tag.encode())] if tag else []
        scope = {"type": "http", "method": "GET", "path": path, "headers": headers, "root_path": ""}
        scope["query_string"] = urlencode(query).encode()

        async def ask():
            await APP(scope, receive, send)

        with ThreadPoolExecutor(1) as thread:  # this thread may run an event loop of the browser tests
            thread.submit(lambda: asyncio.run(ask())).result()
        answer = {name.decode(): value.decode() for name, value in sent[0]["headers"]}
        return sent[0]["status"], answer, b"".join(part.get("body", b"") for part in sent[1:])

    return request


def test_columns_are_found_by_their_hash_and_sent_once(get):
    places = np.random.default_rng(0).normal(size=(50, 2)).astype(np.float32)
    key = publish(places)
    assert publish(places.copy()) == key
    status, headers, content = get(f"/map/columns/{key}")
    assert status == 200
    np.testing.assert_array_equal(np.frombuffer(content, np.float32).reshape(-1, 2), places)
    assert headers["cross-origin-resource-policy"] == "same-origin"
    status, again, content = get(f"/map/columns/{key}", headers["etag"])
    assert (status, again["etag"], content) == (304, headers["etag"], b"")
    for wrong in ("0" * 32, key[:-1], "..", "%2e%2e"):
        assert get(f"/map/columns/{wrong}")[0] == 404, wrong
    status, headers, content = get("/map/library.js")
    assert status == 200
    assert headers["content-type"].startswith("text/javascript")
    assert b"createScatterplot" in content
    assert get("/map/library.js", headers["etag"])[0] == 304


def test_what_was_not_asked_for_longest_is_dropped_first(monkeypatch):
    monkeypatch.setattr(columns, "MOST_BYTES", 1000)
    keys = [publish(np.full(50, value)) for value in (1.0, 2.0)]  # 400 bytes each
    assert published(keys[0]) == np.full(50, 1.0).tobytes()
    keys.append(publish(np.full(50, 3.0)))
    assert [published(key) is not None for key in keys] == [True, False, True]


def test_samples_and_searches_answer_only_for_existing_names(get, root):
    run = open_run(root / "demo")
    named = {"run": "demo", "split": "dev"}
    status, _, content = get("/map/sample", **named, sample="caption-7")
    described = json.loads(content)
    assert status == 200
    assert described["text"] == run.captions("dev")[7]
    assert described["ids"].startswith("caption 7 · image 1")
    status, _, content = get("/map/find", **named, query="scene 1, way 2")
    captions = [
        20 + row
        for row, text in enumerate(run.captions("dev"))
        if all(w in text for w in ("scene", "1,", "way", "2"))
    ]
    images = sorted({int(run.image_of_text("dev")[row - 20]) for row in captions})
    assert np.frombuffer(content, np.uint32).tolist() == images + captions
    for sample in ("caption-100", "image-20", "image--1", "image-1/..", "", "../caption-1"):
        assert get("/map/sample", **named, sample=sample)[0] == 404, sample
    for name in HOSTILE:
        assert get("/map/sample", run=name, split="dev", sample="caption-7")[0] == 404
        assert get("/map/sample", run="demo", split=name, sample="caption-7")[0] == 404
        assert get("/map/find", run=name, split="dev", query="scene")[0] == 404
        assert get("/map/find", run="demo", split=name, query="scene")[0] == 404
