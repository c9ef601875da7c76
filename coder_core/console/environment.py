"""Environment variables that make torch faster on a CPU. Torch and its libraries read them once, when they load."""

from __future__ import annotations

import os
from collections.abc import MutableMapping


def tune_environment(environment: MutableMapping[str, str] = os.environ) -> None:
    """Set what torch's thread pool and oneDNN read, unless the user has set it; call this before `import torch`.

    - `GOMP_SPINCOUNT=1000`: by default an OpenMP thread spins for milliseconds after each operation and keeps its
      processor from every other thread. With a short spin a training step on two threads of a busy machine is several
      times faster, and hardly slower on an idle one. Left alone where `OMP_WAIT_POLICY` is set.
    - `ONEDNN_PRIMITIVE_CACHE_CAPACITY=512`: oneDNN compiles a program for every shape of a product and keeps the last
      1,024 at 0.7 MiB each; a run uses about 300.
    """
    if "OMP_WAIT_POLICY" not in environment:
        environment.setdefault("GOMP_SPINCOUNT", "1000")
    environment.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "512")
