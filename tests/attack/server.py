"""Send foreign, malformed and prying requests to a served app: none may pass, and the server must go on.

    python -m tests.attack server --cases 400 --seed 0

A case is silent if a foreign request gets anything but a refusal, or if an answer holds a file from outside the app. It
is a traceback if an exception escapes to the server's log, or if the server does not answer its own page afterwards.
"""

import http.client
import os
import random
import socket
import string
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from benchmarks.serving import served
from tests.attack.campaign import Campaign, Finding
from tests.support.run_folders import write_run

CASES = 400
PATIENCE = 20  # seconds for an answer
SHORT = 2  # seconds for an answer to what is no request, for which the server may wait for more
QUIET = 0.3  # seconds to wait for a socket's further answers
ESCAPED = ("Exception in ASGI application", "never retrieved", "Fatal error")
"""In the log, of an exception that nobody caught; libraries also log the ones for which they close a connection."""

SECRET = "nobody outside may read this"
PATHS = (
    "/",
    "/overview",
    "/start",
    "/_stcore/health",
    "/_stcore/host-config",
    "/_stcore/stream",
    "/static/x.js",
)
METHODS = ("GET", "GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS")
UPGRADE = (
    "Upgrade: websocket",
    "Connection: Upgrade",
    "Sec-WebSocket-Version: 13",
    "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
)


@dataclass(frozen=True)
class Request:
    """Bytes to send, in order, and whether the request is foreign, so that only a refusal is right."""

    kind: str
    messages: tuple[bytes, ...]
    foreign: bool


def request(path, *headers, method="GET"):
    """Return the bytes of a request; one for the socket asks for the upgrade."""
    upgrade = UPGRADE if path.endswith("stream") else ()
    return "\r\n".join([f"{method} {path} HTTP/1.1", *headers, *upgrade, "", ""]).encode("utf-8", "replace")


def word(drawn):
    """Draw a short word."""
    return "".join(drawn.choices(string.ascii_lowercase + string.digits, k=drawn.randint(1, 12)))


def foreign_name(drawn, port):
    """Draw a host that is not this machine, most of them made to look like it."""
    own = drawn.choice(("localhost", "127.0.0.1"))
    made = (
        f"{word(drawn)}.example:{port}",
        f"{own}.{word(drawn)}.example:{port}",
        f"{own}@{word(drawn)}.example",
        f"{word(drawn)}@{own}:{port}",
        f"{own}:{port}.{word(drawn)}",
        f"{own}:{port}/{word(drawn)}",
        f"{own}:{port},{word(drawn)}",
        f"{own}:-{port}",
        f"{own}:{port}0000",
        f"{own[:-1]}:{port}",
        f"2130706433:{port}",
        f"127.1:{port}",
        f"0.0.0.0:{port}",
        f"[::1]:{port}",
        f"192.168.{drawn.randint(0, 255)}.{drawn.randint(1, 254)}:{port}",
        "",
    )
    return drawn.choice(made)


def foreign_host(drawn, port):
    """Ask under a foreign name."""
    target = drawn.choice(PATHS)
    host = f"Host: {foreign_name(drawn, port)}"
    return Request("host", (request(target, host, method=drawn.choice(METHODS)),), True)


def foreign_origin(drawn, port):
    """Ask from a page of another server, of another port, or of no server."""
    own = f"localhost:{port}"
    other_port = drawn.choice([number for number in (80, port - 1, port + 1) if number != port])
    origins = ("null", f"https://{own}", f"http://localhost:{other_port}", f"http://127.0.0.1:{port}")
    origin = drawn.choice((*origins, f"http://{foreign_name(drawn, port)}", f"ftp://{own}", word(drawn)))
    return Request("origin", (request(drawn.choice(PATHS), f"Host: {own}", f"Origin: {origin}"),), True)


def two_names(drawn, port):
    """Give our name and a foreign one, in either order, or in headers that a proxy adds."""
    ours = f"localhost:{port}"
    theirs = foreign_name(drawn, port)
    hosts = [f"Host: {ours}", f"Host: {theirs}"]
    drawn.shuffle(hosts)
    if drawn.random() < 0.5:
        return Request("two hosts", (request(drawn.choice(PATHS), *hosts),), True)
    added = drawn.choice(
        ("X-Forwarded-Host", "X-Forwarded-For", "Forwarded", "X-Original-URL", "X-Rewrite-URL")
    )
    headers = (f"Host: {theirs}", f"{added}: {ours}")
    return Request("forwarded", (request(drawn.choice(PATHS), *headers),), True)


def prying_path(drawn, port, secret):
    """Ask for a file outside, in one of the spellings of `..`, below one of the server's folders."""
    up = drawn.choice(
        ("../", "..%2f", "%2e%2e/", "%2e%2e%2f", "..%5c", "....//", "%252e%252e%252f", ".%00./")
    )
    below = drawn.choice(
        ("/", "/static/", "/media/", "/app/static/", "/component/", "/_stcore/bidi-components/")
    )
    name = str(secret).lstrip("/")
    target = drawn.choice((below + up * drawn.randint(1, 12) + name, below + "/" + name, f"file://{secret}"))
    return Request("path", (request(target, f"Host: localhost:{port}", method=drawn.choice(METHODS)),), False)


def malformed(drawn, port):
    """Send what is no request, or one with enormous or broken parts."""
    own = f"Host: localhost:{port}"
    made = (
        drawn.randbytes(drawn.randint(1, 2000)),
        request("/" + "a" * drawn.randint(1000, 200_000), own),
        request("/overview", own, f"X-{word(drawn)}: " + "b" * drawn.randint(1000, 100_000)),
        request("/overview", own, "Content-Length: -1", method="POST"),
        request("/overview", own, "Transfer-Encoding: chunked", method="POST") + b"zz\r\nnot a size\r\n",
        request("/overview?run=" + "%" * drawn.randint(1, 99), own),
        request("/overview?" + "&".join(f"{word(drawn)}={word(drawn)}" for _ in range(900)), own),
        request("/overview", own).replace(b"HTTP/1.1", b"HTTP/9.9"),
        request("/overview", own)[: drawn.randint(1, 40)],
    )
    return Request("malformed", (drawn.choice(made),), False)


def frame(kind, content, *, masked=True, length=None):
    """Return a frame of the WebSocket protocol (RFC 6455, section 5.2), with a wrong length if one is given."""
    size = len(content) if length is None else length
    first = bytes([0x80 | kind])
    mask = 0x80 if masked else 0
    header = bytes([mask | 127]) + size.to_bytes(8, "big") if size > 125 else bytes([mask | size])
    return first + header + (bytes(4) if masked else b"") + content


def frames(drawn, port):
    """Open the socket as our own page and send text, garbage, wrong lengths, unmasked or unknown frames."""
    own = f"localhost:{port}"
    opening = request("/_stcore/stream", f"Host: {own}", f"Origin: http://{own}")
    messages = []
    for _ in range(drawn.randint(1, 5)):
        content = drawn.randbytes(drawn.randint(0, 3000))
        made = (
            frame(1, word(drawn).encode()),
            frame(1, content),
            frame(2, content),
            frame(2, content, masked=False),
            frame(2, content, length=drawn.choice((2**31, 2**62, len(content) // 2))),
            frame(drawn.randint(3, 15), content[:125]),
            content,
        )
        messages.append(drawn.choice(made))
    return Request("frames", (opening, *messages), False)


def draw(seed, port, secret):
    """Draw one request of one kind."""
    drawn = random.Random(seed)
    kind = drawn.choice((foreign_host, foreign_origin, two_names, prying_path, malformed, frames))
    return kind(drawn, port, secret) if kind is prying_path else kind(drawn, port)


def answer(port, sent):
    """Send a request and return all that comes back, b"" if the server only closes the connection."""
    received = b""
    with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=PATIENCE) as connection:
        connection.settimeout(SHORT if sent.kind == "malformed" else PATIENCE)
        for message in sent.messages:
            connection.sendall(message)
            received += connection.recv(1 << 16)
            connection.settimeout(QUIET)
        while part := connection.recv(1 << 16):
            received += part
    return received


def is_alive(port):
    """True if the server still answers its own page."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
    try:
        connection.request("GET", "/_stcore/health")
        return connection.getresponse().status == 200
    except OSError:
        return False
    finally:
        connection.close()


def judged(sent, received, log, port):
    """Return the outcome of one request, and what shows it."""
    if any(words in log for words in ESCAPED):
        return "traceback", log[-2000:]
    if not is_alive(port):
        return "traceback", "the server does not answer any more"
    if SECRET.encode() in received:
        return "silent", f"a file from outside was sent after {sent.messages[0][:200]!r}"
    status = int(received[9:12]) if received[:5] == b"HTTP/" and received[9:12].isdigit() else 0
    if sent.foreign and status < 400 and received:
        return "silent", f"answered with {status}: {sent.messages[0][:300]!r}"
    return ("named" if status >= 400 or not received else "harmless"), ""


def campaign(folder, cases=CASES, seed=0, jobs=1):
    """Serve a run and send all requests one after another; `jobs` is ignored."""
    write_run(folder / "runs", "demo", images=8)
    secret = Path(os.path.realpath(folder)) / "secret.txt"
    secret.write_text(SECRET)
    log = folder / "log"
    findings = []
    with served(folder / "runs", log) as (port, _):
        for number in random.Random(seed).sample(range(10**9), cases):
            before = log.stat().st_size
            sent = draw(number, port, secret)
            received = answer(port, sent)
            written = log.read_bytes()[before:].decode("utf-8", "replace")
            outcome, text = judged(sent, received, written, port)
            findings.append([Finding(f"{sent.kind} {number}", "server", outcome, text)])
    return Campaign("server", findings)
