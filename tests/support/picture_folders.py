"""Twelve drawn pictures with two captions each, in every supported layout."""

import csv
import io
import json
import tarfile
from base64 import b64encode
from functools import cache

import pyarrow as pa
import pyarrow.parquet as pq
from PIL import Image, ImageDraw

from tests.support.run_folders import COLOURS

PICTURES = 12
NAMES = [f"{number:03d}_drawn.jpg" for number in range(PICTURES)]
CAPTIONS = {name: [f"a ring, number {i}", f"number {i}: a disc, drawn"] for i, name in enumerate(NAMES)}
SPLITS = {name: "train" if i < 6 else "dev" if i < 9 else "test" for i, name in enumerate(NAMES)}
OF_SPLIT = {split: [name for name in NAMES if SPLITS[name] == split] for split in ("train", "dev", "test")}
PAIRS = [(name, k, caption) for name in NAMES for k, caption in enumerate(CAPTIONS[name])]


@cache
def draw(number):
    """Return a JPEG file of 60 × 40 pixels as bytes."""
    picture = Image.new("RGB", (60, 40), COLOURS[number % 7])
    ImageDraw.Draw(picture).ellipse((5, 5, 15 + 3 * number, 35), fill=COLOURS[(number + 3) % 7])
    buffer = io.BytesIO()
    picture.save(buffer, "JPEG")
    return buffer.getvalue()


def write_pictures(folder, names=NAMES):
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        (folder / name).write_bytes(draw(NAMES.index(name)))
    return folder


def write_lines(file, lines):
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("".join(f"{line}\n" for line in lines))


def flickr8k(root):
    write_pictures(root / "Flicker8k_Dataset")
    write_lines(root / "Flickr8k.lemma.token.txt", [f"{name}#{k}\ta man be" for name, k, _ in PAIRS])
    write_lines(root / "Flickr8k.token.txt", [f"{name}#{k}\t{caption}" for name, k, caption in PAIRS])
    for split, names in OF_SPLIT.items():
        write_lines(root / f"Flickr_8k.{split}Images.txt", names)


def kaggle(root):
    write_pictures(root / "Images")
    lines = [f"{name},{caption}" for name, _, caption in PAIRS]
    write_lines(root / "captions.txt", ["image,caption", *lines])


def flickr30k_results(root):
    write_pictures(root / "flickr30k_images")
    rows = [f"{name}| {k}| {caption}" for name, k, caption in PAIRS]
    write_lines(root / "results.csv", ["image_name| comment_number| comment", *rows])


def flickr30k_annotations(root):
    write_pictures(root / "flickr30k-images")
    with (root / "flickr_annotations_30k.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["raw", "sentids", "split", "filename", "img_id"])
        for i, name in enumerate(NAMES):
            split = SPLITS[name].replace("dev", "val")
            writer.writerow([json.dumps(CAPTIONS[name]), json.dumps([2 * i, 2 * i + 1]), split, name, i])


def coco(root):
    for split, short in (("train", "train"), ("dev", "val")):
        write_pictures(root / f"{short}2017", OF_SPLIT[split])
        numbers = {name: NAMES.index(name) for name in OF_SPLIT[split]}
        images = [{"id": number, "file_name": name} for name, number in numbers.items()]
        pairs = [(numbers[name], k, caption) for name, k, caption in PAIRS if name in numbers]
        annotations = [{"image_id": i, "id": 2 * i + k, "caption": caption} for i, k, caption in pairs]
        content = json.dumps({"images": images, "annotations": annotations})
        write_lines(root / "annotations" / f"captions_{short}2017.json", [content])


def karpathy(root):
    write_pictures(root / "images")
    images = []
    for i, name in enumerate(NAMES):
        sentences = [{"raw": caption} for caption in CAPTIONS[name]]
        split = SPLITS[name].replace("dev", "val")
        images.append({"imgid": i, "filename": name, "split": split, "sentences": sentences})
    (root / "dataset_own.json").write_text(json.dumps({"images": images, "dataset": "own"}))


def precomp(root):
    """Write the layout of LAPS and PCME++: captions, numbers as ids, a mapping to names, no features."""
    write_pictures(root / "flickr30k-images")
    (root / "id_mapping.json").write_text(json.dumps({str(i): name for i, name in enumerate(NAMES)}))
    for split in OF_SPLIT:
        pairs = [(NAMES.index(name), caption) for name, _, caption in PAIRS if SPLITS[name] == split]
        write_lines(root / "precomp" / f"{split}_ids.txt", [number for number, _ in pairs])
        write_lines(root / "precomp" / f"{split}_caps.txt", [caption for _, caption in pairs])


def imagefolder(root):
    rows = {name: {"file_name": name, "caption_0": a, "caption_1": b} for name, (a, b) in CAPTIONS.items()}
    folders = {split: root / split.replace("dev", "validation") for split in OF_SPLIT}
    for split, names in OF_SPLIT.items():
        write_pictures(folders[split], names)
    with (folders["train"] / "metadata.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, ["file_name", "caption_0", "caption_1"])
        writer.writeheader()
        writer.writerows(rows[name] for name in OF_SPLIT["train"])
    lines = [json.dumps({"file_name": name, "text": CAPTIONS[name]}) for name in OF_SPLIT["dev"]]
    write_lines(folders["dev"] / "metadata.jsonl", lines)
    table = pa.Table.from_pylist([rows[name] for name in OF_SPLIT["test"]])
    pq.write_table(table, folders["test"] / "metadata.parquet")


def parquet(root):
    (root / "data").mkdir(parents=True)
    train = OF_SPLIT["train"]
    dev = OF_SPLIT["dev"]
    files = {"train-00000-of-00002": train[:3], "train-00001-of-00002": train[3:]}
    for file, names in (files | {"validation-00000-of-00001": dev}).items():
        images = [{"bytes": draw(NAMES.index(name)), "path": name} for name in names]
        table = pa.table({"image": images, "caption": [CAPTIONS[name] for name in names]})
        pq.write_table(table, root / "data" / f"{file}.parquet", row_group_size=2)


def img2dataset(root):
    for i, name in enumerate(NAMES):
        stem = root / f"{i // 6:05d}" / f"{i:09d}"
        stem.parent.mkdir(parents=True, exist_ok=True)
        stem.with_suffix(".jpg").write_bytes(draw(i))
        stem.with_suffix(".txt").write_text(CAPTIONS[name][0])
        stem.with_suffix(".json").write_text(json.dumps({"caption": CAPTIONS[name][0], "status": "success"}))
    pq.write_table(pa.table({"url": ["x"], "caption": ["y"]}), root / "00000.parquet")


def add_to_tar(content, name, data):
    member = tarfile.TarInfo(name)
    member.size = len(data)
    content.addfile(member, io.BytesIO(data))


def webdataset(root):
    for split, names in OF_SPLIT.items():
        (root / split).mkdir(parents=True)
        with tarfile.open(root / split / "0.tar", "w") as content:
            for name in names:
                key = f"s{NAMES.index(name):07d}"
                add_to_tar(content, f"./._{key}.jpg", b"\0\5\26\7, written by macOS")
                add_to_tar(content, f"{key}.jpg", draw(NAMES.index(name)))
                add_to_tar(content, f"{key}.txt", "\n".join(CAPTIONS[name]).encode())


def table(root):
    folder = write_pictures(root / "train")
    rows = [f"{folder.absolute() / name}\t{caption}\t{SPLITS[name]}" for name, _, caption in PAIRS]
    write_lines(root / "own.tsv", ["filepath\ttitle\tsplit", *rows])


def text_files(root):
    for split, names in OF_SPLIT.items():
        for picture in sorted(write_pictures(root / split, names).iterdir()):
            write_lines(picture.with_suffix(".txt"), CAPTIONS[picture.name])


def multi30k(root):
    """Write lists of pictures and parallel captions in two languages."""
    write_pictures(root / "flickr30k-images")
    for split, names in OF_SPLIT.items():
        file = {"train": "train", "dev": "val", "test": "test_2016_flickr"}[split]
        write_lines(root / "image_splits" / f"{file}.txt", names)
        for number, language in enumerate(("de", "en")):
            write_lines(root / "raw" / f"{file}.{language}", [CAPTIONS[name][number] for name in names])


def chinese_clip(root):
    root.mkdir(exist_ok=True)
    for split, names in OF_SPLIT.items():
        stem = split.replace("dev", "valid")
        pictures = [f"{NAMES.index(name)}\t{b64encode(draw(NAMES.index(name))).decode()}" for name in names]
        write_lines(root / f"{stem}_imgs.tsv", pictures)
        pairs = [(NAMES.index(name), k, caption) for name, k, caption in PAIRS if SPLITS[name] == split]
        texts = [{"text_id": 2 * i + k, "text": caption, "image_ids": [i]} for i, k, caption in pairs]
        write_lines(root / f"{stem}_texts.jsonl", map(json.dumps, texts))


def video_frames(root):
    """Write MSR-VTT's JSON for twelve videos of one frame, which has the video's captions."""
    for name in NAMES:
        frame = root / "frames" / name.removesuffix(".jpg") / "0001.jpg"
        frame.parent.mkdir(parents=True)
        frame.write_bytes(draw(NAMES.index(name)))
    spelled = {"train": "train", "dev": "validate", "test": "test"}
    videos = [
        {"video_id": name[:-4], "split": spelled[SPLITS[name]], "id": i} for i, name in enumerate(NAMES)
    ]
    sentences = [
        {"caption": caption, "video_id": name[:-4], "sen_id": number}
        for number, (name, _, caption) in enumerate(PAIRS)
    ]
    content = {"info": {"year": "2016"}, "videos": videos, "sentences": sentences}
    (root / "train_val_videodatainfo.json").write_text(json.dumps(content))


def llava(root):
    write_pictures(root / "coco" / "train2017")
    for split, names in OF_SPLIT.items():
        entries = []
        for name in names:
            for caption in CAPTIONS[name]:
                question = {"from": "human", "value": "<image>\nDescribe it."}
                turns = [question, {"from": "gpt", "value": caption}]
                entries.append({"id": name, "image": f"coco/train2017/{name}", "conversations": turns})
        entries[0]["conversations"] += [question, {"from": "gpt", "value": "Yes."}]
        entries.append({"id": "text", "conversations": turns})
        (root / f"llava_{split}.json").write_text(json.dumps(entries))


def visual_genome(root):
    for name in NAMES:
        number = NAMES.index(name)
        folder = root / f"VG_100K{'_2' * (number % 2)}"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{number}.jpg").write_bytes(draw(number))
    content = []
    for number, name in enumerate(NAMES):
        phrases = enumerate(CAPTIONS[name])
        regions = [
            {"region_id": 2 * number + k, "image_id": number, "phrase": phrase} for k, phrase in phrases
        ]
        content.append({"id": number, "regions": regions})
    (root / "region_descriptions.json").write_text(json.dumps(content))


_WRITERS = (precomp, karpathy, flickr8k, flickr30k_annotations, flickr30k_results, kaggle, coco, imagefolder)
_WRITERS += (multi30k, chinese_clip, table, text_files, parquet, webdataset, img2dataset, video_frames)
_WRITERS += (llava, visual_genome)
LAYOUTS = {writer.__name__.replace("_", "-"): writer for writer in _WRITERS}
