"""One of two processes that embed a split in blocks of two samples.

python -m tests.support.embedding_worker DATA MODEL ROOT NAME
"""

from __future__ import annotations

import sys

from coder_core.embed import main
from coder_core.embedding import resumable

if __name__ == "__main__":
    resumable.BLOCK_ON_CPU = 2
    data, model, root, name = sys.argv[1:]
    flags = [f"--model={model}", f"--root={root}", f"--name={name}", "--split=train", "--workers=0"]
    raise SystemExit(main(["pictures", data, *flags]))
