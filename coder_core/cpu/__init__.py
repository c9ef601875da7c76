"""What makes torch fast on a CPU; results do not depend on it. Import the modules: this file stays free of torch.

`environment` (before torch loads), `products` (float32 matrix products by oneDNN), `allocation` (malloc keeps freed
buffers), `gru` (bidirectional GRU), `dropout` (cheap masks), `peak_memory`.
"""
