"""Karpathy's JSON files with features beside them."""

import json

import numpy as np


def image(imgid, split="train", captions=2, **more):
    """Return one image of the JSON; `more` replaces or adds keys."""
    raw = [f"image {imgid} caption {j}" for j in range(captions)]
    sentences = [{"raw": text, "imgid": imgid, "sentid": 10 * imgid + j} for j, text in enumerate(raw)]
    return {"imgid": imgid, "filename": f"{imgid}.jpg", "split": split, "sentences": sentences} | more


def write(folder, images, arrays, **more):
    """Write the JSON of these images and the arrays, by file name; return the folder."""
    folder.mkdir(exist_ok=True)
    (folder / "dataset_small.json").write_text(json.dumps({"dataset": "small", "images": images} | more))
    for name, array in arrays.items():
        np.save(folder / name, array)
    return folder
