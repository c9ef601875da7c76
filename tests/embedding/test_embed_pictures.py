"""coder-lab embed pictures: a pretrained dual encoder's run, equal to transformers' own, and resumable."""

import io
import json
import os
import shutil
import signal
import socket
import time
import tracemalloc
from contextlib import suppress
from functools import partial

import numpy as np
import psutil
import pytest
import torch
from PIL import Image

from coder_core.api import list_runs, open_run
from coder_core.data.captioned.decoding import in_workers
from coder_core.data.captioned.reading import read_captioned
from coder_core.embed import main
from coder_core.embedding import embed, resumable
from coder_core.evaluate import main as evaluate
from coder_core.export import main as export
from coder_core.runs.analysis.read import open_analysis
from coder_core.runs.analysis.tables import PICTURE_POSITIONS
from tests.support import tiny_towers
from tests.support.fork_driver import child, wait
from tests.support.picture_folders import CAPTIONS, LAYOUTS, NAMES, SPLITS, draw
from tests.support.run_folders import ranks_of, recalls
from tests.support.tiny_towers import WORDS

TRAIN = [name for name in NAMES if SPLITS[name] == "train"]


@pytest.fixture(scope="module", autouse=True)
def _one_thread_and_small_blocks(own_threads):
    torch.set_num_threads(1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(resumable, "BLOCK_ON_CPU", 2)
        yield


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    tiny_towers.write_tiny_clip(folder / "clip")
    tiny_towers.write_tiny_siglip(folder / "siglip", WORDS)
    tiny_towers.write_tiny_naflex(folder / "naflex", WORDS)
    return folder


@pytest.fixture(scope="module")
def pictures(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pictures") / "data"
    LAYOUTS["flickr8k"](folder)
    return folder


def embed_train(data, model, root, *more, name="run"):
    flags = [f"--model={model}", f"--root={root}", f"--name={name}", "--split=train", "--workers=0"]
    return main(["pictures", str(data), *flags, *more])


@pytest.fixture(scope="module")
def whole(models, pictures, tmp_path_factory):
    """The runs' folder with CLIP's run of the train split."""
    root = tmp_path_factory.mktemp("whole")
    assert embed_train(pictures, models / "clip", root) == 0
    return root


def arrays(root, name="run"):
    analysis = open_analysis(root / name, "train", verify=True)
    return {array: np.array(analysis.array(array)) for array in analysis.arrays}


def assert_same_bits(first, second):
    assert set(first) == set(second)
    for name, array in first.items():
        np.testing.assert_array_equal(array, second[name], err_msg=name, strict=True)


@pytest.mark.parametrize(("kind", "prompt"), [("clip", "{}"), ("siglip", "see {}"), ("naflex", "{}")])
def test_embeddings_and_metrics_match_transformers(kind, prompt, models, pictures, tmp_path, capsys):
    drawn = [Image.open(io.BytesIO(draw(NAMES.index(name)))) for name in TRAIN]
    captions = [prompt.replace("{}", caption) for name in TRAIN for caption in CAPTIONS[name]]
    assert embed_train(pictures, models / kind, tmp_path, f"--prompt={prompt}") == 0
    out = capsys.readouterr().out
    assert f"{models / kind}, prompt '{prompt}'" in out
    assert (f"6 captions are longer than the {tiny_towers.LONGEST} tokens" in out) == (kind == "clip")
    analysis = open_analysis(tmp_path / "run", "train", verify=True)
    owner = np.repeat(np.arange(6), 2)
    v, w = tiny_towers.embedded_by_transformers(models / kind, drawn, captions, pad=kind != "clip")
    assert np.std(v @ w.T) > 0.01  # the tiny model tells pictures apart
    np.testing.assert_allclose(analysis.image_embeddings @ analysis.text_embeddings.T, v @ w.T, atol=1e-6)
    np.testing.assert_array_equal(analysis.image_of_text, owner)
    expected = recalls(*ranks_of(v.astype(float), w.astype(float), owner)[:2])
    assert {key: analysis.metrics[key] for key in expected} == pytest.approx(expected)
    about = analysis.document("towers")
    assert (about["model"], about["prompt"], len(about["fingerprint"])) == (str(models / kind), prompt, 64)
    assert [(run.usable, run.imported) for run in list_runs(tmp_path)] == [(True, True)]
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


def test_another_split_must_come_from_the_same_towers(models, pictures, whole, tmp_path, capsys):
    shutil.copytree(whole / "run", tmp_path / "run")
    tiny_towers.write_tiny_clip(tmp_path / "other", seed=1)
    for model, flags, message in (
        (models / "clip", [], "add --overwrite"),
        (models / "clip", ["--split=val"], ""),
        (models / "clip", ["--split=test", "--prompt=x {}"], "prompt 'x {}'"),
        (tmp_path / "other", ["--split=test"], "choose another name"),
    ):
        assert embed_train(pictures, model, tmp_path, *flags) == bool(message)
        assert message in capsys.readouterr().err
        assert not (tmp_path / ".unfinished").exists(), "refused before any work"
    assert open_run(tmp_path / "run").splits == ("dev", "train")


def forked(work, **environment):
    """Fork a child that does `work`; return a function that waits for it and returns its exit status."""
    pid = child(lambda: signal.alarm(120) or os.environ.update(environment) or work())
    return lambda: wait(pid)


def die_at_block(number):
    """Let this process kill itself when it writes the block of this number."""
    put = resumable.BlockArrays.put
    calls = iter(range(1, 100))

    def put_or_die(*arguments):
        if next(calls) == number:
            os.kill(os.getpid(), signal.SIGKILL)
        put(*arguments)

    resumable.BlockArrays.put = put_or_die


@pytest.mark.slow
def test_kill_9_and_two_processes_change_no_bit(models, pictures, whole, tmp_path, monkeypatch):
    expected = arrays(whole)
    root = tmp_path / "killed"
    embed_into = partial(embed_train, pictures, models / "clip")
    # every block is marked when it is written, and the process is killed before the fifth
    monkeypatch.setattr(resumable, "SECONDS", -1.0)
    assert forked(lambda: die_at_block(5) or embed_into(root))() == -signal.SIGKILL
    assert list_runs(root) == []
    [folder] = (root / ".unfinished").iterdir()
    finished = [(np.load(folder / kind / "done.npy")[:, 0] > 0).tolist() for kind in ("images", "texts")]
    assert finished == [[True] * 3, [True] + [False] * 5]
    # a finished block with a flipped bit is computed again, the others are not
    rows = np.load(folder / "images" / "rows.npy", mmap_mode="r+")
    rows[2, -1] = -rows[2, -1]
    rows.flush()
    decoded = []
    blocks = resumable.prepared_blocks
    monkeypatch.setattr(resumable, "prepared_blocks", lambda *a: (decoded.append(a[2]), blocks(*a))[1])
    assert embed_into(root) == 0
    assert decoded == [[1]]
    assert_same_bits(expected, arrays(root))
    # two processes as torchrun starts one on each of two machines, which share nothing but the folder of runs
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        address = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(probe.getsockname()[1])}

    work = partial(embed_into, tmp_path / "two")
    ranks = address | {"WORLD_SIZE": "2", "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1"}
    children = []
    for rank in "01":
        own = tmp_path / rank
        own.mkdir()
        folders = dict.fromkeys(("HOME", "CODER_CACHE", "TMPDIR"), str(own))
        children.append(forked(work, RANK=rank, **ranks, **folders))

    assert [wait() for wait in children] == [0, 0]
    assert_same_bits(expected, arrays(tmp_path / "two"))


def test_sigterm_exits_with_3_and_embedding_resumes(models, pictures, whole, tmp_path, monkeypatch, capsys):
    put = resumable.BlockArrays.put

    def put_and_terminate(arrays, number, *arguments):
        put(arrays, number, *arguments)
        if number == 1:
            signal.raise_signal(signal.SIGTERM)

    with monkeypatch.context() as patch:
        patch.setattr(resumable.BlockArrays, "put", put_and_terminate)
        assert embed_train(pictures, models / "clip", tmp_path) == 3
    assert "stopped after 4 of 6 pictures, saved. Repeat the command to continue" in capsys.readouterr().out
    assert embed_train(pictures, models / "clip", tmp_path) == 0
    assert "4 of 6 pictures and 0 of 12 captions are finished" in capsys.readouterr().out
    assert_same_bits(arrays(whole), arrays(tmp_path))


@pytest.mark.parametrize(
    ("command", "flags", "fact"),
    [
        (evaluate, "--blend 0.0 1.0", "nothing was trained"),
        (export, "--to huggingface out", "nothing was trained"),
        (evaluate, "--split test", "coder-lab embed pictures DATA"),
        (export, "--to parquet out --split test", "coder-lab embed pictures DATA"),
    ],
)
def test_what_a_zero_shot_run_lacks_is_named(command, flags, fact, whole, complaint):
    assert fact in complaint(command, [str(whole / "run"), *flags.split()])


def test_a_decoding_worker_ends_if_its_command_is_killed(tmp_path):
    """Its blocks are larger than the pipe, which no process reads any more."""

    def die():
        for pid, _ in in_workers(lambda number: (os.getpid(), bytes(1 << 20)), range(100), 1):
            (tmp_path / "pid").write_text(str(pid))
            os.kill(os.getpid(), signal.SIGKILL)

    assert forked(die)() == -signal.SIGKILL
    worker = int((tmp_path / "pid").read_text())
    with suppress(psutil.NoSuchProcess):
        ended = psutil.STATUS_ZOMBIE
        deadline = time.monotonic() + 12
        while (status := psutil.Process(worker).status()) != ended and time.monotonic() < deadline:
            time.sleep(0.1)
        os.kill(worker, signal.SIGKILL)
        assert status == ended


def test_broken_pictures_are_named_at_the_end_or_skipped(models, pictures, whole, tmp_path, complaint):
    data = shutil.copytree(pictures, tmp_path / "data")
    runs = tmp_path / "runs"
    for name in TRAIN[2:4]:
        (data / "Flicker8k_Dataset" / name).write_bytes(draw(0)[:-100])

    message = complaint(embed_train, data, models / "clip", runs)
    assert all(part in message for part in ("train: 2 of 6 pictures", f"'{TRAIN[2]}'", "--skip-broken"))
    assert list_runs(runs) == []
    assert embed_train(data, models / "clip", runs, "--skip-broken") == 0
    stored = arrays(runs)
    analysis = open_analysis(runs / "run", "train")
    assert analysis.image_names == TRAIN[:2] + TRAIN[4:]
    assert analysis.captions == [caption for name in analysis.image_names for caption in CAPTIONS[name]]
    np.testing.assert_array_equal(stored["image_of_text"], np.repeat(np.arange(4), 2))
    for side, left_out in (("image", [2, 3]), ("text", range(4, 8))):
        expected = np.delete(arrays(whole)[f"{side}_embeddings"], left_out, 0)
        np.testing.assert_array_equal(stored[f"{side}_embeddings"], expected)

    notes = json.loads((runs / "run/analysis/train/imported.json").read_text())["notes"]
    assert any("2 of 6 pictures" in note for note in notes)
    # a missing picture of another split is ignored, one of this split is named
    (data / "Flicker8k_Dataset" / NAMES[-1]).unlink()
    assert embed_train(data, models / "clip", runs, "--split=dev") == 0
    message = complaint(embed_train, data, models / "clip", runs, "--split=test")
    assert "1 of 3 pictures are missing" in message


@pytest.mark.parametrize(("layout", "workers"), [("parquet", 2), ("webdataset", 0)])
def test_packed_pictures_are_embedded_without_unpacking(layout, workers, models, whole, tmp_path):
    """The numbers of workers and of pictures in a batch make no difference."""
    LAYOUTS[layout](tmp_path / "data")
    flags = f"--workers={workers}", "--batch-size=5"
    assert embed_train(tmp_path / "data", models / "clip", tmp_path / "runs", *flags) == 0
    packed = arrays(tmp_path / "runs")
    assert packed.pop(PICTURE_POSITIONS).shape == (6, 3)
    assert_same_bits(arrays(whole), packed)


WIDE = 4_096


class WideTowers:
    """Towers whose random rows are so long that a copy of all of them is visible in memory."""

    device = torch.device("cpu")
    prepare = staticmethod(lambda picture: picture.size)
    about = {"kind": "own", "tower": "tests:wide", "fingerprint": "0", "prompt": "{}"}  # noqa: RUF012
    random = np.random.default_rng(0)

    def encode_pictures(self, prepared):
        rows = self.random.standard_normal((len(prepared), WIDE), np.float32)
        return rows / np.linalg.norm(rows, axis=1, keepdims=True)

    def encode_texts(self, texts):
        return self.encode_pictures(texts), 0


def test_embeddings_are_never_all_in_memory(tmp_path):
    captions = 512
    folder = tmp_path / "data" / "train"
    folder.mkdir(parents=True)
    (folder / "0.jpg").write_bytes(draw(0))
    table = "".join(f"0.jpg,caption {number}\n" for number in range(captions))
    (folder / "metadata.csv").write_text(f"file_name,text\n{table}")
    split = read_captioned(tmp_path / "data").split("train")
    tracemalloc.start()
    try:
        encoding = embed.Encoding(WideTowers(), workers=0)
        embed.embed_split(split, encoding, embed.Target(tmp_path, "run", "train"))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert arrays(tmp_path)["text_embeddings"].shape == (captions, WIDE)
    assert peak < captions * WIDE * 4 / 2


TWO = "--model and --tower: "
NO_MODEL = "--model=no/such-model"


@pytest.mark.parametrize(
    ("flags", "culprit"),
    [
        ("", TWO),
        ("--model=a --tower=b:c", TWO),
        (NO_MODEL, "--model no/such-model: "),
        (f"{NO_MODEL} --revision=v2", "hf download no/such-model --revision v2 --include"),
        ("--model=a/b/c", "a/b/c"),
        ("--model=a --batch-size=0", "--batch-size and --workers: are 0 and -1"),
        ("--model=a --format=coco", "format coco"),
        ("--model=a --split=nowhere", '"nowhere"; expected one of train, dev, test'),
    ],
)
def test_invalid_embed_flags_are_refused(flags, culprit, pictures, tmp_path, complaint):
    where = [str(pictures), "--name=run", f"--root={tmp_path / 'runs'}"]
    assert culprit in complaint(main, ["pictures", *where, *flags.split()])
    assert not (tmp_path / "runs").exists()
