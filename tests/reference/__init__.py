"""The papers' equations as loops over float64 Python numbers, slow on purpose; the fast code is tested against them."""
