"""coder-lab evaluate --positives: judgements beyond the labels, from files and for COCO."""

import json
import warnings
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from coder_core.api import open_run
from coder_core.api.retrieval import judged_recall, judged_values, run_judgements
from coder_core.data import judgements as coco_module
from coder_core.data.dataset import read_split
from coder_core.data.embeddings import read_embeddings
from coder_core.data.judgements import COCO_JUDGEMENTS, coco_judgements
from coder_core.evaluate import main
from coder_core.evaluation.rank_metrics import extended_metrics
from coder_core.evaluation.ranking import rank
from coder_core.evaluation.relevance import judged_relevance
from coder_core.evaluation.scores import check_scores
from coder_core.evaluation.sources import EmbeddingPair
from coder_core.runs.analysis.evaluate import describe_samples
from coder_core.runs.analysis.import_embeddings import import_run
from coder_core.runs.analysis.read import open_analysis
from tests.support import karpathy
from tests.support.evaluated import printed, row_of, rows_of
from tests.support.picture_folders import write_lines
from tests.support.precomp_folders import assert_refused, features
from tests.support.run_folders import flip, unit, write_embeddings


def test_metrics_with_positives_beyond_the_labels(runs, tmp_path, capsys, complaint):
    file = tmp_path / "positives.tsv"
    file.write_text("image 0#1\timage 3\nimage 2#0\timage 1\nimage 999#0\timage 1\n")
    rows = rows_of(tmp_path, *runs, f"--positives={file}")
    text = printed(capsys)
    assert "2 positives beyond the labels, 1 line " in text
    analysis = open_analysis(runs[0], "dev")
    owner = np.asarray(analysis.image_of_text)
    second = np.flatnonzero(owner == 0)[1]
    first = np.flatnonzero(owner == 2)[0]
    pairs = np.concatenate([np.stack([np.arange(len(owner)), owner], 1), [[second, 3], [first, 1]]])
    scored = check_scores([EmbeddingPair(analysis.image_embeddings, analysis.text_embeddings)])
    relevance = judged_relevance(pairs, pairs, owner, analysis.n_images)
    row = rows[str(runs[0])]
    for name, value in extended_metrics(rank(scored, relevance), relevance).items():
        assert row[name] == pytest.approx(value)
        assert name in rows["ensemble"]

    assert all(f"{row[f'{way}_extended_mrr']:.1f}/" in text for way in ("i2t", "t2i"))
    assert row["rsum"] == analysis.metrics["rsum"]  # recall by the labels is unchanged
    run = open_run(runs[0])  # the app shows the same
    table = judged_recall(["one"], [judged_values(run, "dev", run_judgements(run, "dev", file))])
    for line in table.to_dict("records"):
        way = line["direction"]
        assert line["map_at_r"] == pytest.approx(row[f"{way}_map_at_r"])
        assert line["judged_5"] == pytest.approx(row[f"{way}_extended_r5"])
        assert line["labels_1"] == pytest.approx(analysis.metrics[f"{way}_r1"])

    assert "none.tsv" in complaint(main, [str(runs[0]), "--positives", str(tmp_path / "none.tsv")])


def test_diversity_is_correlated_with_expert_disagreement(runs, tmp_path, capsys):
    file = tmp_path / "ExpertAnnotations.txt"
    grades = [(1, 1, 1), (1, 2, 1), (1, 4, 1), (2, 3, 4)]
    fields = [(f"image {(i + 1) % 4}", f"image {i}#0", *map(str, grades[i])) for i in range(4)]
    file.write_text("".join("\t".join(line) + "\n" for line in fields))
    row = row_of(runs[0], tmp_path, f"--positives={file}")
    analysis = open_analysis(runs[0], "dev")
    owner = np.asarray(analysis.image_of_text)
    scores = analysis.image_embeddings.astype(np.float64) @ analysis.text_embeddings.T.astype(np.float64)
    captions = [int(np.flatnonzero(owner == image)[0]) for image in range(4)]
    spread = [np.std(np.delete(scores[:, caption], owner[caption])) for caption in captions]
    ranks = [np.argsort(np.argsort(values)) for values in (spread, np.std(grades, 1))]
    rho = np.corrcoef(*ranks)[0, 1]
    assert row["disagreement_rho"] == pytest.approx(rho)
    assert f"{rho:+.2f} over 4 captions" in printed(capsys)


@pytest.fixture
def coco(tmp_path):
    """Embeddings of 40 of COCO's test images with five captions each, and eccv-caption's positives of them: for "eccv"
    and "cxc", those of images ("i2t") and of captions ("t2i")."""
    package = Path(str(find_spec("eccv_caption").submodule_search_locations[0])) / "data"

    def read(name):
        content = json.loads((package / f"{name}.json").read_text())
        return {int(key): [int(value) for value in values] for key, values in content.items()}

    captions_of = read("original_image_to_caption")
    judged = read("eccv_caption_to_image")
    near = dict.fromkeys(image for of_caption in judged.values() for image in of_caption)
    images = list(dict.fromkeys([*list(read("eccv_image_to_caption"))[:20], *near]))[:40]
    captions = [caption for image in images for caption in sorted(captions_of[image])]
    rng = np.random.default_rng(3)
    for name, rows in (("I", 40), ("T", 200)):
        np.save(tmp_path / f"{name}.npy", unit(rng.standard_normal((rows, 8), np.float32)))
    write_lines(tmp_path / "C.txt", (f"caption {caption}" for caption in captions))
    write_lines(tmp_path / "ids.txt", (f"val2014/COCO_val2014_{image:012}.jpg" for image in images))
    files = [tmp_path / name for name in ("I.npy", "T.npy", "C.txt")]
    embedded = read_embeddings(*files, ids=tmp_path / "ids.txt")

    def answered(name, queries, candidates):
        positives = {query: set(answers) & set(candidates) for query, answers in read(name).items()}
        return {query: list(positives[query]) for query in queries if positives.get(query)}

    ways = {"i2t": ("image_to_caption", images, captions), "t2i": ("caption_to_image", captions, images)}
    truths = {"eccv": {}, "cxc": {}}
    for name, truth in truths.items():
        truth |= {way: answered(f"{name}_{file}", *sides) for way, (file, *sides) in ways.items()}
    return import_run(embedded, tmp_path / "runs", "clip", "testall")[0], truths


def test_metrics_by_coco_judgements_match_the_eccv_program(coco, tmp_path, capsys):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # ujson is missing
        from eccv_caption import _metrics as theirs
    run, truths = coco
    analysis = open_analysis(run, "testall")
    scores = analysis.image_embeddings @ analysis.text_embeddings.T
    captions = np.array([int(caption.split()[1]) for caption in analysis.captions])
    images = np.array([int(name[-16:-4]) for name in analysis.image_names])

    def ranked(queries, candidates, rows):
        return dict(zip(queries.tolist(), candidates[np.argsort(-rows, 1)].tolist(), strict=True))

    rankings = {"i2t": ranked(images, captions, scores), "t2i": ranked(captions, images, scores.T)}
    for name, truth in truths.items():
        metrics = row_of(run, tmp_path, f"--positives={name}", "--split=testall")
        assert COCO_JUDGEMENTS[name] in printed(capsys)
        for way, of_queries in truth.items():
            assert len(of_queries) >= 20
            expected = theirs.compute_eccv_metrics(rankings[way], of_queries)
            figures = {"map_at_r": expected["eccv_map_at_r"], "r_precision": expected["eccv_rprecision"]}
            for k in (1, 5, 10):
                figures[f"extended_r{k}"] = theirs.compute_r_at_k(rankings[way], of_queries, K=k)
            for figure, value in figures.items():
                assert metrics[f"{way}_{figure}"] == pytest.approx(100 * value)


def test_coco_captions_are_recognised_by_stored_ids(coco, tmp_path, capsys):
    run = coco[0]
    stored = open_analysis(run, "testall")
    assert stored.caption_ids is None
    order = np.arange(200).reshape(40, 5)[:, ::-1].reshape(-1)  # every image's last caption first
    ids = [int(stored.captions[row].split()[1]) for row in order]
    sentences = [{"raw": f"caption {number}", "sentid": number} for number in ids]
    images = [
        karpathy.image(i, "test", filename=name, sentences=sentences[5 * i : 5 * i + 5])
        for i, name in enumerate(stored.image_names)
    ]
    data = karpathy.write(tmp_path / "karpathy", images, {"test_ims.npy": features(40)}, dataset="coco")
    split = read_split(data, "testall")
    assert np.asarray(split.caption_ids).tolist() == ids
    v = stored.image_embeddings
    w = stored.text_embeddings[order]
    for name, samples in (("test", split), ("dev", replace(split, caption_ids=None))):
        facts = describe_samples(samples, 40) | {"metrics": stored.metrics, "kind": "embeddings"}
        write_embeddings(run, v, w, split.image_of_text, name, **facts)

    written = open_analysis(run, "test", verify=True)
    assert np.asarray(written.caption_ids).tolist() == ids
    flags = {split: ("--positives=eccv", f"--split={split}") for split in ("testall", "test", "dev")}
    metrics = {split: row_of(run, tmp_path, *of_split) for split, of_split in flags.items()}
    assert printed(capsys).count("their COCO ids") == 1
    for name in ("i2t_map_at_r", "t2i_map_at_r", "t2i_extended_r5"):
        assert metrics["test"][name] == pytest.approx(metrics["testall"][name])

    # without the ids, other captions would be judged
    assert metrics["dev"]["t2i_map_at_r"] != pytest.approx(metrics["testall"]["t2i_map_at_r"])
    flip(written.path / "caption_ids.npy")
    assert_refused(r"caption_ids\.npy", open_analysis, run, "test", verify=True)
    # a file's own numbers are not COCO ids
    judged = coco_judgements("eccv", stored.image_names, split.image_of_text, np.arange(200))
    assert "their COCO ids" not in judged.fact


def test_coco_judgements_refuse_other_images_and_a_missing_package(runs, coco, capsys, monkeypatch):
    for names, captions, message in (
        (["391895", *map(str, range(2, 41))], 5, r"image 1 \('2'\): .*5,000"),
        (["000000391895.jpg", "391895"], 5, r"image 1 \('391895'\): .*image 0"),
        (["391895"], 1, r"image 0 \('391895'\): has 1 captions, but COCO has 5"),
    ):
        assert_refused(message, coco_judgements, "cxc", names, np.repeat(np.arange(len(names)), captions))
    assert main([str(runs[0]), "--positives", "eccv"]) == 1
    assert "--positives eccv: image 0 ('image 0')" in printed(capsys)
    monkeypatch.setattr(coco_module, "PACKAGE", "eccv_caption_that_is_not_there")
    assert main([str(coco[0]), "--split", "testall", "--positives", "eccv"]) == 1
    assert "python -m pip install eccv-caption" in printed(capsys)
