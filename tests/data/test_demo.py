"""The built-in data set: files and features, no half-made set taken for a finished one, captions that are true."""

import hashlib
import json
import math
import os
import re
import shutil
from itertools import permutations
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from coder_core.demo import captions as wording
from coder_core.demo import make_demo, making, vagueness
from coder_core.demo.captions import EXACT, write_captions
from coder_core.demo.drawing import signed_distance
from coder_core.demo.features import CELLS, REGIONS, WIDTH, cell_features, region_features
from coder_core.demo.scenes import COLOURS, GROUNDS, SHAPES, SIDE, Thing, relations, sample_scene
from tests.support.precomp_folders import assert_refused

IMAGES = 24
SPLITS = {"train": 18, "dev": 3, "test": 3}


@pytest.fixture(scope="module")
def demo(tmp_path_factory):
    return make_demo(tmp_path_factory.mktemp("made") / "demo", seed=3, images=IMAGES)


def card(folder):
    return json.loads((folder / "demo.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize(("split", "images"), SPLITS.items())
def test_demo_files_have_the_usual_format_and_vagueness_is_separate(demo, split, images):
    features = np.load(demo / f"{split}_ims.npy", mmap_mode="r")
    assert isinstance(features, np.memmap)
    assert (features.shape, features.dtype) == ((images, REGIONS, WIDTH), np.float32)
    assert np.isfinite(features).all()
    captions = (demo / f"{split}_caps.txt").read_text(encoding="utf-8")
    assert re.fullmatch(rf"([a-z ,]+\n){{{5 * images}}}", captions)  # no caption contains a scene's number
    names = (demo / f"{split}_ids.txt").read_text(encoding="utf-8").split()
    assert len(names) == images
    for name in names:
        with Image.open(demo / "images" / name) as picture:
            assert picture.size == (SIDE, SIDE)
    vague = vagueness(demo, split).reshape(images, 5)
    assert set(vague.ravel()) <= {0.0, 0.25, 0.5, 0.75, 1.0}
    assert (vague.min(1) == 0).all()  # every picture has an exact caption and a vague one
    assert (vague.max(1) >= 0.75).all()
    assert not list(demo.glob("*vague*"))


def test_features_are_standardised_and_the_seed_decides_every_byte(demo, tmp_path):
    features = np.load(demo / "train_ims.npy")
    live = features.std((0, 1)) > 0.1
    assert live.mean() > 0.9
    np.testing.assert_allclose(features.mean((0, 1))[live], 0, atol=0.1)
    assert features.std((0, 1))[live].min() > 0.5  # rare columns are cut at 6
    assert features.std((0, 1)).max() < 1.01
    cards = [card(make_demo(tmp_path / f"{k}", seed=seed, images=10)) for k, seed in enumerate((3, 3, 4))]
    assert cards[0] == cards[1]
    assert cards[0]["sha256"] != cards[2]["sha256"]
    digest = hashlib.sha256()
    for name, size in sorted(card(demo)["bytes"].items(), key=lambda item: Path(item[0]).parts):
        content = (demo / name).read_bytes()
        assert len(content) == size
        digest.update(f"{name} {size}\n".encode() + content)
    assert digest.hexdigest() == card(demo)["sha256"]
    make_demo(demo, seed=3, images=IMAGES, progress=lambda done, of: pytest.fail("it draws again"))


@pytest.mark.parametrize("damage", ["train_caps.txt", "images/dev_0001.jpg", "side/test_vagueness.txt"])
@pytest.mark.parametrize("kept", [0, -1, None])
def test_an_incomplete_demo_is_made_again(demo, tmp_path, monkeypatch, damage, kept):
    monkeypatch.setattr(making, "_write", lambda draft, *_: (draft / "demo.json").write_text('{"made": 1}'))
    folder = shutil.copytree(demo, tmp_path / "demo", copy_function=os.link)
    (folder / damage).unlink()
    if kept is not None:
        (folder / damage).write_bytes((demo / damage).read_bytes()[:kept])
    make_demo(folder, seed=3, images=IMAGES)
    assert card(folder) == {"made": 1}
    assert [path.name for path in tmp_path.iterdir()] == ["demo"]  # neither draft nor old folder stays


def test_making_a_demo_reports_progress_and_an_interrupt_leaves_nothing(tmp_path):
    calls = []

    def stop(done, of):
        calls.append((done, of))
        if done == 4:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        make_demo(tmp_path / "demo", images=10, progress=stop)
    assert calls == [(done, 10) for done in range(1, 5)]
    for wrong in ({"images": 9}, {"seed": -1}):
        with pytest.raises(ValueError, match=str(*wrong.values())):
            make_demo(tmp_path / "demo", **wrong)
    assert list(tmp_path.iterdir()) == []


def test_other_files_and_the_draft_of_a_killed_process_are_left_alone(demo, tmp_path, monkeypatch):
    """After a kill just before the last file, the draft beside the folder lacks only demo.json."""

    def killed(draft, seed, images):
        shutil.copytree(draft, tmp_path / "draft")
        raise KeyboardInterrupt

    monkeypatch.setattr(making, "_write_card", killed)
    with pytest.raises(KeyboardInterrupt):
        make_demo(tmp_path / "demo", images=10)
    monkeypatch.undo()
    assert not (tmp_path / "demo").exists()
    shutil.copytree(demo, tmp_path / "mixed")
    (tmp_path / "f30k_precomp").mkdir()
    for file in ("draft/train_caps.txt", "f30k_precomp/train_caps.txt", "mixed/notes.txt"):
        (tmp_path / file).write_text("mine")
        assert_refused(r"contains .*(demo|notes)\.", make_demo, (tmp_path / file).parent, seed=9, images=10)
        assert (tmp_path / file).read_text() == "mine"


@pytest.mark.parametrize("shape", SHAPES)
def test_shapes_are_signed_distances_of_about_the_radius(shape):
    x, y = np.meshgrid(*2 * [np.arange(-70, 71, dtype=np.float32)])
    distance = signed_distance(shape, x, y, 50.0)
    assert (distance.shape, distance.dtype) == ((141, 141), np.float32)
    assert (distance[[0, 0, -1, -1], [0, -1, 0, -1]] > 20).all()
    inside = np.argwhere(distance < 0) - 70
    assert 0.25 < len(inside) / (math.pi * 50**2) < 0.95
    assert 0.75 * 50 < np.abs(inside).max() <= 1.06 * 50
    assert np.abs(np.diff(distance, axis=0)).max() < 1.05  # at most the distance between pixels


def test_features_follow_the_pixels():
    """A red square on grey appears in the red bin of exactly those windows that overlap it."""
    picture = np.full((SIDE, SIDE, 3), 128, np.uint8)
    assert (region_features(cell_features(picture)[None])[..., 3 + 16 : 3 + 32] == 0).all()  # no things
    picture[16:64, 16:64] = (255, 0, 0)
    regions = region_features(cell_features(picture)[None])[0]
    assert regions.shape == (REGIONS, WIDTH)
    red = regions[:, 3]
    left = regions[:, -4] * CELLS
    top = regions[:, -3] * CELLS
    assert ((red > 0) == ((left < 4) & (top < 4))).all()
    np.testing.assert_allclose(red[0], math.sqrt(48 * 48 / 96**2), rtol=1e-5)  # share of 6 × 6 cells


SCENES = [sample_scene(0, index) for index in range(150)]
CAPTIONS = [write_captions(scene) for scene in SCENES]
WRITTEN = [(scene, caption.text) for scene in SCENES for caption in write_captions(scene)]
SHAPE_WORDS = {shape: wording.LOOKS.get(shape, (shape,)) for shape in SHAPES}
COLOUR_WORDS = {colour: wording.LOOKS.get(colour, (colour,)) for colour in COLOURS}
AFTER = {key: (words,) for key, words in wording.TEXTURES_AFTER.items()}


def test_scenes_have_two_to_five_separate_things_and_relations_by_hand():
    for scene in SCENES:
        assert 2 <= len(scene.things) <= 5
        for i, one in enumerate(scene.things):
            assert one.radius < min(one.x, one.y, SIDE - one.x, SIDE - one.y)
            for other in scene.things[:i]:
                assert math.dist((one.x, one.y), (other.x, other.y)) > one.radius + other.radius
    assert {scene.ground for scene in SCENES} == set(GROUNDS)
    assert {thing.shape for scene in SCENES for thing in scene.things} == set(SHAPES)

    def at(x, y):
        return Thing("star", "red", "plain", "small", x, y, 20.0, 0.0)

    for one, other, names in (
        (at(50, 100), at(150, 110), ["left"]),
        (at(150, 110), at(50, 100), ["right"]),
        (at(100, 40), at(110, 200), ["above"]),
        (at(110, 200), at(100, 40), ["below"]),
        (at(50, 50), at(150, 150), []),  # as far left of as above: neither relation holds
        (at(50, 50), at(102, 50), ["left", "near"]),
    ):
        assert relations(one, other) == names


def named(table, words):
    """Return the keys of the table whose words occur in the text."""
    return [key for key, entries in table.items() if re.search(rf"\b({'|'.join(entries)})\b", words)]


def fits(thing, words):
    """Return True if a description such as "a small star with stripes" fits a thing, word by word."""
    tables = [("shape", SHAPE_WORDS), ("colour", COLOUR_WORDS), ("size", wording.SIZES)]
    tables += [("texture", wording.TEXTURES), ("texture", AFTER)]
    return all(named(table, words)[:1] in ([], [getattr(thing, name)]) for name, table in tables)


def holds(name, a, b):
    """Return True if the relation holds, from the coordinates alone."""
    if name == "near":
        return math.dist((a.x, a.y), (b.x, b.y)) - a.radius - b.radius < 0.1 * SIDE
    across = b.x - a.x
    down = b.y - a.y
    return {"left": across, "right": -across, "above": down, "below": -down}[name] > 10


def check_relation(scene, text):
    """Return True if the caption states a relation, and assert that it holds; False if it states none."""
    for name, phrases in wording.RELATIONS.items():
        for phrase in sorted(phrases, key=len, reverse=True):
            if match := re.search(rf"^(?P<one>.*?) (?:is )?{phrase} (?P<other>an? .*)$", text):
                one = re.split(r", |there is ", match["one"])[-1]
                other = strip_ground(scene, match["other"].split(", and ")[0])
                pairs = [(a, b) for a, b in permutations(scene.things, 2) if fits(a, one) and fits(b, other)]
                assert any(holds(name, a, b) for a, b in pairs), (text, scene)
                return True
    return False


def strip_ground(scene, text):
    for phrase in sorted(wording.GROUNDS[scene.ground], key=len, reverse=True):
        text = text.removesuffix(phrase).removeprefix(phrase).strip(" ,")
    return text


def test_every_statement_of_a_caption_is_true_of_its_picture():
    assert sum(check_relation(scene, text) for scene, text in WRITTEN) > 120
    columns = {"left": 0, "right": 2}
    rows = {"top": 0, "bottom": 2}
    numbers = {word: number for number, word in wording.NUMBERS.items()}
    for scene, text in WRITTEN:
        for ground, phrases in wording.GROUNDS.items():
            found = re.search(rf"(^| )({'|'.join(phrases)})($|,| there)", text)
            assert ground == scene.ground or not found, text
        for where, phrases in wording.PLACES.items():
            if match := re.search(rf"^(.*?) ({'|'.join(phrases)}) ", text):
                row, column = where.split() if " " in where else ("middle", "middle")
                things = [thing for thing in scene.things if fits(thing, match[1])]
                cells = {(thing.y * 3 // SIDE, thing.x * 3 // SIDE) for thing in things}
                assert (rows.get(row, 1), columns.get(column, 1)) in cells, text
        for shape, words in SHAPE_WORDS.items():
            plurals = "|".join(map(wording._plural, words))
            if counted := re.search(rf"({'|'.join(numbers)}) ({plurals})\b", text):
                assert sum(thing.shape == shape for thing in scene.things) == numbers[counted[1]]
    plurals = {shape: [*words, *map(wording._plural, words)] for shape, words in SHAPE_WORDS.items()}
    for scene, caption in WRITTEN:
        text = strip_ground(scene, caption)
        for kind, table in (("shape", plurals), ("colour", COLOUR_WORDS)):
            assert {*named(table, text)} <= {getattr(thing, kind) for thing in scene.things}, (text, scene)


def test_exact_captions_are_unique_vague_ones_name_nothing_and_position_is_no_clue():
    tables = (wording.LOOKS, wording.TEXTURES, wording.SIZES)
    names = {word for table in tables for words in table.values() for word in words}
    names |= {*SHAPES, *COLOURS, *wording.NUMBERS.values()}
    assert not names & set(" ".join([*wording.VAGUE_CAPTIONS, *wording.EMPTY_CAPTIONS]).split())
    exact = [caption.text for captions in CAPTIONS for caption in captions if caption.vagueness == EXACT]
    assert len(set(exact)) >= 0.98 * len(exact)
    assert all(len({caption.text for caption in captions}) == 5 for captions in CAPTIONS)
    grades = np.array([[caption.vagueness for caption in captions] for captions in CAPTIONS])
    np.testing.assert_allclose(grades.mean(0), grades.mean(), atol=0.08)
