"""Addresses inside the app. A widget bound to the URL reads its label there, so these words equal those on buttons."""

from urllib.parse import urlencode

from app import questions
from app.ask import Modality, Run, ask, clusters, opened_run
from app.choice import RUNS, SLICE, UNITS, Choice, reviewer_link
from app.components import opened

Links = tuple[tuple[str, str], ...]  # labels and addresses
CONFUSED = 12  # results that the matrix of a caption begins with
DIRECTIONS: dict[Modality, str] = {"text": "Caption → images", "image": "Image → captions"}


def address(page: str, choice: Choice, **values: str | int) -> str:
    """A page's address, relative to the app, with the chosen runs and these values, or else the opened sample; "" is
    the page that is open."""
    state: dict[str, object] = {RUNS: choice.names or [run.name for run in choice.runs]}
    optional = {"split": choice.split, **reviewer_link(), SLICE: choice.slice}
    state |= {key: value for key, value in optional.items() if value}
    return f"{page}?{urlencode(state | (values or followed(page)), doseq=True)}"


def followed(page: str) -> dict[str, str]:
    """The parameters that open on a page the sample that a person opened on another; {} without one."""
    sample = opened.followed()
    return opening(page, *sample) if sample else {}


def opening(page: str, modality: Modality, number: int) -> dict[str, str]:
    """The parameters that open a sample on a page: those of its own fields, or of the panel alone."""
    name = opened.name_of(modality, number)
    fields: dict[str, dict[str, str]] = {
        "diversity": {"anchors": UNITS[modality].capitalize(), name.partition("-")[0]: str(number)},
        "retrieval": {"direction": DIRECTIONS[modality], f"query-{modality}": str(number)},
        "joint": {"focus": name},
    }
    if modality == "text":
        fields |= {"concepts": {"caption": str(number)}, "data": {"pair-caption-number": str(number)}}
    return fields.get(page, {opened.SAMPLE: name})


def of_sample(choice: Choice, modality: Modality, number: int) -> Links:
    """Links from a sample to the pages that show more of it, without the page that is about it."""
    labels = {
        "diversity": "diversity",
        "retrieval": "query",
        "joint": "map",
        "concepts": "concepts",
        "data": "data",
    }
    if not any(run.config.get("model", {}).get("concepts") for run in choice.runs):
        del labels["concepts"]
    has_embeddings = choice.ask(Run.scores) is None
    if not has_embeddings:
        del labels["joint"]
    pages = []
    for page, label in labels.items():
        fields = opening(page, modality, number)
        if opened.SAMPLE not in fields and opened.subject() != (page, (modality, number)):
            pages.append((label, address(page, choice, **fields)))
    if has_embeddings and (cluster := cluster_of(choice, modality, number)) is not None:
        fields = {"cluster": str(cluster), **opening("clusters", modality, number)}
        pages.append(("cluster", address("clusters", choice, **fields)))
    if modality == "text":
        pages.append(("matrix", similarity(choice, number)))
    return tuple(pages)


def cluster_of(choice: Choice, modality: Modality, number: int) -> int | None:
    """The cluster of an image, or of a caption with its image, that the Clusters page shows first; None without any."""
    split = choice.split
    learned = [run for run in choice.runs if ask(clusters.prototypes, run, split) is not None]
    settings = None if learned else clusters.ClusterSettings()
    run = opened_run(learned[-1] if learned else choice.last)
    result = questions.clusters_of(run, split, settings).value
    return None if result is None else int((result.pairs if modality == "text" else result.images)[number])


def similarity(choice: Choice, caption: int) -> str:
    """The matrix of a caption, its image, and the first captions of the images most similar to it."""
    results = ask(Run.search, choice.last, caption, split=choice.split, modality="text", top=CONFUSED)
    image, images = int(choice.ask(Run.image_of_text)[caption]), results["candidate"].to_numpy()
    confused = choice.ask(Run.first_captions)[images[images != image]]
    captions = ", ".join(map(str, [caption, *confused[confused >= 0].tolist()]))
    pair = {"pair-image": image, "pair-caption": caption}
    return address("similarity", choice, **{"batch-of": "Selection", "chosen": captions}, **pair)
