"""Files that survive kills and reveal damage.

A save is whole, or absent, or named as damaged (`atomic`, `sealed`); nothing outside a run's folder is written, removed or
read because of what is in it (`console.plain_files`, which opens no link, pipe or device). `matrices` reads embeddings.
"""
