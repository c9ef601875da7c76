"""Addresses inside the app. Labels in an address must equal those of widgets, which read them from the URL."""

import html
import json
from typing import Any, NoReturn
from urllib.parse import urlencode

import streamlit as st

from app import questions
from app.address import RUNS, SLICE, reviewer_link
from app.ask import Modality, Run, ask, clusters, opened_run
from app.choice import UNITS, Choice
from app.components import opened

Links = tuple[tuple[str, str], ...]  # labels and addresses
PAGES = "pages-by-name"  # session key of the pages that Streamlit has registered
CONFUSED = 12  # results from which the matrix of a caption is built
DIRECTIONS: dict[Modality, str] = {"text": "Caption → images", "image": "Image → captions"}


def address(page: str, choice: Choice, **values: str | int | list[str]) -> str:
    """Return a page's address, relative to the app, with the chosen runs and these values, or else the opened sample;
    "" means the current page."""
    return f"{page}?{urlencode(_chosen(choice) | (values or followed(page)), doseq=True)}"


def page_link(page: str, label: str, **values: str) -> None:
    """Draw a link with the page's icon, and these values as parameters of the address."""
    st.page_link(st.session_state[PAGES][page], label=label, query_params=values or None)


def go(page: str, choice: Choice, **values: str) -> NoReturn:
    """Open a page, as a click on the link `address` does."""
    st.switch_page(st.session_state[PAGES][page], query_params=_chosen(choice) | values)


def _chosen(choice: Choice) -> dict[str, Any]:
    """Return the parameters of the chosen runs, split, slice and reviewer."""
    optional = {"split": choice.split, **reviewer_link(), SLICE: choice.slice}
    present = {key: value for key, value in optional.items() if value}
    return {RUNS: list(choice.names) or [run.name for run in choice.runs], **present}


def followed(page: str) -> dict[str, str]:
    """Return the parameters that open, on this page, the sample that a person opened on another; {} without one."""
    sample = opened.state().shared
    if sample is None:
        return {}
    modality, number = sample
    return opening(page, modality, number)


def fresh_html(choice: Choice) -> str:
    """Return an invisible element with the present addresses of all pages. history.js takes them for the links of the
    sidebar and the tabs, which are older than the opened sample if only a part of the page ran again."""
    addresses = {name: address(name, choice) for name in st.session_state[PAGES] if name}
    return f'<div class="cl-fresh" data-addresses="{html.escape(json.dumps(addresses), quote=True)}"></div>'


def opening(page: str, modality: Modality, number: int) -> dict[str, str]:
    """Return the parameters that open a sample on a page: those of the page's own fields, or only that of the panel."""
    name = opened.name_of(modality, number)
    fields: dict[str, dict[str, str]] = {
        "diversity": {"anchors": UNITS[modality].capitalize(), name.partition("-")[0]: str(number)},
        "retrieval": {"direction": DIRECTIONS[modality], f"query-{modality}": str(number)},
        "joint": {"focus": name},
    }
    if modality == "text":
        fields |= {"concepts": {"concept-caption": str(number)}, "data": {"pair-caption-number": str(number)}}
    return fields.get(page, {opened.SAMPLE: name})


def of_sample(choice: Choice, modality: Modality, number: int) -> Links:
    """Return links from a sample to the pages that show more of it, without a page that shows it already."""
    sample = (modality, number)
    has_embeddings = choice.ask(Run.scores) is None
    labels = {"diversity": "diversity", "retrieval": "query"}
    labels |= {"joint": "map"} if has_embeddings else {}
    if modality == "text":
        has_concepts = any(run.config.get("model", {}).get("concepts") for run in choice.runs)
        labels |= {"concepts": "concepts"} if has_concepts else {}
        labels["data"] = "data"

    about = opened.state().page, opened.state().own
    shown = [(page, label) for page, label in labels.items() if about != (page, sample)]
    pages = {label: address(page, choice, **opening(page, modality, number)) for page, label in shown}
    if has_embeddings and (cluster := _cluster_of(choice, modality, number)) is not None:
        pages["cluster"] = address(
            "clusters", choice, cluster=cluster, **opening("clusters", modality, number)
        )
    if modality == "text":
        pages["matrix"] = _matrix_of(choice, number)

    return tuple(pages.items())


def _cluster_of(choice: Choice, modality: Modality, number: int) -> int | None:
    """Return the cluster of an image, or of a caption with its image, that the Clusters page shows first; or None."""
    learned = [run for run in choice.runs if ask(clusters.prototypes, run, choice.split) is not None]
    settings = None if learned else clusters.ClusterSettings()
    run = opened_run(learned[-1] if learned else choice.last)
    result = questions.clusters_of(run, choice.split, settings).value
    return None if result is None else int((result.pairs if modality == "text" else result.images)[number])


def _matrix_of(choice: Choice, caption: int) -> str:
    """Return the address of a matrix of a caption, its image, and first captions of the images most similar to it."""
    results = ask(Run.search, choice.last, caption, split=choice.split, modality="text", top=CONFUSED)
    image = int(choice.ask(Run.image_of_text)[caption])
    images = results["candidate"].to_numpy()
    confused = choice.ask(Run.first_captions)[images[images != image]]
    selection = {"batch-of": "Selection", "chosen": ", ".join(map(str, [caption, *confused[confused >= 0]]))}
    return address("similarity", choice, **selection, **{"pair-image": image, "pair-caption": caption})
