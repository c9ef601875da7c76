"""coder-lab app: serve the app on this machine.

If there are no runs yet, the three small demo runs are trained in the background, and the app's first page shows their
progress.
"""

import os
import socket
import sys
import time
import urllib.error
import urllib.request
import webbrowser
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated
from urllib.parse import quote

import psutil
import tyro

from coder_core.config.presets import DEMO_RUNS
from coder_core.console.access import ALLOWED_HOSTS, TOKEN, check_host, new_token, read_access
from coder_core.console.faults import Fault, InputError
from coder_core.console.output import open_console, print_faults, say
from coder_core.console.processes import JobFolder, module_command
from coder_core.console.runner import command

PROGRAM = "coder-lab app"
HOST = "127.0.0.1"
PORT = 8501
SCRIPT = "streamlit_app.py"
INSTALLED = "coder_lab"  # folder beside coder_core in which the wheel keeps the app
LONGEST_START = 120.0  # seconds until the server answers
BACKGROUND = 10  # niceness of the demo's training
RUNS = "CODER_CHECKPOINTS"
DATA = "CODER_DATA"
# variables that hold paths, perhaps several; relative ones mean the folder in which the command starts
PATHS = (
    DATA,
    "CODER_LOSSES",
    "CODER_REVIEWS",
    "CODER_CACHE",
    "CODER_DEMO",
    "PYTHONPATH",
    "HF_HOME",
    "HF_HUB_CACHE",
)


@dataclass(frozen=True)
class ServerArguments:
    """Where to serve the app."""

    root: Path = field(default_factory=lambda: Path(os.environ.get(RUNS) or "checkpoints"))
    """Folder of the runs; without the flag, that of $CODER_CHECKPOINTS, or checkpoints."""
    port: int = PORT
    """Port on this machine."""
    browser: bool = True
    """Open the app in a browser, where this machine has a screen."""
    allow_host: tuple[str, ...] = ()
    """Host names to answer besides localhost, for a proxy in front of the app; visitors then need a token."""
    address: str = HOST
    """Address to listen on. Any other than 127.0.0.1 is for a container; visitors then need a token."""

    @property
    def is_open(self) -> bool:
        """True if others than this machine's user may reach the app, so that visitors need a token."""
        return bool(self.allow_host) or self.address != HOST


@dataclass(frozen=True)
class AppArguments:
    """Serve the app at http://127.0.0.1:8501, for this machine only. From another machine, forward the port:
    ssh -L 8501:localhost:8501 MACHINE."""

    server: Annotated[ServerArguments, tyro.conf.arg(name="")] = field(default_factory=ServerArguments)
    demo: bool = True
    """Train the three demo runs in the background if the folder has no run."""


@command
def main(arguments: list[str]) -> int:
    """Replace this process by the app's server."""
    parsed = tyro.cli(AppArguments, prog=PROGRAM, args=arguments)
    check_server(parsed.server)
    os.environ.update(
        with_whole_paths(os.environ)
    )  # the job that trains the demo starts in another folder too
    if parsed.demo and needs_demo(parsed.server.root):
        start_demo(parsed.server.root)
        say(open_console(), "the demo trains in the background; the app's first page shows its progress")
    serve(parsed.server)
    return 0


def app_folder() -> Path:
    """Return the folder of streamlit_app.py: the checkout, or where the wheel put the app. InputError: none is there,
    or Streamlit is not installed."""
    beside = Path(__file__).resolve().parents[1]
    for folder in (beside / INSTALLED, beside):
        if (folder / SCRIPT).is_file() and (folder / "app").is_dir():
            break
    else:
        raise InputError.at(beside, "has no app", fix='install it: pip install "coder-lab[app]"')
    from importlib.util import find_spec

    if find_spec("streamlit") is None:
        raise InputError.at("streamlit", "is not installed", fix='pip install "coder-lab[app]"')
    return folder


def check_server(server: ServerArguments) -> None:
    """Raise InputError if the app is not installed or the port is taken."""
    app_folder()
    for name in server.allow_host:
        check_host(name, "--allow-host")
    if server.is_open:
        read_access({TOKEN: new_token()})
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((server.address, server.port))
        except (OSError, OverflowError) as error:
            fact = f"cannot be used: {getattr(error, 'strerror', None) or error}"
            fix = f"stop the other server, or choose another port, for example --port {PORT + 1}"
            raise InputError.at(f"--port {server.port}", fact, fix=fix) from None


def needs_demo(root: Path) -> bool:
    """True if the folder has no run at all, or a demo that was left unfinished."""
    from coder_core.runs.record import read_status

    if not any(root.glob("*/config.toml")) and not any(root.glob("*/analysis")):
        return True
    begun = [name for name in DEMO_RUNS if (root / name / "config.toml").is_file()]
    states = [(read_status(root / name) or {}).get("state") for name in begun]
    return bool(begun) and (len(begun) < len(DEMO_RUNS) or set(states) != {"finished"})


def start_demo(root: Path) -> None:
    """Train the demo runs as the app's own job, which its first page shows and can stop. It gets the processor time
    that the pages leave."""
    job = JobFolder(root.resolve() / ".training")
    training = module_command("coder_core.train", "--root", str(root.resolve()))
    started = job.start((*training, "--progress", str(job.progress_file)))
    with suppress(psutil.Error):
        psutil.Process(started.pid).nice(BACKGROUND)


def serve(server: ServerArguments, page: str = "", environment: Mapping[str, str] | None = None) -> None:
    """Replace this process by the app's server; `page`: what a browser opens, such as "overview?run=mine"."""
    folder = app_folder()
    variables = with_whole_paths(dict(os.environ) | dict(environment or {}))
    if server.is_open:
        variables[TOKEN] = new_token()
        variables[ALLOWED_HOSTS] = ",".join(server.allow_host)
        page += f"{'&' if '?' in page else '?'}token={quote(variables[TOKEN], safe='')}"
        print_faults(open_console(), [openness(server)])
    address = f"http://{HOST}:{server.port}/{page}"
    variables[RUNS] = str(server.root.resolve())
    variables.setdefault(DATA, str(Path("data").resolve()))
    say(open_console(), f"the app: {address}   (Ctrl-C stops it)")
    if not has_screen():
        forward = f"ssh -L {server.port}:localhost:{server.port} {socket.gethostname()}"
        say(
            open_console(),
            f"from another machine: {forward}, then http://localhost:{server.port}/{page} there",
        )
    sys.stdout.flush()
    if server.browser and has_screen():
        _open_when_ready(server.port, address)

    # The server starts in the app's own folder, so that no file of the user's folder is imported or configures it
    os.chdir(folder)
    options = ["--server.port", str(server.port), "--server.address", server.address]
    for name in ("localhost", HOST, *server.allow_host):
        options += ["--server.allowedHosts", name]
    command_line = [sys.executable, "-P", "-m", "streamlit", "run", SCRIPT, *options]
    os.execve(sys.executable, command_line, variables)


def openness(server: ServerArguments) -> Fault:
    """Return the warning for an app that others may reach."""
    flag = (
        f"--allow-host {' '.join(server.allow_host)}" if server.allow_host else f"--address {server.address}"
    )
    fact = (
        "whoever has the address below with its token can use the app as you can: see your pictures and captions, "
        "start trainings, write verdicts"
    )
    fix = "put a proxy with https before it, or use ssh -L instead, which needs neither (docs/remote.md)"
    return Fault(flag, fact, fix=fix, severity="warning")


def with_whole_paths(variables: Mapping[str, str]) -> dict[str, str]:
    """Return environment variables with absolute paths in those that hold paths, because the server starts in another
    folder.

    >>> with_whole_paths({"CODER_LOSSES": "/a.py", "LANG": "C"})
    {'CODER_LOSSES': '/a.py', 'LANG': 'C'}
    """
    whole = dict(variables)
    for name in PATHS:
        if paths := whole.get(name):
            whole[name] = os.pathsep.join(map(os.path.abspath, paths.split(os.pathsep)))
    return whole


def has_screen() -> bool:
    """True if a browser window can open here: not on a machine reached by ssh, nor in a container."""
    return sys.platform == "darwin" or bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))


def _open_when_ready(port: int, address: str) -> None:
    """Open a browser from a child process as soon as the server, which replaces this process, answers."""
    if os.fork():
        return
    end = time.monotonic() + LONGEST_START
    while time.monotonic() < end:
        try:
            with urllib.request.urlopen(f"http://{HOST}:{port}/_stcore/health", timeout=2):
                break
        except urllib.error.HTTPError:  # it asks for the token
            break
        except OSError:
            time.sleep(0.2)
    webbrowser.open(address)
    os._exit(0)


if __name__ == "__main__":
    raise SystemExit(main())
