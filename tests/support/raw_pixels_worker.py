"""Run the benchmark of raw pixels shrunk to seconds; the trainings that it starts and kills are forks of this process."""

import os
import signal
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace

from benchmarks import raw_pixels
from coder_core.demo import make_demo
from tests.support.fork_driver import child, wait

SHORT = ("--threads=1", "--epochs=4", "--kill-after=1", "--workers=0", "--bar=2")


class Fork:
    """`python -m MODULE ARGUMENT …` in a fork, with what the benchmark asks of `subprocess.Popen`."""

    def __init__(self, command, env):
        _, _, module, *arguments = command

        def run():
            os.environ.update(env)
            return import_module(module).main(arguments)

        self.pid = child(run)

    def poll(self):
        """Return None while the fork runs."""
        return (
            None if os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT | os.WNOHANG) is None else "ended"
        )

    def kill(self):
        os.kill(self.pid, signal.SIGKILL)

    def wait(self):
        return wait(self.pid)


def main(folder):
    """Print what the benchmark prints; its bar is twice the R@sum of chance."""
    folder = Path(folder)
    os.environ["CODER_DEMO"] = str(make_demo(folder / "demo", images=150))
    raw_pixels.subprocess = SimpleNamespace(Popen=Fork)
    assert raw_pixels.main([f"--root={folder}", *SHORT]) == 0
