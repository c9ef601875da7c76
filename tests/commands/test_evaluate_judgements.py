"""python -m coder_core.evaluate --positives: judgements beyond the labels, of files and of COCO."""

from __future__ import annotations

import json
import warnings
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from coder_core.api import open_run
from coder_core.api.retrieval import judged_recall, judged_values, run_judgements
from coder_core.console.faults import InputError
from coder_core.data import judgements as coco_module
from coder_core.data.dataset import read_split
from coder_core.data.embeddings import read_embeddings
from coder_core.data.judgements import coco_judgements
from coder_core.evaluate import main
from coder_core.evaluation import EmbeddingPair, score_tiles
from coder_core.evaluation.extended import extended_metrics
from coder_core.runs.analysis.evaluate import describe_samples
from coder_core.runs.analysis.import_embeddings import import_run
from coder_core.runs.analysis.read import open_analysis
from coder_core.runs.analysis.write import write_analysis
from tests.support.run_folders import flip, ranks_of


def test_positives_beyond_the_labels(
    runs: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, document = tmp_path / "positives.tsv", tmp_path / "out.json"
    file.write_text("image 0#1\timage 3\nimage 2#0\timage 1\nimage 999#0\timage 1\n")
    asked = [*map(str, runs), "--positives", str(file)]
    assert main([*asked, "--json", str(document)]) == 0
    printed = " ".join(capsys.readouterr().out.split())
    assert "2 positives beyond the labels, 1 line about other splits" in printed
    assert "mAP@R" in printed
    one = open_analysis(runs[0], "dev")
    owner = np.asarray(one.image_of_text)
    second, first = np.flatnonzero(owner == 0)[1], np.flatnonzero(owner == 2)[0]
    pairs = np.concatenate([np.stack([np.arange(len(owner)), owner], 1), [[second, 3], [first, 1]]])
    scored = score_tiles([EmbeddingPair(one.image_embeddings, one.text_embeddings)], owner)
    found = json.loads(document.read_text())["runs"]
    for name, value in extended_metrics(scored, pairs).items():
        assert found[str(runs[0])][name] == pytest.approx(value)
        assert name in found["ensemble"]
    assert found[str(runs[0])]["rsum"] == one.metrics["rsum"]  # the labels' recall is not touched
    run = open_run(runs[0])  # the app shows the same
    table = judged_recall(["one"], [judged_values(run, "dev", run_judgements(run, "dev", file))])
    for row in table.to_dict("records"):
        for column, name in (("map_at_r", "map_at_r"), ("judged_5", "extended_r5")):
            assert row[column] == pytest.approx(found[str(runs[0])][f"{row['direction']}_{name}"])
        assert row["labels_1"] == pytest.approx(one.metrics[f"{row['direction']}_r1"])
    assert main([str(runs[0]), "--positives", str(tmp_path / "none.tsv")]) == 1
    assert "none.tsv: there is no such file" in capsys.readouterr().err


def test_diversity_stands_beside_the_disagreement_of_experts(
    runs: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, document = tmp_path / "ExpertAnnotations.txt", tmp_path / "out.json"
    grades = [(1, 1, 1), (1, 2, 1), (1, 4, 1), (2, 3, 4)]
    file.write_text(
        "".join(
            f"image {(image + 1) % 4}\timage {image}#0\t" + "\t".join(map(str, grades[image])) + "\n"
            for image in range(4)
        )
    )
    assert main([str(runs[0]), "--positives", str(file), "--json", str(document)]) == 0
    one = open_analysis(runs[0], "dev")
    owner = np.asarray(one.image_of_text)
    scores = one.image_embeddings.astype(np.float64) @ one.text_embeddings.T.astype(np.float64)
    captions = [int(np.flatnonzero(owner == image)[0]) for image in range(4)]
    spread = [np.std(np.delete(scores[:, caption], owner[caption])) for caption in captions]
    rho = np.corrcoef(
        np.argsort(np.argsort(spread)), np.argsort(np.argsort([np.std(own) for own in grades]))
    )[0, 1]
    row = json.loads(document.read_text())["runs"][str(runs[0])]
    assert row["disagreement_rho"] == pytest.approx(rho)
    assert f"spread of the experts' grades is {rho:+.2f} over 4 captions" in " ".join(
        capsys.readouterr().out.split()
    )


@pytest.fixture
def coco(tmp_path: Path) -> tuple[Path, dict[str, dict[str, dict[int, list[int]]]]]:
    """Embeddings of 40 of COCO's test images and five captions of each, and what eccv-caption says of them: of "eccv"
    and "cxc", the positives of images ("i2t") and of captions ("t2i")."""
    package = Path(str(find_spec("eccv_caption").submodule_search_locations[0])) / "data"  # type: ignore[union-attr,index]

    def read(name: str) -> dict[int, list[int]]:
        content = json.loads((package / f"{name}.json").read_text())
        return {int(key): [int(value) for value in values] for key, values in content.items()}

    captions_of, judged = read("original_image_to_caption"), read("eccv_caption_to_image")
    near = dict.fromkeys(image for of_caption in judged.values() for image in of_caption)
    images = list(dict.fromkeys([*list(read("eccv_image_to_caption"))[:20], *near]))[:40]
    captions = [caption for image in images for caption in sorted(captions_of[image])]
    rng = np.random.default_rng(3)
    v, w = rng.standard_normal((40, 8), np.float32), rng.standard_normal((200, 8), np.float32)
    np.save(tmp_path / "I.npy", v / np.linalg.norm(v, axis=1, keepdims=True))
    np.save(tmp_path / "T.npy", w / np.linalg.norm(w, axis=1, keepdims=True))
    (tmp_path / "C.txt").write_text("".join(f"caption {caption}\n" for caption in captions))
    (tmp_path / "ids.txt").write_text("".join(f"val2014/COCO_val2014_{image:012}.jpg\n" for image in images))
    embedded = read_embeddings(
        tmp_path / "I.npy", tmp_path / "T.npy", tmp_path / "C.txt", ids=tmp_path / "ids.txt"
    )
    truths = {
        name: {
            way: {
                query: inside
                for query, answers in read(f"{name}_{file}").items()
                if query in of and (inside := [answer for answer in answers if answer in among])
            }
            for way, file, of, among in (
                ("i2t", "image_to_caption", set(images), set(captions)),
                ("t2i", "caption_to_image", set(captions), set(images)),
            )
        }
        for name in ("eccv", "cxc")
    }
    return import_run(embedded, tmp_path / "runs", "clip", "testall")[0], truths


def test_cocos_extended_judgements_give_the_figures_of_their_own_program(
    coco: tuple[Path, dict[str, dict[str, dict[int, list[int]]]]],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that ujson is not there
        from eccv_caption import _metrics as theirs
    run, truths = coco
    analysis = open_analysis(run, "testall")
    scores = analysis.image_embeddings @ analysis.text_embeddings.T
    captions = [int(caption.split()[1]) for caption in analysis.captions]
    images = [int(name[-16:-4]) for name in analysis.image_names]
    ranked = {
        "i2t": {
            image: [captions[j] for j in np.argsort(-row)] for image, row in zip(images, scores, strict=True)
        },
        "t2i": {
            caption: [images[i] for i in np.argsort(-row)]
            for caption, row in zip(captions, scores.T, strict=True)
        },
    }
    for name, title in (("eccv", "ECCV Caption"), ("cxc", "CxC")):
        document = tmp_path / f"{name}.json"
        assert main([str(run), "--split", "testall", "--positives", name, "--json", str(document)]) == 0
        printed = " ".join(capsys.readouterr().out.split())
        assert f"{title} · results that score the same count against a query" in printed
        assert f"{title}: pairs that count for captions:" in printed
        metrics = json.loads(document.read_text())["runs"][str(run)]
        for way, of_queries in truths[name].items():
            assert len(of_queries) >= 20
            expected = theirs.compute_eccv_metrics(ranked[way], of_queries)
            assert metrics[f"{way}_map_at_r"] == pytest.approx(100 * expected["eccv_map_at_r"])
            assert metrics[f"{way}_r_precision"] == pytest.approx(100 * expected["eccv_rprecision"])
            for k in (1, 5, 10):
                recall = theirs.compute_r_at_k(ranked[way], of_queries, K=k)
                assert metrics[f"{way}_extended_r{k}"] == pytest.approx(100 * recall)


def test_captions_are_recognised_by_the_ids_of_their_layout(
    coco: tuple[Path, object], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run, data = coco[0], tmp_path / "karpathy"
    data.mkdir()
    stored = open_analysis(run, "testall")
    assert stored.caption_ids is None
    order = np.arange(200).reshape(40, 5)[:, ::-1].reshape(-1)  # every image's last caption first
    ids = [int(stored.captions[row].split()[1]) for row in order]
    (data / "dataset_coco.json").write_text(
        json.dumps(
            {
                "dataset": "coco",
                "images": [
                    {
                        "imgid": image,
                        "filename": name,
                        "split": "test",
                        "sentences": [
                            {"raw": f"caption {number}", "sentid": number}
                            for number in ids[5 * image : 5 * image + 5]
                        ],
                    }
                    for image, name in enumerate(stored.image_names)
                ],
            }
        )
    )
    np.save(data / "test_ims.npy", np.ones((40, 2, 3), np.float32))
    split = read_split(data, "testall")
    assert split.caption_ids is not None
    assert split.caption_ids.tolist() == ids
    v, w = stored.image_embeddings, stored.text_embeddings[order]
    ranks = dict(
        zip(
            ("image_ranks", "text_ranks", "image_best", "text_best"),
            ranks_of(v, w, split.image_of_text),
            strict=True,
        )
    )
    for name, known in (("test", split), ("dev", replace(split, caption_ids=None))):
        write_analysis(
            run,
            name,
            **describe_samples(known, 40),
            metrics=stored.metrics,
            fingerprint="0" * 64,
            kind="embeddings",
            image_embeddings=v,
            text_embeddings=w,
            **ranks,
        )
    written = open_analysis(run, "test", verify=True)
    assert np.asarray(written.caption_ids).tolist() == ids
    metrics = {}
    for name, how in (("testall", "the k-th"), ("test", "recognised by their COCO ids"), ("dev", "the k-th")):
        document = tmp_path / f"{name}.json"
        assert main([str(run), "--split", name, "--positives", "eccv", "--json", str(document)]) == 0
        assert how in " ".join(capsys.readouterr().out.split())
        metrics[name] = json.loads(document.read_text())["runs"][str(run)]
    for name in ("i2t_map_at_r", "t2i_map_at_r", "t2i_extended_r5"):
        assert metrics["test"][name] == pytest.approx(metrics["testall"][name])
    assert metrics["dev"]["t2i_map_at_r"] != pytest.approx(
        metrics["testall"]["t2i_map_at_r"]
    )  # what ids are for
    flip(written.path / "caption_ids.npy")
    with pytest.raises(InputError, match=r"caption_ids\.npy: is damaged"):
        open_analysis(run, "test", verify=True)
    numbered = np.arange(200)  # a file's own numbers are no COCO ids
    judged = coco_judgements("eccv", stored.image_names, split.image_of_text, numbered)
    assert "recognised by their COCO ids" not in judged.fact


def test_what_is_not_coco_has_none_of_its_judgements(
    runs: list[Path],
    coco: tuple[Path, object],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert main([str(runs[0]), "--positives", "eccv"]) == 1
    printed = " ".join(capsys.readouterr().err.split())
    assert "--positives eccv: image 0 ('image 0'): is not named by COCO's number" in printed
    names = ["391895", *(str(number) for number in range(2, 41))]
    with pytest.raises(InputError, match=r"image 1 \('2'\): is none of COCO's 5,000 test images"):
        coco_judgements("cxc", names, np.repeat(np.arange(40), 5))
    with pytest.raises(InputError, match=r"image 1 \('391895'\): is image 0 again"):
        coco_judgements("cxc", ["000000391895.jpg", "391895"], np.repeat(np.arange(2), 5))
    with pytest.raises(InputError, match=r"image 0 \('391895'\): has 1 captions, COCO 5"):
        coco_judgements("cxc", ["391895"], np.zeros(1, np.int64))
    monkeypatch.setattr(coco_module, "PACKAGE", "eccv_caption_that_is_not_there")
    assert main([str(coco[0]), "--split", "testall", "--positives", "eccv"]) == 1
    printed = " ".join(capsys.readouterr().err.split())
    assert "--positives eccv: needs the package eccv-caption. python -m pip install eccv-caption" in printed
