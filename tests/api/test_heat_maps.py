"""Heat maps: formulas against plain loops, every kind of run that has them, new texts and pictures with towers."""

import math
import shutil

import numpy as np
import pytest
import torch
from PIL import Image

from coder_core.api import heat_maps, open_run
from coder_core.api.heat_maps import cosines, heat_map, heat_map_ways
from coder_core.api.masked_maps import mask_map, masked_picture, on_cells
from coder_core.api.retrieval.judged import probe_run
from coder_core.data.judgements import Probe
from coder_core.data.pictures import read_picture
from coder_core.demo.features import CELLS, cell_features, region_boxes, region_features
from coder_core.evaluation.masking import draw_masks
from coder_core.model.scoring import InteractionScorer
from coder_core.model.towers.checkpoints import ModelChoice
from coder_core.model.towers.dual_encoder import DualEncoder
from coder_core.model.towers.halves import TowerChoice, load_halves
from coder_core.model.towers.regions import boxes, encode_patches
from coder_core.training.launch import start_run
from tests.support.pages import open_page
from tests.support.picture_folders import CAPTIONS, NAMES, SPLITS, draw
from tests.support.precomp_folders import assert_refused
from tests.support.run_folders import import_run_folder, write_run
from tests.support.tiny_runs import quiet
from tests.support.tiny_towers import tower_config, write_tiny_siglip
from tests.support.trained_runs import write_heat_runs

DEV = [name for name in NAMES if SPLITS[name] == "dev"]
CAPTION = CAPTIONS[DEV[0]][0]


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    return write_heat_runs(tmp_path_factory.mktemp("heat"))


def test_cosines_scorer_attention_and_overlapping_regions_by_hand():
    """One of the regions is missing in the data."""
    torch.manual_seed(0)
    v, w = (torch.nn.functional.normalize(torch.randn(1, count, 6), dim=-1) for count in (4, 5))
    regions = np.insert(v[0].numpy(), 3, 0, axis=0)
    words = w[0].numpy()
    s = cosines(3 * words, regions)
    attention = heat_maps.interaction_attention(3 * words, 2 * regions, 9.0)
    np.testing.assert_allclose(np.delete(s, 3, 1), words @ v[0].numpy().T, atol=1e-6)
    assert np.isnan([s[:, 3], attention[:, 3]]).all()
    scorer = InteractionScorer(6, size=3, sharpness=9.0)
    read = torch.from_numpy(np.delete(attention, 3, 1)) @ v[0]
    aligned = torch.nn.functional.normalize(scorer.align((read - w[0]).square()), dim=-1)
    expected = scorer(v, w, torch.tensor([4]), torch.tensor([5]))
    torch.testing.assert_close(torch.tanh(scorer.score(aligned.mean(0))), expected[0], atol=1e-5, rtol=0)
    places = np.array([[0, 0, 0.5, 0.5], [0.25, 0, 1, 0.5], [0, 0.75, 1, 1], [0, 0, 1, 1]], np.float32)
    laid = heat_maps.lay_over(np.array([1.0, 3.0, 7.0, np.nan]), places)
    np.testing.assert_allclose(laid.x, [0, 0.25, 0.5, 1])
    np.testing.assert_allclose(laid.y, [0, 0.5, 0.75, 1])
    np.testing.assert_allclose(laid.values, [[1, 2, 3], [np.nan] * 3, [7, 7, 7]])
    pixels = np.random.default_rng(0).integers(0, 255, (2 * CELLS, 2 * CELLS, 3), dtype=np.uint8)
    of_demo = region_features(cell_features(pixels)[None])[0, :, -4:]  # they end with the boxes
    np.testing.assert_allclose(region_boxes(), of_demo)


@pytest.mark.parametrize("name", ["plain", "words"])
def test_heat_map_of_a_trained_run_compares_words_with_regions(base, name):
    run = open_run(base / "runs" / name)
    images, boxes = (np.load(base / "features" / f"dev_{part}.npy")[0] for part in ("ims", "boxes"))
    ways = [way for way in heat_map_ways(run, "dev") if way != "masking"]
    maps = {way: heat_map(run, "dev", CAPTION, 0, way) for way in ways}
    assert list(maps) == (["attention", "cosine"] if name == "words" else ["cosine"])
    for heat in maps.values():
        assert heat.words == CAPTION.replace(",", "").split()
        assert heat.values.shape == (len(heat.words), 4)
        np.testing.assert_allclose(heat.boxes, boxes)
    words = run.model.word_features(CAPTION)[1]
    regions = run.model.region_features(images)
    np.testing.assert_allclose(maps["cosine"].values, cosines(words, regions), atol=1e-5)
    if name == "words":
        np.testing.assert_allclose(maps["attention"].values.sum(1), 1, atol=1e-5)
    new = heat_map(run, "dev", CAPTION, read_picture(draw(6), "new"), "cosine")  # the first picture of dev
    np.testing.assert_allclose(new.values, maps["cosine"].values, atol=1e-5)
    np.testing.assert_allclose(new.boxes, boxes)


def test_heat_maps_without_data_boxes_or_model_explain_why(base, tmp_path):
    shutil.copytree(base / "runs", tmp_path / "runs")

    def heat_of(name):
        return heat_map(open_run(tmp_path / "runs" / name), "dev", CAPTION, 0, "cosine")

    full = {name: heat_of(name) for name in ("plain", "words")}
    away = (base / "features").rename(base / "features-away")
    try:
        plain = heat_of("plain")  # by its tower
        np.testing.assert_allclose(plain.boxes, full["plain"].boxes)
        np.testing.assert_allclose(plain.values, full["plain"].values, atol=1e-5)
        no_picture = open_run(tmp_path / "runs" / "words")
        no_picture.analysis("dev").manifest["documents"].remove("regions")
        words = heat_map(no_picture, "dev", CAPTION, 0, "cosine")  # from the parts in its analysis
        np.testing.assert_allclose(words.values, full["words"].values, atol=1e-3)
        assert (words.boxes, words.unknown) == (None, heat_maps.PARTS_ONLY)
    finally:
        away.rename(base / "features")
    file = base / "features" / "dev_boxes.npy"
    narrow = np.zeros((3, 4, 3), np.float32)
    large = np.full((3, 4, 4), 9, np.float32)
    facts = {"(3, 4, 3)": narrow, "not shares": large, file.name: np.zeros(3, int), heat_maps.NO_FILE: None}
    for fact, content in facts.items():
        intact = file.rename(tmp_path / "intact.npy")
        if content is not None:
            np.save(file, content)
        heat = heat_of("plain")
        intact.replace(file)
        assert heat.boxes is None
        assert fact in heat.unknown
        np.testing.assert_allclose(heat.values, full["plain"].values)
    run = open_run(import_run_folder(tmp_path / "runs", "other", images=4))
    assert heat_map_ways(run, "dev") == ()
    assert_refused("imported embeddings", heat_map, run, "dev", "a dog", 0, "cosine")
    assert_refused("'tower'", heat_map, open_run(base / "runs" / "plain"), "dev", "a dog", 0, "tower")


def test_heat_maps_of_pretrained_towers_use_patches_of_the_last_layer(base):
    run = open_run(base / "runs" / "clip")
    picture = read_picture(draw(6), "6.jpg")
    assert heat_map_ways(run, "dev") == ("cosine", "masking", "tower")
    heat, same = (heat_map(run, "dev", CAPTION, image, "cosine") for image in (picture, 0))
    assert heat.words == CAPTION.replace(",", "").split()
    embedded = np.stack([run.towers.encode_texts([word])[0][0] for word in heat.words])
    expected = cosines(embedded, encode_patches(run.towers, picture).features)
    for values in (heat.values, same.values):
        np.testing.assert_allclose(values, expected, atol=1e-5)
    square = boxes((1 / 6, 0, 5 / 6, 1), 4, 4)  # the middle of 60 × 40
    np.testing.assert_allclose(heat.boxes, square, atol=1e-6)
    assert heat_map(run, "dev", CAPTION, picture, "tower").values.shape == (1, 16)
    towers = DualEncoder(str(base / "clip"))
    picture = read_picture(draw(6), "6.jpg")
    patches = encode_patches(towers, picture)
    vision = towers.model.vision_model
    pixels = torch.from_numpy(towers.prepare(picture)["pixel_values"][None])
    with torch.inference_mode():
        hidden = vision(pixel_values=pixels, output_hidden_states=True).hidden_states[-2]
        layer = vision.encoder.layers[-1]
        for k in (0, 7, 15):
            row = hidden[0, 1 + k]
            row = row + layer.self_attn.out_proj(layer.self_attn.v_proj(layer.layer_norm1(row)))
            row = row + layer.mlp(layer.layer_norm2(row))
            expected = towers.model.visual_projection(vision.post_layernorm(row))
            np.testing.assert_allclose(patches.features[k], expected, atol=1e-5)
        normed = layer.layer_norm1(hidden[0])
        total = np.zeros(16)
        queries = layer.self_attn.q_proj(normed)
        keys = layer.self_attn.k_proj(normed)
        for part in torch.arange(queries.shape[1]).split(layer.self_attn.head_dim):
            scores = keys[:, part] @ queries[0, part] / math.sqrt(len(part))
            total += torch.softmax(scores, 0)[1:].numpy() / 2
    np.testing.assert_allclose(patches.attention, total, atol=1e-6)
    again = vision(pixel_values=pixels, output_attentions=True)
    assert vision.config._attn_implementation == "sdpa"  # as it was
    assert not again.attentions or again.attentions[-1] is None


def test_siglip_patch_features_are_its_head_applied_to_each_patch(tmp_path):
    towers = DualEncoder(str(write_tiny_siglip(tmp_path, ["a"])))
    picture = read_picture(draw(2), "2.jpg")
    patches = encode_patches(towers, picture)
    vision = towers.model.vision_model
    prepared = towers.prepare(picture)
    with torch.inference_mode():
        tokens = vision(pixel_values=torch.from_numpy(prepared["pixel_values"][None])).last_hidden_state
        for k in (0, 15):
            np.testing.assert_allclose(patches.features[k], vision.head(tokens[:, k : k + 1])[0], atol=1e-5)
        pooled = vision.head(tokens)[0]
    choice = TowerChoice(ModelChoice(str(tmp_path), source="--image-tower"), pooled=True, projected=True)
    half, _ = load_halves(choice, None)
    with torch.inference_mode():
        of_half = half.module.patches(torch.from_numpy(half.prepare(picture)[None])).features
    np.testing.assert_allclose(of_half, patches.features, atol=1e-5)
    assert patches.attention.shape == (16,)
    assert patches.attention.sum() == pytest.approx(1, abs=1e-5)
    np.testing.assert_allclose(towers.encode_pictures([prepared])[0], pooled / pooled.norm(), atol=1e-5)


@pytest.fixture(scope="module")
def runs(base):
    """ "tuned": both CLIP towers with their own pooling; "same": frozen ones, with an adapter that is not trained;
    "pooled": mean pooling of its frozen patches and of a BiGRU."""
    start_run(tower_config(base, "tuned", epochs=1), base / "runs", quiet())
    still = {"text_tuning": "lora", "image_tuning": "frozen", "learning_rate": 1e-12}
    start_run(tower_config(base, "same", epochs=1, **still), base / "runs", quiet())
    towers = {"text_tower": "", "text_tuning": "frozen", "image_tuning": "frozen", "projection": "linear"}
    poolings = {"image_pooling": "mean", "text_pooling": "mean"}
    sizes = {"dimension": 8, "word_size": 6, "word_threshold": 1}
    pooled = tower_config(base, "pooled", epochs=1, **towers, **poolings, **sizes)
    start_run(pooled, base / "runs", quiet())
    return base / "runs"


def test_probes_score_pictures_outside_the_split(runs, tmp_path):
    run = open_run(runs / "tuned")
    train = [name for name in NAMES if SPLITS[name] == "train"][:2]
    pictures = {name: draw(NAMES.index(name)) for name in (*train, DEV[0])}
    for name in train:
        (tmp_path / name).write_bytes(pictures[name])
    probes = [Probe("swap", name, CAPTIONS[name][0], CAPTIONS[DEV[1]][0]) for name in pictures]
    table = probe_run(run, "dev", probes, pictures=str(tmp_path))
    assert table["picture"].tolist() == list(pictures)
    rows = [run.encode_picture(read_picture(*part[::-1]), split="dev") for part in pictures.items()]
    for column, part in (("score", "caption"), ("negative", "negative")):
        texts = run.encode_text([getattr(probe, part) for probe in probes])
        np.testing.assert_allclose(table[column], np.einsum("nd,nd->n", rows, texts), atol=1e-5)
    assert_refused("none of the 2", probe_run, run, "dev", probes[:2], pictures=str(tmp_path / "empty"))
    names = ["a/1.jpg", "b/1.jpg", "2.jpg"]
    run = open_run(write_run(tmp_path, "one-name", images=3, pictures=False, picture_names=names))
    assert_refused("2 images", probe_run, run, "dev", [Probe("swap", "1.jpg", "a dog", "a cat")])


def test_heat_maps_of_a_tower_pooled_by_the_run_use_its_patches(runs):
    run = open_run(runs / "pooled")
    caption = CAPTIONS[DEV[1]][1]
    assert heat_map_ways(run, "dev") == ("cosine", "masking")
    picture = read_picture(draw(NAMES.index(DEV[1])), "new.jpg")
    heat, new = (heat_map(run, "dev", caption, image, "cosine") for image in (1, picture))
    words = run.model.word_features(caption)[1]
    patches = run.model.patches(picture).features
    np.testing.assert_allclose(heat.values, cosines(words, patches), atol=1e-5)
    np.testing.assert_allclose(new.values, heat.values, atol=1e-5)
    pooled = patches.mean(0) / np.linalg.norm(patches.mean(0))
    np.testing.assert_allclose(pooled, run.scoring("dev")[0][1], atol=1e-5)
    np.testing.assert_allclose(heat.boxes, boxes((1 / 6, 0, 5 / 6, 1), 4, 4), atol=1e-6)


def test_heat_maps_of_a_tuned_clip_are_those_of_its_towers_with_tuned_weights(base, runs):
    """The tuned towers are frozen in the run "same", so its maps are those of the zero-shot run without a prompt."""
    run = open_run(runs / "same")
    assert heat_map_ways(run, "dev") == ("cosine", "masking", "tower")
    picture = read_picture(draw(6), "6.jpg")
    towers = DualEncoder(str(base / "clip"))
    patches = encode_patches(towers, picture)
    heat, new = (heat_map(run, "dev", CAPTION, image, "cosine") for image in (0, picture))
    words = towers.encode_texts(heat.words)[0]
    assert heat.words == CAPTION.replace(",", "").split()
    np.testing.assert_allclose(heat.values, cosines(words, patches.features), atol=1e-5)
    np.testing.assert_allclose(new.values, heat.values, atol=1e-5)
    np.testing.assert_allclose(heat.boxes, patches.boxes)
    np.testing.assert_allclose(
        heat_map(run, "dev", CAPTION, 0, "tower").values[0], patches.attention, atol=1e-6
    )
    tuned = open_run(runs / "tuned")
    changed = heat_map(tuned, "dev", CAPTION, 0, "cosine")
    assert changed.words == heat.words
    assert np.abs(changed.values - heat.values).max() > 1e-3
    patches = tuned.model.patches(picture).features
    np.testing.assert_allclose(changed.values, cosines(tuned.encode_text(heat.words), patches), atol=1e-5)


@pytest.mark.parametrize("name", ["clip", "tuned", "pooled", "plain"])
def test_maps_by_masking_are_interactions_of_words_and_cells(base, runs, name):
    run = open_run(runs / name)
    caption = "a ring"
    assert "masking" in heat_map_ways(run, "dev")
    found = mask_map(run, "dev", caption, 0)
    assert found.heat.words == ["a", "ring"]
    assert found.heat.values.shape == (2, 49)
    assert found.encoded < 200
    picture = run.open_picture("dev", 0)
    masks = draw_masks(49)
    rows = run.encode_pictures([masked_picture(picture, mask) for mask in masks], split="dev").astype(float)
    texts = run.encode_text(["", "a", "ring", "a ring"]).astype(float)
    for word, (without, alone, other) in enumerate(((0, 1, 2), (0, 2, 1))):
        of_word = (texts[alone] - texts[without] + texts[3] - texts[other]) / 2
        for cell in (0, 24):
            of_cell = rows[masks[:, cell]].mean(0) - rows[~masks[:, cell]].mean(0)
            assert found.heat.values[word, cell] == pytest.approx(of_word @ of_cell, abs=1e-5)
    assert set(found.areas) == {"masking", "cosine"}
    again = mask_map(open_run(runs / name), "dev", caption, 0)
    np.testing.assert_array_equal(again.heat.values, found.heat.values)
    assert (again.areas, again.better) == (found.areas, found.better)
    [folder] = (runs / name / "derived" / "dev").glob("masks-*")
    upload = mask_map(run, "dev", caption, picture)  # not stored
    np.testing.assert_allclose(upload.heat.values, found.heat.values, atol=1e-6)
    assert len(list(folder.parent.glob("masks-*"))) == 1


def test_values_on_cells_are_means_weighted_by_overlap():
    whole = np.array([[0, 0, 1, 1]], np.float32)
    np.testing.assert_allclose(on_cells(np.array([3.0]), whole), 3)
    halves = np.array([[0, 0, 0.5, 1], [0.5, 0, 1, 1]], np.float32)
    row = on_cells(np.array([1.0, 3.0]), halves)[:7]
    np.testing.assert_allclose(row, [1, 1, 1, 2, 3, 3, 3], atol=1e-6)
    covered = on_cells(np.array([1.0, np.nan]), halves)[:7]
    np.testing.assert_allclose(covered, [1, 1, 1, 1, *[np.nan] * 3])
    picture = Image.fromarray(np.arange(7 * 14 * 3, dtype=np.uint8).reshape(7, 14, 3))
    kept = np.ones(49, bool)
    kept[8] = False
    shown = np.asarray(masked_picture(picture, kept))
    pixels = np.asarray(picture)
    assert (shown[1, 2:4] == pixels.reshape(-1, 3).mean(0).round()).all()
    shown = shown.copy()
    shown[1, 2:4] = pixels[1, 2:4]
    np.testing.assert_array_equal(shown, pixels)


def test_the_page_shows_the_maps_of_tuned_towers_beside_those_of_zero_shot_ones(runs, monkeypatch):
    """The same picture, word and scale, with the faithfulness of both ways; each run has its better one unless chosen."""
    runs_shown = ["clip", "tuned"]
    query = {"run": runs_shown, "split": "dev", "outcome": "All", "query_text": "0", "heat": "true"}
    app = open_page(monkeypatch, runs, "retrieval", **query, heat_pair="True match")
    maps = [mask_map(open_run(runs / name), "dev", CAPTION, 0) for name in runs_shown]
    lines = [part for part in app.parts() if "Faithfulness: " in part]
    for line, found in zip(lines, maps, strict=True):
        assert all(f"{way} {area:+.3f}" in line for way, area in found.areas.items())
    app.change(heat_map="masking")
    figures = [figure for figure in app.figures() if figure["layout"].get("images")]
    assert len(figures) == len(runs_shown)
    pictures = [figure["layout"]["images"][0]["source"] for figure in figures]
    assert pictures[0] == pictures[1]
    [first, second] = ([(t["zmin"], t["zmax"]) for t in figure["data"] if "zmin" in t] for figure in figures)
    assert len(first) > 0
    assert first == second
    assert len(app.saying("depends most on cell")) == 2
