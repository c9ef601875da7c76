"""Causes of misses of a run: each is found where it was put; evidence is stored; reviews and seeds count."""

import os
from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse

from coder_core.api import causes, open_run
from coder_core.api.causes.evidence import PICTURE, compute_evidence
from coder_core.api.causes.fixes import AVERAGED, COMPLETE, HUBS, LEFT_OUT, NOW
from coder_core.api.causes.vague import other_images_with_words
from coder_core.api.reviews import ReviewedSplit
from coder_core.api.slices import caption_words as words_of_captions
from coder_core.api.slices.caption_words import CaptionWords
from coder_core.data.content.duplicates import EMPTY_WORDS, caption_words
from coder_core.data.embeddings import Embeddings
from coder_core.data.reviews import Reviews
from coder_core.data.words import tokenise
from coder_core.evaluation.recall import ensemble_metrics
from coder_core.evaluation.sampled import RankOptions
from coder_core.report import main as report
from coder_core.runs.analysis.import_embeddings import import_run
from coder_core.runs.analysis.import_lists import import_lists
from tests.support.evidence import review
from tests.support.precomp_folders import assert_refused
from tests.support.run_folders import synthetic, write_embeddings, write_run


def test_words_of_a_caption_are_counted_in_other_images():
    captions = ["a black dog", "a dog", "it barks", "the black cat", "a dog and a black hat"]
    words = CaptionWords.of_content(captions)
    right = sparse.csr_array((np.ones(5, bool), (np.arange(5), [0, 0, 1, 2, 3])))
    np.testing.assert_array_equal(other_images_with_words(words, right), [1, 1, 0, 0, 0])
    np.testing.assert_array_equal(other_images_with_words(words, right, np.array([1, 4])), [1, 0])


@pytest.mark.parametrize("seed", range(4))
def test_words_are_found_in_images_as_a_loop_finds_them(seed):
    """Captions that match no image, several images, or have no word; images that no caption matches."""
    random = np.random.default_rng(seed)
    words = [f"w{number}" for number in range(6)] + ["the"]
    captions = [" ".join(random.choice(words, random.integers(0, 5))) for _ in range(30)]
    right = random.random((30, 8)) < 0.15
    expected = []
    for row, caption in enumerate(captions):
        wanted = set(caption_words(caption)) - EMPTY_WORDS
        of_images = [set(" ".join(np.array(captions)[right[:, image]]).split()) for image in range(8)]
        captioned = right.any(0)
        others = [
            captioned[image] and not right[row, image] and wanted <= of_images[image] for image in range(8)
        ]
        expected.append(sum(others))
    found = other_images_with_words(CaptionWords.of_content(captions), sparse.csr_array(right))
    assert found.tolist() == expected


def test_many_captions_are_split_as_one_by_one(monkeypatch):
    monkeypatch.setattr(words_of_captions, "SPLIT_AT_ONCE", 4)
    captions = [
        "A DOG’s ball, on the grass.",
        "",
        "two\nlines  of—text",
        "Σίσυφος ΟΔΟΣ",
        "\u0301 mark first",
        "ﬁve ½ t-shirts",
    ]
    captions += ["İstanbul e\u0301te\u0301", "rock 'n' roll", "a", "ΟΔΟΣ"]
    captions += ["A man's T-shirt doesn't cost 3.50, can't", "don’t"]
    for of, split in ((CaptionWords.of_content, caption_words), (CaptionWords.of, tokenise)):
        words = of(captions)
        parts = np.split(words.ids, words.starts[1:-1])
        assert [[words.vocabulary[word] for word in ids] for ids in parts] == [split(c) for c in captions]
        assert len(of([]).starts) == 1


def test_each_cause_is_found_where_it_was_put(injected):
    run, truth = injected
    misses = causes.causes_of_run(run, "dev", causes.Question("t2i"))
    found = {row: int(misses.cause[row]) for row in truth if misses.missed[row]}
    assert set(found) >= set(range(6, 9))
    for cause in set(truth.values()):
        rows = [row for row in found if truth[row] == cause]
        assert len(rows) >= 3
        assert np.mean([found[row] == cause for row in rows]) >= 0.8, causes.CAUSES[cause]


def test_the_evidence_is_stored_and_read_again(injected, tmp_path):
    run, _ = injected
    computed = compute_evidence(run, "dev")
    for read in (causes.split_evidence(run, "dev"), causes.split_evidence(run, "dev")):
        np.testing.assert_array_equal(read.wrong, computed.wrong)
        for direction in ("i2t", "t2i"):
            for name in ("queries", "ranks", "corrected", "copies", "features", "match_scores"):
                np.testing.assert_array_equal(
                    getattr(read.way(direction), name), getattr(computed.way(direction), name)
                )
    folders = list((run.path / "derived" / "dev").glob("causes-*"))
    assert len(folders) == 1
    part = folders[0] / "t2i_ranks.npy"
    part.write_bytes(part.read_bytes()[:-1])
    np.testing.assert_array_equal(causes.split_evidence(run, "dev").t2i.ranks, computed.t2i.ranks)
    assert part.stat().st_size == (folders[0] / "t2i_corrected.npy").stat().st_size


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_run_that_cannot_be_written_has_causes_too(tmp_path):
    folder = write_run(tmp_path / "runs", "sealed", images=12, pictures=False)
    folder.chmod(0o555)
    misses = causes.causes_of_run(open_run(folder), "dev", causes.Question("t2i"))
    assert len(misses.cause) == 60


def test_averaged_ranks_are_those_of_the_ensemble(run, tmp_path):
    other = open_run(write_run(tmp_path / "runs", "other", noise=2.5, images=30, pictures=False))
    for direction in ("i2t", "t2i"):
        misses = causes.causes_of_run(run, "dev", causes.Question(direction))
        ranks = causes.averaged_with(run, other, "dev", misses, direction)
        sources = [*run.analysis("dev").sources, *other.analysis("dev").sources]
        metrics = ensemble_metrics(sources, run.image_of_text("dev"))
        for k in (1, 5, 10):
            assert 100 * (ranks < k).mean() == pytest.approx(metrics[f"{direction}_r{k}"])


def test_where_a_sample_is_ranked_fixes_that_compare_all_pairs_are_left_out(run, tmp_path):
    v, w, owner = synthetic(30, noise=2.0)
    names = {"images": v, "texts": w, "captions": [f"caption {row}" for row in range(len(w))]}
    embeddings = Embeddings(**names, image_of_text=owner)
    runs = []
    for name in ("one", "two"):
        import_run(embeddings, tmp_path, name, "dev", options=RankOptions(queries=20))
        runs.append(open_run(tmp_path / name))
    of_sample = causes.causes_of_run(runs[0], "dev", causes.Question("t2i"))
    left = causes.fixes_of_run(*runs, "dev", of_sample, "t2i")["fix"].tolist()
    assert left == [NOW, COMPLETE, LEFT_OUT]
    whole = causes.causes_of_run(run, "dev", causes.Question("t2i"))
    assert causes.fixes_of_run(run, None, "dev", whole, "t2i")["fix"].tolist() == [*left, HUBS]
    assert causes.fixes_of_run(run, run, "dev", whole, "t2i")["fix"].tolist() == [*left, HUBS, AVERAGED]
    out = tmp_path / "report.html"
    assert report([str(tmp_path / "one"), str(tmp_path / "two"), "--split", "dev", "--out", str(out)]) == 0
    of_misses = out.read_text().partition("Why queries miss</h2>")[2].partition("<h2>")[0]
    assert "Only a sample of the queries is ranked" in of_misses
    assert HUBS not in of_misses
    assert AVERAGED not in of_misses


def test_reviews_become_what_people_know(injected):
    run, _ = injected
    reviewed = ReviewedSplit.of(run, "dev")
    captions = run.captions("dev")
    reviews = Reviews(
        (
            review("7.png", captions[0], "also-matches"),
            review("8.png", captions[0], "label-right"),
            review("0.png", captions[1], "wrong-caption"),
        )
    )
    known = causes.Known.of(run, "dev", reviewed, reviews, [np.array([[3, 9]])])
    assert known.people.tolist() == [[0, 7]]
    assert known.refused.tolist() == [[0, 8]]
    assert known.others.tolist() == [[3, 9]]
    assert known.verdicts[1] == "wrong-caption"


def test_pixels_tell_copies_and_embeddings_do_where_a_picture_cannot_be_read(tmp_path):
    """Images 0 and 1, 2 and 3, 4 and 5 have equal embeddings. The first two show something else, the next two are one
    picture twice, and the picture of image 5 is gone."""
    folder = write_run(tmp_path / "runs", "pictures", images=12)
    pictures = tmp_path / "runs-pictures"
    (pictures / "3.png").write_bytes((pictures / "2.png").read_bytes())
    (pictures / "5.png").unlink()
    run = open_run(folder)
    v, w = (rows.copy() for rows in run.embeddings("dev"))
    v[1:6:2] = v[0:6:2]
    facts = {"picture_folder": pictures, "captions": run.captions("dev")}
    write_embeddings(folder, v, w, run.image_of_text("dev"), **facts)
    of_images = causes.split_evidence(open_run(folder), "dev").t2i
    found = {}
    for image in (0, 2, 4):
        rows = of_images.images == image
        found[image] = of_images.copies[rows][of_images.results[rows] == image + 1]
    assert [set(copies.tolist()) for copies in found.values()] == [{0}, {PICTURE}, {PICTURE}]


def test_lists_of_another_system_say_why_they_have_no_causes(run, tmp_path):
    ours = write_run(tmp_path / "runs", "ours", images=12, pictures=False)
    names = open_run(ours).image_names("dev")
    lines = [f"{names[image]}#0 Q0 {names[image]} 1 0.5 x\n" for image in range(12)]
    (tmp_path / "run.txt").write_text("".join(lines))
    import_lists(tmp_path / "run.txt", ours, tmp_path / "runs", "theirs", "dev")
    theirs = open_run(tmp_path / "runs" / "theirs")
    assert causes.why_no_causes(theirs, "dev").startswith(
        "Why theirs misses cannot be told: it has only the lists"
    )
    assert not causes.has_causes(theirs, "dev")
    assert_refused("only the lists of another system", causes.split_evidence, theirs, "dev")
    assert causes.why_no_causes(run, "dev") == ""


def test_a_close_call_is_what_two_seeds_differ_by_if_both_were_trained(tmp_path):
    names = {"one": 0, "two": 1, "other": 2}
    for name, seed in names.items():
        more = {"settings": {"margin": 0.4}} if name == "other" else {}
        write_run(tmp_path, name, seed=seed, noise=2.5, images=30, pictures=False, **more)
    one, two, other = (open_run(tmp_path / name) for name in names)
    summaries = [run.summary for run in (one, two, other)]
    assert causes.run_of_another_seed(one.summary, "dev", summaries) == two.summary
    assert causes.run_of_another_seed(one.summary, "test", summaries) is None
    assert causes.run_of_another_seed(other.summary, "dev", summaries) is None
    for summary in (replace(two.summary, state="imported"), replace(two.summary, config={})):
        assert not causes.differ_in_seed(one.summary, summary)
        assert not causes.differ_in_seed(summary, one.summary)
    noise = causes.noise_of_seeds(one, two, "dev", "t2i", 1)
    margins = [run.similarity(range(30), range(150), split="dev") for run in (one, two)]
    owner = one.image_of_text("dev")
    texts = np.arange(150)
    of_runs = [scores[owner, texts] - scores.max(0) for scores in margins]
    assert noise == pytest.approx(np.median(np.abs(of_runs[0] - of_runs[1])), abs=1e-5)
    usual = causes.causes_of_run(one, "dev", causes.Question("t2i"))
    measured = causes.causes_of_run(one, "dev", causes.Question("t2i", noise=noise))
    assert (usual.noise, measured.noise) == (pytest.approx(0.3 * np.std(of_runs[0]), rel=1e-4), noise)
    write_run(tmp_path, "few", seed=3, images=20, pictures=False)
    assert causes.noise_of_seeds(one, open_run(tmp_path / "few"), "dev", "t2i", 1) is None
