"""Frames of videos are groups; COCO's JSON is found below split folders; small folders can be embedded."""

import json

import numpy as np
import pytest

from coder_core.check_data import main as check_data
from coder_core.config.data import ReadingArguments
from coder_core.data.captioned import frames
from coder_core.data.captioned.reading import read_captioned
from coder_core.embed import main as embed
from coder_core.evaluate import main as evaluate
from coder_core.runs.analysis.read import open_analysis
from tests.support.picture_folders import draw
from tests.support.precomp_folders import refusal
from tests.support.tiny_towers import write_tiny_clip

ROWS = "key,vid_key,video_id,sentence\n" + "".join(
    f"ret{k},msr{k},video{k},a person cooks meal {k}\n" for k in range(3)
)


def write_frames(root, videos, frames=4, name="frames/video{}/{}.jpg"):
    for video in range(videos):
        for frame in range(1, frames + 1):
            file = root / name.format(video, frame)
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(draw(video))


def coco(names, first):
    images = [{"id": number, "file_name": name} for number, name in enumerate(names)]
    texts = [
        {"id": number, "image_id": number, "caption": f"ring {first + number}"}
        for number in range(len(names))
    ]
    return json.dumps({"images": images, "annotations": texts})


def test_captions_of_a_video_belong_to_frames_at_equal_distances_and_its_frames_are_one_group(tmp_path):
    write_frames(tmp_path, 2, frames=10)
    videos = [{"video_id": f"video{v}", "category": v, "split": ("train", "validate")[v]} for v in range(2)]
    sentences = [
        {"caption": f"a man {k} in {v}", "video_id": f"video{v}", "sen_id": 5 * v + k}
        for v in range(2)
        for k in range(5)
    ]
    (tmp_path / "info.json").write_text(json.dumps({"videos": videos, "sentences": sentences}))
    data = read_captioned(tmp_path)
    assert [split.name for split in data.splits] == ["train", "dev"]
    train, dev = data.splits
    assert train.image_names == [f"frames/video0/{number}.jpg" for number in (2, 4, 6, 8, 10)]
    assert train.captions == [f"a man {k} in 0" for k in range(5)]
    assert train.caption_ids.tolist() == list(range(5))
    assert len(set(train.image_groups)) == 1
    assert len(set(dev.image_groups)) == 1
    assert dev.image_groups[0] != train.image_groups[0]
    first, second = train.keep(train.image_of_text < 2).image_groups
    assert first == second


@pytest.mark.parametrize("name", ["f/video{}/{}.png", "video{}_{:04d}.jpg", "f/video{}-frame-{}.jpg"])
def test_tables_of_videos_find_frames_in_folders_and_by_their_names(tmp_path, name):
    write_frames(tmp_path, 3, name=name)
    (tmp_path / "MSRVTT_JSFUSION_test.csv").write_text(ROWS)
    [test] = read_captioned(tmp_path).splits
    assert test.name == "test"
    assert test.captions == [f"a person cooks meal {k}" for k in range(3)]
    assert test.image_names == [name.format(video, 3) for video in range(3)]
    assert len(set(test.image_groups)) == 3


def test_frames_of_one_video_stay_in_one_split_that_a_hash_deals(tmp_path):
    write_frames(tmp_path, 30)
    rows = [f"video{v}.mp4\ta man {k} in {v}\n" for v in range(30) for k in range(4)]
    (tmp_path / "own.tsv").write_text("video\tcaption\n" + "".join(rows))
    data = read_captioned(tmp_path, ReadingArguments(dev_share=0.4, test_share=0))
    videos = [{name.split("/")[1] for name in split.image_names} for split in data.splits]
    assert len(videos) == 2
    assert not videos[0] & videos[1]


def test_videos_without_frames_are_left_out_or_refused_with_the_command_that_writes_frames(tmp_path):
    (tmp_path / "own.csv").write_text("video,caption\nv1,a man\nv2,a cat\n")
    assert "ffmpeg -i v1.mp4 -r 1 frames/v1/%04d.jpg" in str(refusal(read_captioned, tmp_path))
    (tmp_path / "frames/v1").mkdir(parents=True)
    (tmp_path / "frames/v1/1.jpg").write_bytes(draw(0))
    data = read_captioned(tmp_path)
    assert [caption for split in data.splits for caption in split.captions] == ["a man"]
    assert any("1 videos have no frames" in fault.found for fault in data.faults)


@pytest.mark.parametrize(
    ("captions", "pictures"),
    [
        ("{}/_annotations.coco.json", "{}"),
        ("{}/annotations/captions.json", "{}/images"),
        ("own/captions_{}2017.json", "own/{}2017"),
        ("captions_{}.json", "{}"),
        ("{}.captions.json", "images/{}2017"),
    ],
)
def test_coco_is_found_below_split_folders(tmp_path, captions, pictures):
    for first, folder in ((0, "train"), (3, "val")):
        names = [f"{row}.jpg" for row in range(3)]  # the same in both splits
        file = tmp_path / captions.format(folder)
        (tmp_path / pictures.format(folder)).mkdir(parents=True)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(coco(names, first))
        for row, name in enumerate(names):
            (tmp_path / pictures.format(folder) / name).write_bytes(draw(first + row))
    data = read_captioned(tmp_path)
    assert [split.name for split in data.splits] == ["train", "dev"]
    for first, split in zip((0, 3), data.splits, strict=True):
        assert split.captions == [f"ring {first + row}" for row in range(3)]
        assert [split.read(image) for image in range(3)] == [draw(first + row) for row in range(3)]


@pytest.mark.parametrize("folder", ["", "own"])
def test_tables_of_splits_read_the_pictures_of_their_split_although_names_repeat(tmp_path, folder):
    for first, split in ((0, "train"), (3, "val")):
        (tmp_path / folder / split).mkdir(parents=True)
        lines = [f"{row}.jpg,ring {first + row}\n" for row in range(3)]
        (tmp_path / folder / f"{split}.csv").write_text("image,caption\n" + "".join(lines))
        for row in range(3):
            (tmp_path / folder / split / f"{row}.jpg").write_bytes(draw(first + row))
    for first, split in zip((0, 3), read_captioned(tmp_path).splits, strict=True):
        assert split.captions == [f"ring {first + row}" for row in range(3)]
        assert [split.read(image) for image in range(3)] == [draw(first + row) for row in range(3)]


def test_data_without_a_vocabulary_can_be_embedded_and_without_a_train_split_not_be_trained_on(
    tmp_path, capsys
):
    write_frames(tmp_path, 3)
    (tmp_path / "test.csv").write_text(ROWS)
    assert check_data([str(tmp_path)]) == 1
    assert 'no split "train"; expected one of test, which coder-lab embed' in capsys.readouterr().out
    (tmp_path / "test.csv").rename(tmp_path / "train.csv")  # three captions, no word four times
    assert check_data([str(tmp_path)]) == 0
    assert "warning: vocabulary: no word occurs" in capsys.readouterr().out


def test_embedded_frames_count_by_video(tmp_path, capsys):
    write_frames(tmp_path / "data", 3)
    rows = [f"video{video},a {word} ring\n" for video in range(3) for word in ("blue", "red")]
    (tmp_path / "data" / "test.csv").write_text("video,caption\n" + "".join(rows))
    clip = write_tiny_clip(tmp_path / "clip")
    place = ["--split=test", "--name=x", f"--root={tmp_path}"]
    assert embed(["pictures", str(tmp_path / "data"), f"--model={clip}", "--workers=0", *place]) == 0
    groups = open_analysis(tmp_path / "x", "test").image_groups
    video = np.repeat(np.arange(3), 2)
    assert np.array_equal(groups[:, None] == groups, video[:, None] == video)
    capsys.readouterr()
    assert evaluate([str(tmp_path / "x"), "--split", "test"]) == 0
    assert "by group" in capsys.readouterr().out


def test_a_folder_of_too_many_frames_is_read_in_part(tmp_path, monkeypatch):
    """The folders are read in order until more frames than the limit are met."""
    for video, count in (("a", 2), ("b", 1), ("c", 1)):
        (tmp_path / video).mkdir()
        for frame in range(count):
            (tmp_path / video / f"{frame}.jpg").write_bytes(b"")
    (tmp_path / "b" / ".hidden.jpg").write_bytes(b"")
    everything = {"a": ["a/0.jpg", "a/1.jpg"], "b": ["b/0.jpg"], "c": ["c/0.jpg"]}
    for most, listed in ((4, "abc"), (3, "abc"), (2, "ab"), (1, "a")):
        monkeypatch.setattr(frames, "MOST_FRAMES", most)
        assert frames._list_frames(tmp_path, list("abc")) == {video: everything[video] for video in listed}


def test_pictures_with_texts_beside_them_have_their_folders_in_their_names(tmp_path):
    """As img2dataset writes them: the same names in every folder."""
    for folder, captions in (("00000", ["a dog", "a cat"]), ("00001", ["a fox"])):
        (tmp_path / folder).mkdir()
        for number, caption in enumerate(captions):
            (tmp_path / folder / f"{number}.jpg").write_bytes(draw(number))
            (tmp_path / folder / f"{number}.txt").write_text(caption)
        (tmp_path / folder / "9.txt").write_text("a caption without a picture")
    data = read_captioned(tmp_path)
    [split] = data.splits
    assert split.image_names == ["00000/0.jpg", "00000/1.jpg", "00001/0.jpg"]
    assert split.captions == ["a dog", "a cat", "a fox"]
    [stray] = [fault for fault in data.faults if "have no picture beside them" in fault.found]
    assert stray.found.startswith("2 captions")
    assert stray.found.endswith("the first: '00000/9.txt', '00001/9.txt'")
