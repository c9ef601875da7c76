"""Requests to the running server: foreign hosts and origins are refused, every answer is protected, no page is framed."""

import http.client
import json
import re
import tomllib
from pathlib import Path

import streamlit

from tests.support.pages import PROJECT

UPGRADE = {"Upgrade": "websocket", "Connection": "Upgrade", "Sec-WebSocket-Version": "13"}
UPGRADE["Sec-WebSocket-Key"] = "dGhlIHNhbXBsZSBub25jZQ=="
PAGES = {"/": 307, "/overview?run=../../etc&versus=x": 307, "/overview?run=../../etc": 200}
PAGES |= {"/_stcore/health": 200, "/_stcore/stream": 101}
"""Address → status of the answer; 307 redirects to the address with its runs."""


def answer(port, path, host, origin="", method="GET"):
    """Return the answer to a request with this Host and, if it is not "", this Origin."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    connection.putrequest(method, path, skip_host=True)
    headers = {"Host": host} | ({"Origin": origin} if origin else {})
    for name, value in (headers | (UPGRADE if path.endswith("stream") else {})).items():
        connection.putheader(name, value)
    connection.endheaders()
    response = connection.getresponse()
    connection.close()
    return response


def test_foreign_requests_are_refused_and_every_answer_forbids_frames_and_foreign_content(port):
    address = f"127.0.0.1:{port}"
    stranger = f"http://127.0.0.1:{port + 1}"
    index = (Path(streamlit.__file__).parent / "static" / "index.html").read_text()
    [script, *_] = re.findall(r"\./(static/js/[\w.-]+\.js)", index)
    requests = {(path, address): 200 for path in ("/start", f"/{script}", "/none/none.js")}
    requests[("/media/none.png", address)] = 404
    for path, status in PAGES.items():
        requests[(path, address)] = status
        requests |= {(path, host, f"http://{host}"): status for host in (address, f"localhost:{port}")}
        requests |= {(path, address, origin): 403 for origin in ("http://evil.example", stranger)}
        requests |= {(path, host): 403 for host in ("evil.example", f"evil.example:{port}")}
    requests[("/_stcore/upload_file/a/b", address, "http://evil.example", "PUT")] = 403
    for request, status in requests.items():
        response = answer(port, *request)
        assert response.status == status, request
        names = ("X-Frame-Options", "X-Content-Type-Options", "Referrer-Policy")
        assert [response.headers.get_all(name) for name in names] == [["DENY"], ["nosniff"], ["no-referrer"]]
        [policy] = response.headers.get_all("Content-Security-Policy")
        rules = dict(rule.split(" ", 1) for rule in policy.split("; "))
        forbidden = dict.fromkeys(("frame-ancestors", "object-src", "form-action", "base-uri"), "'none'")
        assert rules == rules | forbidden | {"default-src": "'self'"}
        assert "'unsafe-inline'" not in rules["script-src"]
        own = policy.replace("localhost", "127.0.0.1") if request[1].startswith("localhost") else policy
        assert not re.search(r"\*|https?:|(?<!127\.0\.0\.1):\d", own)


def test_no_foreign_page_may_frame_the_app(browser, port, tmp_path):
    tab = browser.new_context().new_page()
    page = tmp_path / "foreign.html"
    page.write_text(f"<iframe src=http://127.0.0.1:{port}/train></iframe>")
    with tab.expect_console_message(lambda message: "frame-ancestors" in message.text):
        tab.goto(page.as_uri())
    assert tab.frame_locator("iframe").locator("[data-testid=stApp]").count() == 0
    tab.context.close()


def test_the_server_is_local_and_sends_no_usage_statistics():
    config = tomllib.loads((PROJECT / ".streamlit" / "config.toml").read_text())
    server = {"address": "127.0.0.1", "allowedHosts": ["localhost", "127.0.0.1"], "maxUploadSize": 10}
    server |= {"enableCORS": True, "enableXsrfProtection": True}
    assert config["server"] == config["server"] | server
    assert config["browser"]["gatherUsageStats"] is False
    assert json.dumps(config).count("magicEnabled") == 1
