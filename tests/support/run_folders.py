"""Run folders for the tests, written by the code that training and evaluation use."""

import hashlib
import json
import tomllib
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import tomli_w
from PIL import Image, ImageDraw

from coder_core.config.schema import Config, to_document
from coder_core.data.embeddings import read_embeddings
from coder_core.data.split import part_images
from coder_core.evaluation.rank_metrics import rank_metrics
from coder_core.evaluation.ranking import rank
from coder_core.evaluation.relevance import Relevance
from coder_core.evaluation.scores import check_scores
from coder_core.evaluation.sources import mixture
from coder_core.files.sealed import render_manifest, write_sealed
from coder_core.model.concepts.choosing import Concept, ConceptVocabulary
from coder_core.model.concepts.knowledge import Concepts, count_together
from coder_core.model.encode import SplitEmbeddings
from coder_core.runs.analysis.concept_arrays import concept_tables
from coder_core.runs.analysis.import_embeddings import import_run
from coder_core.runs.analysis.tables import EMBEDDINGS, RANKS, rank_tables
from coder_core.runs.analysis.write import write_analysis
from coder_core.runs.record import HistoryWriter, open_line, run_key, seal_line, write_status
from tests.support.tiny_runs import changed

FINISHED_RUNS = Path(__file__).resolve().parents[1] / "fixtures" / "finished_runs"
COLOURS = ("#E69F00", "#56B4E9", "#009E73", "#F0E442", "#0072B2", "#D55E00", "#CC79A7")
CAPTIONS_PER_IMAGE = 5
CONCEPTS = [
    ("dog", "object"),
    ("grass", "object"),
    ("ball", "object"),
    ("red", "property"),
    ("run", "motion"),
]
CLIP_DIMENSION = 256
CLIP_THEMES = 8  # images of one theme are hard negatives for each other
CLIP_CONE = 0.6  # first coordinate of every image; captions have −0.6
VAGUE = 4  # the last of an image's five captions fits all images


def unit(rows):
    """Scale (k, D) rows to length 1, as float32."""
    return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)


def synthetic(images, *, noise, seed=0, dimension=32, per_image=CAPTIONS_PER_IMAGE):
    """Return unit rows of images (n, D) and texts (m, D), and image_of_text; an image's fifth caption is vague."""
    rng = np.random.default_rng(seed)
    v = rng.normal(size=(images, dimension))
    v[:, 0] = 1.0  # the same in every image; vague captions share it
    owner = np.repeat(np.arange(images), per_image)
    w = v[owner] + noise * rng.normal(size=(len(owner), dimension))
    vague = np.arange(len(owner)) % per_image == VAGUE
    w[vague] *= 0.15
    w[vague, 0] = 3.0
    return unit(v), unit(w), owner


def ranks_of(v, w, owner):
    """Return the ranks of images and texts and the ten best candidates of each, from the whole score matrix."""
    scores = v @ w.T
    text_ranks = (scores >= scores[owner, np.arange(len(w))]).sum(0) - 1
    own = owner == np.arange(len(v))[:, None]
    best = np.where(own, scores, -np.inf).max(1, keepdims=True)  # −∞: an image without captions has rank −1
    image_ranks = np.where(own.any(1), (~own & (scores >= best)).sum(1), -1)
    return image_ranks, text_ranks, np.argsort(-scores, 1)[:, :10], np.argsort(-scores.T, 1)[:, :10]


def recalls(image_ranks, text_ranks):
    metrics = {}
    for way, ranks in (("i2t", image_ranks), ("t2i", text_ranks)):
        metrics |= {f"{way}_r{k}": 100.0 * float((ranks < k).mean()) for k in (1, 5, 10)}
        metrics[f"{way}_medr"] = float(np.floor(np.median(ranks)) + 1)
        metrics[f"{way}_meanr"] = float(ranks.mean() + 1)
        metrics[f"{way}_mrr"] = 100.0 * float(np.mean(1 / (np.maximum(ranks, 0) + 1)))
    metrics["rsum"] = sum(value for key, value in metrics.items() if "_r" in key)
    return metrics


def write_embeddings(folder, v, w, owner, split="dev", **values):
    """Write the analysis of a split; `values` replace the defaults, and `scores` among them the embeddings."""
    ranks = ranks_of(v, w, owner)
    defaults = {"metrics": recalls(*ranks[:2]), "fingerprint": "0" * 64}
    defaults |= dict(zip(RANKS, ranks, strict=True))
    defaults |= {"captions": [f"caption {j}" for j in range(len(w))], "source": "synthetic"}
    defaults |= {"image_names": [f"{i}.png" for i in range(len(v))]}
    defaults |= {} if "scores" in values else {"image_embeddings": v, "text_embeddings": w}
    return write_analysis(folder, split, **({"image_of_text": owner} | defaults | values))


def write_configured(root, config, **about):
    """Write a run folder with a configuration and an empty vocabulary."""
    document = to_document(config) | ({"about": about} if about else {})
    return write_sealed(root / config.name, {"config.toml": tomli_w.dumps(document), "words.json": "[]"})


def draw_pictures(folder, count):
    folder.mkdir(parents=True, exist_ok=True)
    names = []
    for number in range(count):
        picture = Image.new("RGB", (160, 120), COLOURS[number % 7])
        corners = (30, 20, 40 + 10 * (number % 9), 100)
        ImageDraw.Draw(picture).ellipse(corners, fill=COLOURS[(number // 7 + 3) % 7])
        names.append(f"{number}.png")
        picture.save(folder / names[-1])
    return names


def write_run(
    root,
    name,
    *,
    loss="dcl",
    images=40,
    captions=(),
    pictures=None,
    picture_names=(),
    concepts=(),
    beta=0.6,
    attention=(),
    noise=1.0,
    seed=0,
    per_image=CAPTIONS_PER_IMAGE,
    settings=None,
):
    """Write a finished run of three epochs with history, status and analysis of dev.

    `concepts`, five pairs of word and kind, give it a concept branch, whose share of a score is 1 − `beta`; `attention`,
    (n, 5) and (m, 5), replaces its random one. `pictures`: draw them; None draws those of a run without concepts.
    `noise`, `seed` and `per_image` go to `synthetic`. `settings`: of the configuration.
    """
    values = {"concepts": 10, "beta": beta} if concepts else {}
    values |= settings or {}
    config = changed(Config(name=name), data="demo", loss=loss, epochs=3, seed=seed, **values)
    folder = write_configured(root, config)
    v, w, owner = synthetic(images, noise=noise, seed=seed, per_image=per_image)
    changes = {"metrics": recalls(*ranks_of(v, w, owner)[:2])}
    if concepts:
        branches, _ = two_branches(images, seed, per_image)
        v, w = branches.images, branches.texts
        changes = with_concepts(branches, owner, beta, concepts, attention)
    with HistoryWriter(folder / "history.jsonl") as history:
        history.write("start", step=0)
        for epoch in (1, 2, 3):
            part = {key: value * epoch / 3 for key, value in changes["metrics"].items()}
            facts = {"epoch": epoch, "loss": 2.0 / epoch, "metrics": part, "rsum": part["rsum"]}
            history.write("epoch", step=10 * epoch, **facts)
        history.write("stop", step=30)

    write_status(folder, "finished", step=30, steps=30)
    usual = [f"scene {i}, told in way {k}" for i in range(images) for k in range(per_image)]
    changes["captions"] = list(captions or usual)
    if pictures or (pictures is None and not concepts):
        shown = root.parent / f"{root.name}-pictures"
        changes |= {"image_names": draw_pictures(shown, images), "picture_folder": shown}
    elif picture_names:
        changes["image_names"] = picture_names

    write_embeddings(folder, v, w, owner, **changes)
    return folder


def write_halves(root, *, images=60):
    """Write two runs, trained on complementary halves of a train split and evaluated on all of it; return their folders
    and a mask of the tenth of captions that were exchanged. Each run has learned the labels of its own half."""
    true_owner = np.repeat(np.arange(images), CAPTIONS_PER_IMAGE)
    texts = [f"word{row}" for row in range(len(true_owner))]
    moved = np.random.default_rng(1).choice(len(texts), len(texts) // 10, replace=False)
    owner = true_owner.copy()
    owner[moved] = np.roll(true_owner[moved], 1)
    digest = hashlib.sha256(np.ascontiguousarray(owner, dtype="<i8").tobytes())
    digest.update("".join(f"{text}\n" for text in texts).encode())
    about = {"train_captions_sha256": digest.hexdigest(), "train_features_sha256": "0" * 64}
    folders = []
    for name, other in {"half": False, "other-half": True}.items():
        config = changed(Config(name=name), data="demo", train_part=0.5, other_part=other, seed=5)
        folder = write_configured(root, config, **about)
        write_status(folder, "finished", step=1, steps=1)
        seen = np.isin(owner, part_images(images, 0.5, 5, other=other))
        rng = np.random.default_rng(other)
        v = rng.normal(size=(images, 32))
        w = v[np.where(seen, owner, true_owner)] + 0.5 * rng.normal(size=(len(owner), 32))
        write_embeddings(folder, unit(v), unit(w), owner, "train", captions=texts)
        folders.append(folder)

    return folders, owner != true_owner


def write_prototypes(run, folder, *, centroids, pairs, cosines, images, texts, members, **facts):
    """Write the run's analysis of dev, with these prototypes, into a run folder."""
    analysis = run.analysis("dev")
    arrays = {name: analysis.array(name) for name in ("image_of_text", *EMBEDDINGS, *RANKS)}
    arrays |= {"cluster_centroids": centroids, "cluster_members": members, "cluster_pair_labels": pairs}
    arrays |= {"cluster_pair_cosines": cosines, "cluster_image_labels": images, "cluster_text_labels": texts}
    about = {"captions": analysis.captions, "image_names": analysis.image_names, "metrics": analysis.metrics}
    write_analysis(folder, "dev", fingerprint="1" * 12, **about, **arrays, **facts)


def import_run_folder(root, name, *, images=40, noise=1.5, seed=0, **options):
    """Import another model's embeddings of the samples of `write_run`; `options` go to `import_rows`."""
    v, w, owner = synthetic(images, noise=noise, seed=seed)
    captions = [f"scene {i}, told in way {k % CAPTIONS_PER_IMAGE}" for k, i in enumerate(owner)]
    return import_rows(root, name, v, w, captions, **options)


def import_rows(root, name, v, w, captions, *, pictures=None, queries=(), split="dev"):
    """Import embeddings from files; `pictures` is a folder that `draw_pictures` drew, the embedding of saved query k is
    that of image k."""
    files = root.parent / f"{name}-embeddings"
    files.mkdir(parents=True, exist_ok=True)
    names = [f"{i}.png" for i in range(len(v))]
    for stem, rows in (("images", v), ("texts", w), ("queries", v[: len(queries)])):
        np.save(files / f"{stem}.npy", rows)
    for stem, lines in (("captions", captions), ("ids", names), ("queries", queries)):
        (files / f"{stem}.txt").write_text("".join(f"{line}\n" for line in lines))
    optional = {"queries": files / "queries.npy", "query_texts": files / "queries.txt"} if queries else {}
    ids = files / "ids.txt" if pictures else None
    arguments = (files / "images.npy", files / "texts.npy", files / "captions.txt")
    embeddings = read_embeddings(*arguments, ids=ids, pictures=pictures, **optional)
    return import_run(embeddings, root, name, split)[0]


def clip_like(images, *, noise, seed):
    """Return (n, D) images and (5n, D) captions with a modality gap; most cosines are between −0.4 and 0.1."""
    rng = np.random.default_rng(seed)
    counts = (CLIP_THEMES, images, images * CAPTIONS_PER_IMAGE)
    themes, own, words = (
        rng.normal(size=(rows, CLIP_DIMENSION)) / np.sqrt(CLIP_DIMENSION) for rows in counts
    )
    v = 0.8 * themes[np.arange(images) % CLIP_THEMES] + 0.6 * own
    w = 0.45 * np.repeat(v, CAPTIONS_PER_IMAGE, axis=0) + noise * words
    v[:, 0] = CLIP_CONE
    w[:, 0] = -CLIP_CONE
    return v.astype(np.float32), w.astype(np.float32)


def import_clip(root, name, *, images=60, noise=1.0, seed=0):
    """Import such embeddings and pictures; return the run folder."""
    pictures = root.parent / f"{name}-pictures"
    draw_pictures(pictures, images)
    captions = [f"view {k} of scene {i}" for i in range(images) for k in range(CAPTIONS_PER_IMAGE)]
    return import_rows(root, name, *clip_like(images, noise=noise, seed=seed), captions, pictures=pictures)


def some_concepts(names=CONCEPTS):
    """Return five concepts with these names, their occurrences and co-occurrences in seven captions."""
    together, occurrences = count_together([[0, 2], [0, 2, 3], [0, 4], [0, 4, 1], [0], [1], [1, 3]], 5)
    rows = ((*name, int(count)) for name, count in zip(names, occurrences, strict=True))
    entries = tuple(Concept(word, kind, count, (word, f"{word}s")) for word, kind, count in rows)
    vectors = np.eye(5, 3, dtype=np.float32)
    return Concepts(ConceptVocabulary(entries, "textblob"), together, occurrences, vectors)


def two_branches(images, seed=0, per_image=CAPTIONS_PER_IMAGE):
    """Return embeddings of a good instance and a worse concept branch with random attention, and image_of_text."""
    v, w, owner = synthetic(images, noise=1.0, seed=seed, per_image=per_image)
    vc, wc, _ = synthetic(images, noise=2.0, seed=seed + 1, dimension=16, per_image=per_image)
    random = np.random.default_rng(seed)
    attention = [random.dirichlet(np.full(5, 0.5), rows).astype(np.float16) for rows in (len(v), len(w))]
    return SplitEmbeddings(v, w, vc, wc, *attention), owner


def with_concepts(branches, owner, beta, concepts, attention):
    """Return what an analysis of both branches holds besides one of `branches.images` and `branches.texts`."""
    if attention:
        branches = branches._replace(image_attention=attention[0], text_attention=attention[1])
    labels = Relevance.of_labels(owner, len(branches.images))
    ranked = rank(check_scores(mixture(branches.images, branches.texts, branches.second, beta)), labels)
    knowledge = some_concepts(concepts)
    arrays, documents = concept_tables(branches, knowledge, knowledge.graph(threshold=0.3, rescaled=True))
    about = {"metrics": rank_metrics(ranked, labels), "documents": documents, "beta": beta}
    return about | arrays | rank_tables(ranked)


def reseal(folder):
    """Recompute the checksums of a changed sealed folder, as an attacker would."""
    manifest = json.loads((folder / "manifest.json").read_bytes())
    sealed_lines = {
        path: [open_line(line, run_key(folder)) for line in path.read_text().splitlines()]
        for path in (folder / "history.jsonl", folder / "status.json")
        if path.is_file()
    }
    for name in manifest["files"]:
        content = (folder / name).read_bytes()
        manifest["files"][name] = {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
    (folder / "manifest.json").write_bytes(render_manifest(manifest))
    for path, records in sealed_lines.items():
        path.write_text("".join(f"{seal_line(record, run_key(folder))}\n" for record in records))


def write_document(file, document):
    """Write the document of a file of a run as an attacker would, with every checksum that its readers compare."""
    if file.name == "manifest.json":
        file.write_bytes(render_manifest(document))
    elif file.name in ("status.json", "history.jsonl"):
        file.write_text(seal_line(document, run_key(file.parent)) + "\n")
    else:
        file.write_text(tomli_w.dumps(document) if file.suffix == ".toml" else json.dumps(document) + "\n")
        reseal(file.parent)


def configure(run, **tables):
    """Change values of a run's configuration, by table, and seal it again; return the folder."""
    document = tomllib.loads((run / "config.toml").read_text())
    for table, values in tables.items():
        document[table] |= values
    (run / "config.toml").write_text(tomli_w.dumps(document))
    reseal(run)
    return run


@contextmanager
def overwritten(path, content):
    """Give a file this content within the block, and its own content back afterwards."""
    before = path.read_bytes()
    path.write_bytes(content)
    try:
        yield
    finally:
        path.write_bytes(before)


def flip(path):
    """Change one bit in the middle of a file."""
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(bytes(content))


def cut(path):
    """Remove the last three bytes of a file."""
    path.write_bytes(path.read_bytes()[:-3])


def damage(run):
    """Flip one bit of the configuration."""
    flip(run / "config.toml")
