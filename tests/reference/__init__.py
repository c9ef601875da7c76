"""Loops written from the equations, in float64 Python numbers, to check the fast code against. Slow on purpose."""
