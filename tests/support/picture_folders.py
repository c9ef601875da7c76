"""The same twelve drawn pictures, two captions each, in every layout that people have them in."""

from __future__ import annotations

import csv
import io
import json
import tarfile
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from PIL import Image, ImageDraw

from tests.support.run_folders import COLOURS

PICTURES = 12
NAMES = [f"{number:03d}_drawn.jpg" for number in range(PICTURES)]
CAPTIONS = {name: [f"a ring, number {i}", f"number {i}: a disc, drawn"] for i, name in enumerate(NAMES)}
SPLITS = {name: "train" if i < 6 else "dev" if i < 9 else "test" for i, name in enumerate(NAMES)}


def draw(number: int) -> bytes:
    """A JPEG file of 60 × 40 pixels."""
    picture = Image.new("RGB", (60, 40), COLOURS[number % 7])
    ImageDraw.Draw(picture).ellipse((5, 5, 15 + 3 * number, 35), fill=COLOURS[(number + 3) % 7])
    buffer = io.BytesIO()
    picture.save(buffer, "JPEG")
    return buffer.getvalue()


def write_pictures(folder: Path, names: list[str] = NAMES) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        (folder / name).write_bytes(draw(NAMES.index(name)))
    return folder


def flickr8k(root: Path) -> None:
    write_pictures(root / "Flicker8k_Dataset")
    lines = [f"{name}#{k}\t{caption}\n" for name in NAMES for k, caption in enumerate(CAPTIONS[name])]
    (root / "Flickr8k.token.txt").write_text("".join(lines))
    for split in ("train", "dev", "test"):
        text = "".join(f"{name}\n" for name in NAMES if SPLITS[name] == split)
        (root / f"Flickr_8k.{split}Images.txt").write_text(text)


def kaggle(root: Path) -> None:
    write_pictures(root / "Images")
    lines = [f"{name},{caption}\n" for name in NAMES for caption in CAPTIONS[name]]
    (root / "captions.txt").write_text("image,caption\n" + "".join(lines))


def flickr30k_results(root: Path) -> None:
    write_pictures(root / "flickr30k_images")
    rows = [f"{name}| {k}| {caption}\n" for name in NAMES for k, caption in enumerate(CAPTIONS[name])]
    (root / "results.csv").write_text("image_name| comment_number| comment\n" + "".join(rows))


def flickr30k_annotations(root: Path) -> None:
    write_pictures(root / "flickr30k-images")
    with (root / "flickr_annotations_30k.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["raw", "sentids", "split", "filename", "img_id"])
        for i, name in enumerate(NAMES):
            split = SPLITS[name].replace("dev", "val")
            writer.writerow([json.dumps(CAPTIONS[name]), json.dumps([2 * i, 2 * i + 1]), split, name, i])


def coco(root: Path) -> None:
    (root / "annotations").mkdir(parents=True)
    for split, short in (("train", "train"), ("dev", "val")):
        names = [name for name in NAMES if SPLITS[name] == split]
        write_pictures(root / f"{short}2017", names)
        images = [{"id": NAMES.index(name), "file_name": name} for name in names]
        annotations = [
            {"image_id": NAMES.index(name), "id": 2 * NAMES.index(name) + k, "caption": caption}
            for name in names
            for k, caption in enumerate(CAPTIONS[name])
        ]
        content = json.dumps({"images": images, "annotations": annotations})
        (root / "annotations" / f"captions_{short}2017.json").write_text(content)


def karpathy(root: Path) -> None:
    write_pictures(root / "images")
    images = [
        {
            "imgid": i,
            "filename": name,
            "split": SPLITS[name].replace("dev", "val"),
            "sentences": [{"raw": caption} for caption in CAPTIONS[name]],
        }
        for i, name in enumerate(NAMES)
    ]
    (root / "dataset_own.json").write_text(json.dumps({"images": images, "dataset": "own"}))


def precomp(root: Path) -> None:
    """As LAPS and PCME++ have it: captions, numbers as ids, a mapping to the names, no features."""
    write_pictures(root / "flickr30k-images")
    (root / "id_mapping.json").write_text(json.dumps({str(i): name for i, name in enumerate(NAMES)}))
    (root / "precomp").mkdir()
    for split in ("train", "dev", "test"):
        names = [name for name in NAMES if SPLITS[name] == split]
        ids = "".join(f"{NAMES.index(name)}\n" for name in names for _ in CAPTIONS[name])
        captions = "".join(f"{caption}\n" for name in names for caption in CAPTIONS[name])
        (root / "precomp" / f"{split}_ids.txt").write_text(ids)
        (root / "precomp" / f"{split}_caps.txt").write_text(captions)


def imagefolder(root: Path) -> None:
    for split in ("train", "dev", "test"):
        names = [name for name in NAMES if SPLITS[name] == split]
        folder = write_pictures(root / split.replace("dev", "validation"), names)
        rows = [
            {"file_name": name, "caption_0": CAPTIONS[name][0], "caption_1": CAPTIONS[name][1]}
            for name in names
        ]
        if split == "train":
            with (folder / "metadata.csv").open("w", newline="") as file:
                writer = csv.DictWriter(file, ["file_name", "caption_0", "caption_1"])
                writer.writeheader()
                writer.writerows(rows)
        elif split == "dev":
            lines = "".join(
                json.dumps({"file_name": row["file_name"], "text": CAPTIONS[row["file_name"]]}) + "\n"
                for row in rows
            )
            (folder / "metadata.jsonl").write_text(lines)
        else:
            pq.write_table(pa.Table.from_pylist(rows), folder / "metadata.parquet")


def parquet(root: Path) -> None:
    (root / "data").mkdir(parents=True)
    for split, file in (
        ("train", "train-00000-of-00002"),
        ("train", "train-00001-of-00002"),
        ("dev", "validation-00000-of-00001"),
    ):
        names = [name for name in NAMES if SPLITS[name] == split]
        names = names[:3] if file.startswith("train-00000") else names[3:] if split == "train" else names
        rows = [
            {"image": {"bytes": draw(NAMES.index(name)), "path": name}, "caption": CAPTIONS[name]}
            for name in names
        ]
        pq.write_table(pa.Table.from_pylist(rows), root / "data" / f"{file}.parquet", row_group_size=2)


def img2dataset(root: Path) -> None:
    for i, name in enumerate(NAMES):
        folder = root / f"{i // 6:05d}"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{i:09d}.jpg").write_bytes(draw(i))
        (folder / f"{i:09d}.txt").write_text(CAPTIONS[name][0])
        (folder / f"{i:09d}.json").write_text(json.dumps({"caption": CAPTIONS[name][0], "status": "success"}))
    pq.write_table(pa.table({"url": ["x"], "caption": ["y"]}), root / "00000.parquet")


def add_to_tar(content: tarfile.TarFile, name: str, data: bytes) -> None:
    member = tarfile.TarInfo(name)
    member.size = len(data)
    content.addfile(member, io.BytesIO(data))


def webdataset(root: Path) -> None:
    for split in ("train", "dev", "test"):
        (root / split).mkdir(parents=True)
        with tarfile.open(root / split / "0.tar", "w") as content:
            for name in NAMES:
                if SPLITS[name] == split:
                    key = f"s{NAMES.index(name):07d}"
                    add_to_tar(content, f"{key}.jpg", draw(NAMES.index(name)))
                    add_to_tar(content, f"{key}.txt", "\n".join(CAPTIONS[name]).encode())


LAYOUTS: dict[str, Callable[[Path], None]] = {
    "precomp": precomp,
    "karpathy": karpathy,
    "flickr8k": flickr8k,
    "flickr30k-annotations": flickr30k_annotations,
    "flickr30k-results": flickr30k_results,
    "kaggle": kaggle,
    "coco": coco,
    "imagefolder": imagefolder,
    "parquet": parquet,
    "webdataset": webdataset,
    "img2dataset": img2dataset,
}
