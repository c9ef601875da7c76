"""`list_runs`, `open_run`, `compare` on run folders written by the same code as real ones."""

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from coder_core.api import InputError, RunSummary, listing, open_run
from coder_core.api.retrieval import comparison
from coder_core.api.saved_views import remove_view, save_view, saved_views
from coder_core.runs.record import read_status
from tests.support.run_folders import damage, import_run_folder, write_embeddings, write_run

EVIL = "![x](&#47;&#47;evil.example)"


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    root = tmp_path_factory.mktemp("lab") / "runs"
    write_run(root, "a-baseline", loss="btr-hardest", noise=3.0, images=12)
    write_run(root, "b", noise=1.5, images=12)
    named = write_run(root, "named", images=3, pictures=False) / "analysis"
    (named / "dev").rename(named / EVIL)
    damage(write_run(root, "torn", images=6, pictures=False))
    for folder in (".training", "not a run"):
        (root / folder).mkdir()
    return root


def test_runs_are_listed_by_name_and_damage_affects_only_its_run(root, monkeypatch):
    """An invalid split name, a flipped bit, and an unexpected exception."""
    faults = {"a-baseline": "a-baseline: cannot be read (MemoryError: no room)", "b": ""}
    faults |= {"named": f"'{EVIL}' of named:", "torn": "config.toml"}

    def read(folder):
        if folder.name == "a-baseline":
            raise MemoryError("no room")
        return read_status(folder)

    monkeypatch.setattr(listing, "read_status", read)
    runs = listing.list_runs(root)
    assert [run.name for run in runs] == list(faults)
    for run, fault in zip(runs, faults.values(), strict=True):
        assert fault in run.fault
        assert run.usable == (run.name == "b") == (run.fault == "")
    assert runs[1].state == "finished"
    assert runs[1].metrics["dev"]["rsum"] > 0
    assert listing.list_runs(root / "nowhere") == []


def test_a_link_out_of_the_root_is_reported_and_not_followed(tmp_path):
    write_run(tmp_path / "elsewhere", "x", images=6, pictures=False)
    write_run(tmp_path / "runs", "b", images=6, pictures=False)
    (tmp_path / "runs" / "a").symlink_to("b")
    (tmp_path / "runs" / "gone").symlink_to(tmp_path / "nowhere")
    (tmp_path / "runs" / "x").symlink_to(tmp_path / "elsewhere" / "x")
    a, b, x = listing.list_runs(tmp_path / "runs")
    assert (a.fault, b.fault) == ("", "")
    assert (x.name, x.state, x.usable, x.config, x.splits) == ("x", "left out", False, {}, ())
    assert f"runs/x: is a link to {tmp_path / 'elsewhere' / 'x'}," in x.fault
    assert x.fault.endswith(f"CODER_CHECKPOINTS={tmp_path / 'elsewhere'}")


def test_search_matches_the_full_score_matrix(run, tmp_path):
    v, w = run.embeddings("dev")
    owner = run.image_of_text("dev")
    scores = w @ v.T
    for number in (0, 7, 149):
        results = run.search(number, split="dev", modality="text", top=5)
        np.testing.assert_array_equal(results["candidate"], np.argsort(-scores[number])[:5])
        assert results["match"].tolist() == (results["candidate"] == owner[number]).tolist()
    results = run.search(3, split="dev", modality="image", top=150)
    assert results["match"].sum() == 5
    np.testing.assert_array_equal(results["candidate"], np.argsort(-scores[:, 3]))
    with pytest.raises(InputError, match="0 to 149"):
        run.search(np.int64(150), split="dev")
    folder = write_run(tmp_path, "collapsed", images=1, pictures=False)
    write_embeddings(folder, np.ones((4, 1)), np.ones((4, 1)), np.arange(4))
    for number in range(4):  # equal scores rank above the match
        assert open_run(folder).search(number, split="dev")["match"].tolist() == [False] * 3 + [True]


def test_ranks_results_and_matches_of_a_run_are_those_of_its_scores(run):
    v, w = run.embeddings("dev")
    owner = run.image_of_text("dev")
    match = np.arange(len(v))[:, None] == owner[None, :]
    for direction, scores, own in (("i2t", v @ w.T, match), ("t2i", w @ v.T, match.T)):
        best = run.best("dev", direction)
        np.testing.assert_array_equal(best, np.argsort(-scores, 1)[:, : best.shape[1]])
        queries = np.arange(len(scores))[:, None]
        expected = np.take_along_axis(own, best.astype(int), 1)
        np.testing.assert_array_equal(run.matches("dev", direction, queries, best), expected)
        ahead = ~own & (scores >= np.where(own, scores, -2).max(1)[:, None])
        np.testing.assert_array_equal(run.ranks("dev")[direction], ahead.sum(1))
    assert [run.count("dev", side) for side in ("image", "text")] == [len(v), len(w)]
    assert run.captions_of("dev", 3).tolist() == np.flatnonzero(owner == 3).tolist()
    assert run.first_captions("dev").tolist() == [owner.tolist().index(image) for image in range(len(v))]
    np.testing.assert_allclose(
        run.similarity([3, 5], [0, 9], split="dev"), (v @ w.T)[np.ix_([3, 5], [0, 9])], atol=1e-6
    )


def test_outcomes_by_hand_and_only_differing_settings_are_listed(root):
    """The last image has no captions, so it is not a query."""
    before = {"i2t": np.array([0, 1, 5, 0, -1]), "t2i": np.array([0])}
    changes = comparison.rank_changes(before, {"i2t": np.array([0, 0, 9, 3, -1]), "t2i": np.array([2])})
    assert changes["query"].tolist() == [0, 1, 2, 3, 0]
    assert changes["outcome"].tolist() == ["both right", "fixed", "both wrong", "broken", "broken"]
    assert changes["change"].tolist() == [0, 1, -4, -3, -2]
    assert comparison.outcomes(np.array([4]), np.array([5]), at=5).tolist() == ["broken"]
    table = comparison.config_differences({run.name: run.config for run in listing.list_runs(root)[:2]})
    assert table.index.tolist() == ["objective.loss"]
    assert table.loc["objective.loss"].tolist() == ["btr-hardest", "dcl"]
    # Older runs lack newer settings; a boosting weight without boosting is not a difference
    plain = {"objective": {"loss": "dcl"}, "boosting": {"boosting_weight": 0.2}}
    today = {"objective": {"loss": "dcl", "margin": 0.2}, "data": {"reviews": ""}, "name": "b"}
    assert differing(plain, today).empty
    bankless = {**today, "memory": {"bank_size": 0, "momentum": 0.97}, "model": {"beta": 0.5}}
    assert differing(bankless, today).empty
    table = differing({**bankless, "memory": {"bank_size": 8}}, bankless)
    assert table.index.tolist() == ["memory.bank_size", "memory.momentum"]
    table = differing({**plain, "boosting": {"boosting": "rm", "boosting_weight": 0.2}}, today)
    assert table.loc["boosting.boosting"].tolist() == ["rm", "none"]
    assert table.loc["boosting.boosting_weight"].tolist() == ["0.2", "1"]
    newer = {"objective": {"of_tomorrow": 3, "margin": "wide"}}
    table = differing(newer, today)
    assert table.loc["objective.of_tomorrow"].tolist() == ["3", "—"]
    assert table.loc["objective.margin"].tolist() == ["—", "0.2"]


def differing(*documents):
    """Tabulate the differences of two configurations as they are stored."""
    return comparison.config_differences(
        {name: listing.complete(one)[0] for name, one in zip("ab", documents, strict=True)}
    )


def test_a_changed_file_of_an_analysis_changes_the_key_of_caches(tmp_path):
    """The manifest of the analysis stays the same; replacing an array leaves its name and its size."""
    folder = write_run(tmp_path, "b", images=6, pictures=False)
    before = listing.summarise(folder).stamp
    assert listing.summarise(folder).stamp == before
    array = folder / "analysis" / "dev" / "text_ranks.npy"
    array.write_bytes(array.read_bytes())
    assert listing.summarise(folder).stamp != before


def test_a_folder_holds_at_most_200_views(tmp_path):
    address = "overview?run=a"
    views = {f"view {number}": address for number in range(199)}
    (tmp_path / ".views.json").write_text(json.dumps(views))
    save_view(tmp_path, "the last", address)
    assert len(saved_views(tmp_path)) == 200
    with pytest.raises(InputError, match="already has 200 views"):
        save_view(tmp_path, "one more", address)
    remove_view(tmp_path, "view 0")
    save_view(tmp_path, "n" * 80, address + "a" * (4000 - len(address)))
    too_long = {
        "n" * 81: address,
        "long": address + "a" * (4001 - len(address)),
        " ": address,
        "a\n": address,
    }
    remove_view(tmp_path, "view 1")
    for name, place in too_long.items():
        with pytest.raises(InputError, match="the view"):
            save_view(tmp_path, name, place)
    (tmp_path / ".views.json").write_text(json.dumps(views | {"199": address, "200": address}))
    with pytest.raises(InputError, match="other than views"):
        saved_views(tmp_path)


def test_the_api_does_not_import_torch(root, both):
    """Everything except free-text queries works without torch, so that pages open fast."""
    program = f"""
import sys; from coder_core.api import *
a, b, run = map(open_run, {[str(root / "a-baseline"), str(root / "b"), str(both.path)]})
b.diversity('dev'); b.anchor(3, split='dev'); compare(a, b, 'dev'); b.search(3, split='dev')
assert b.picture('dev', 0)
assert b.history.epoch.max() == 3
run.search(3, split='dev'); run.concepts('dev').readers(1, 'text')
assert 'torch' not in sys.modules
"""
    subprocess.run([sys.executable, "-c", program], check=True)


def test_the_origin_of_a_runs_numbers_follows_from_its_folder():
    clip = {"image_tower": "clip"}
    tuned = {"text_tower": "clip", "text_tuning": "full"}
    for state, documents, towers, origin in (
        ("finished", "", {}, "features"),
        ("running", "", {"image_tower": "", "text_tower": ""}, "features"),
        ("finished", "regions", {}, "tower features"),
        ("finished", "tuned", clip | {"image_tuning": "frozen"}, "frozen towers"),
        ("finished", "tuned", clip | {"image_tuning": "lora"}, "tuned towers"),
        ("running", "", tuned, "tuned towers"),
        ("finished", "regions", tuned, "tuned towers"),
        ("imported", "imported towers", {}, "zero-shot"),
        ("imported", "imported", {}, "imported"),
    ):
        values = {"documents": frozenset(documents.split()), "config": {"towers": towers}}
        run = RunSummary("run", Path("run"), state, **values)
        assert listing.numbers_from(run) == listing.facts(run)["from"] == origin
        assert origin in listing.ORIGINS
        assert listing.numbers_from(replace(run, fault="damaged")) == ""


def test_texts_and_embeddings_search_the_images(run, tmp_path):
    """A saved query has the embedding of an image; a text needs a model, which imported embeddings do not have."""
    v, w = run.embeddings("dev")
    scores = v @ w.T
    text = run.search(w[7], split="dev", top=40)
    assert text["candidate"].tolist() == np.argsort(-scores[:, 7], kind="stable").tolist()
    assert text["place"].tolist() == list(range(1, 31))
    assert not text["match"].any()
    image = run.search(v[3], split="dev", modality="image", top=4)
    assert image["candidate"].tolist() == np.argsort(-scores[3], kind="stable")[:4].tolist()
    np.testing.assert_allclose(image["score"], np.sort(scores[3])[::-1][:4], atol=1e-6)
    imported = open_run(import_run_folder(tmp_path, "other", images=6, queries=["a unicorn", "a horse"]))
    assert imported.saved_queries("dev") == ["a unicorn", "a horse"]
    images, _ = imported.embeddings("dev")
    found = imported.search("a horse", split="dev", top=3)
    assert found["candidate"].tolist() == np.argsort(-(images @ images[1]), kind="stable")[:3].tolist()
    assert found["candidate"][0] == 1
    with pytest.raises(InputError, match="has imported embeddings and no model"):
        imported.search("x" * 500, split="dev")
    with pytest.raises(InputError, match="has 501 characters; expected at most 500"):
        imported.search("x" * 501, split="dev")
