"""CODER Lab's core: data, encoders, objectives, training, evaluation."""

import os

# An OpenMP thread of torch spins for milliseconds after each operation, and nothing else gets its processor: no other
# program, no other thread of this one, not even the thread that all are waiting for. Spinning briefly makes a step on
# two threads of a busy machine several times faster and an idle one hardly slower. Read once, by `import torch`.
if "OMP_WAIT_POLICY" not in os.environ:
    os.environ.setdefault("GOMP_SPINCOUNT", "1000")

# oneDNN compiles a program for every shape of a product and keeps the last 1,024, at 0.7 MiB each; a run has about 300.
os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "512")
