"""Let visitors rerun pages of a running app over its socket; print the memory of the server after every part.

    python -m benchmarks.visitors PORT PID "run=a&run=b&split=dev" --visitors 30 --reruns 10000
    python -m benchmarks.visitors PORT PID "run=a&run=b&split=dev" --visitors 40 --reruns 40 --parts 1     all at once

PID is the process of `streamlit run streamlit_app.py --server.port PORT`. Visitors reconnect in every part.
"""

import argparse
import asyncio
import time

import psutil
import websockets
from streamlit.proto.BackMsg_pb2 import BackMsg
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg
from websockets.typing import Subprotocol

PAGES = ("overview", "retrieval", "slices", "joint", "data", "diversity")
LONGEST = 300.0  # seconds until a page is drawn
ENDINGS = (ForwardMsg.FINISHED_SUCCESSFULLY, ForwardMsg.FINISHED_WITH_COMPILE_ERROR)


def rerun_of(page: str, query: str) -> bytes:
    """Return the message with which a browser asks for a page."""
    message = BackMsg()
    message.rerun_script.query_string = query
    message.rerun_script.page_name = page
    return message.SerializeToString()


async def visit(port: int, query: str, visitor: int, reruns: int) -> list[float]:
    """Open the pages in turn, starting with another one for every visitor; return the seconds of each."""
    address = f"ws://127.0.0.1:{port}/_stcore/stream"
    origin = {"Origin": f"http://127.0.0.1:{port}"}
    protocols = [Subprotocol("streamlit")]
    seconds = []
    async with websockets.connect(
        address, additional_headers=origin, subprotocols=protocols, max_size=None, ping_timeout=None
    ) as connection:
        for number in range(reruns):
            started = time.monotonic()
            page = PAGES[(visitor + number) % len(PAGES)]
            await connection.send(rerun_of(page, query))
            async with asyncio.timeout(LONGEST):
                while not _is_end(await connection.recv()):
                    pass
            seconds.append(time.monotonic() - started)
    return seconds


def _is_end(content: str | bytes) -> bool:
    message = ForwardMsg()
    message.ParseFromString(content if isinstance(content, bytes) else content.encode())
    return message.WhichOneof("type") == "script_finished" and message.script_finished in ENDINGS


async def main() -> None:
    """Run all parts."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.visitors")
    parser.add_argument("port", type=int)
    parser.add_argument("pid", type=int)
    parser.add_argument("query")
    parser.add_argument("--visitors", type=int, default=30)
    parser.add_argument("--reruns", type=int, default=10_000, help="of all visitors together")
    parser.add_argument("--parts", type=int, default=10)
    parsed = parser.parse_args()
    server = psutil.Process(parsed.pid)
    each = max(1, parsed.reruns // parsed.visitors // parsed.parts)
    print(f"before: {server.memory_info().rss >> 20} MiB", flush=True)
    for part in range(1, parsed.parts + 1):
        started = time.monotonic()
        visits = [visit(parsed.port, parsed.query, number, each) for number in range(parsed.visitors)]
        seconds = sorted(second for visited in await asyncio.gather(*visits) for second in visited)
        last = time.monotonic() - started
        memory = server.memory_info().rss >> 20
        median = seconds[len(seconds) // 2]
        print(
            f"{part * len(seconds):,} reruns: {memory} MiB, median {median:.2f} s, longest {seconds[-1]:.2f} s, "
            f"part {last:.1f} s",
            flush=True,
        )


if __name__ == "__main__":
    asyncio.run(main())
