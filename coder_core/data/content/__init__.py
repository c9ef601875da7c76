"""Checks of the content of pictures and captions: broken, tiny and blank pictures, and near-duplicates."""
