"""Pages on splits of one or two images, and on a run that ranks every right answer first."""

import re

import pytest

from coder_core.geometry.settings import ClusterSettings
from coder_core.runs.derived.compute import make_clusters
from tests.support.run_folders import CONCEPTS, write_run

KINDS = {"1 x 1": (1, 1, 1.0), "2 x 2": (2, 1, 1.0), "all first": (8, 4, 0.05)}
"""Name → number of images, captions per image, noise of the captions."""
PAIR = {"run": "demo-baseline", "versus": "demo"}
ALONE = {"run": "demo-baseline", "versus": "—"}
TEXTS = {"anchors": "Captions", "direction": "Caption → images"}
IMAGES = {"anchors": "Images", "direction": "Image → captions"}
SPLIT = {"over": "Whole split", "measure": "Standard deviation"}
LOOKS = [{"look": look} for look in ("Rank changes", "Near misses", "Hubs")]
VIEWS = [
    ("overview", PAIR | {"curves": ["demo", "concepts"]}),
    *((page, PAIR | {"find": "scene", "k": "2"}) for page in ("similarity", "joint", "clusters", "data")),
    ("concepts", {"run": "concepts", "versus": "demo"}),
    ("diversity", PAIR | TEXTS | {"over": "A bank", "measure": "Entropy"}),
    ("diversity", PAIR | IMAGES | {"over": "A batch", "measure": "Entropy"}),
    *(("diversity", runs | way | SPLIT) for runs, way in ((PAIR, IMAGES), (ALONE, TEXTS))),
    *(("retrieval", PAIR | way | look) for way in (TEXTS, IMAGES) for look in LOOKS),
    *(("retrieval", ALONE | way) for way in (TEXTS | {"look": "Hubs"}, IMAGES | {"look": "Ranks"})),
]
NOUNS = "images|captions|pairs|points|runs|clusters|negatives|concepts|edges"
WRONG = re.compile(rf"\b(nan|inf|Traceback|cannot be shown)\b|(?<![\d,.])1 ({NOUNS})\b", re.IGNORECASE)
STEPS = {"similarity": [{"batch-of": source} for source in ("hardest", "split")]}
STEPS |= {"joint": [{"modalities": shown} for shown in ("images", "captions", "centred")]}


@pytest.fixture(scope="module", params=KINDS)
def root(request, tmp_path_factory):
    """A pair "demo-baseline" and "demo", and "concepts" with a concept branch, all of the same samples."""
    folder = tmp_path_factory.mktemp("small") / "runs"
    images, per_image, noise = KINDS[request.param]
    for seed, (name, loss) in enumerate({"demo-baseline": "btr-hardest", "demo": "dcl"}.items()):
        size = {"images": images, "per_image": per_image, "noise": (1 + seed) * noise}
        run = write_run(folder, name, loss=loss, seed=7, **size)
        if images > 1:
            make_clusters(run, "dev", ClusterSettings(2))
    captions = [f"scene {i}, told in way {k}" for i in range(images) for k in range(per_image)]
    write_run(
        folder,
        "concepts",
        images=images,
        per_image=per_image,
        captions=captions,
        concepts=CONCEPTS,
        pictures=False,
    )
    return folder


@pytest.mark.parametrize(("page", "query"), VIEWS, ids=lambda value: value if isinstance(value, str) else "")
def test_views_of_a_small_split_have_no_nan_or_wrong_plural(root, opened, page, query):
    app = opened(root, page, **query)
    for step in ({}, *STEPS.get(page, [])):
        if step:
            app.change(**step)
        text = re.sub(r"<style>.*?</style>", "", f"{app.texts()}{app.headings()}", flags=re.DOTALL)
        assert not WRONG.search(text), WRONG.search(text)
