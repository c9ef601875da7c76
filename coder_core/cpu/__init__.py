"""What makes torch fast on a CPU; results do not depend on it. This file stays free of torch: import the modules.

`environment` (before torch loads), `products` (float32 matrix products by oneDNN), `allocation` (malloc keeps freed
buffers), `dispatch` (a kernel behind a plain function), `gru` and `ranking` (such kernels: BiGRU, GPO's ranked sum),
`dropout` (cheap masks), `peak_memory`.
"""
