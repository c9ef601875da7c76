"""Links in a real browser: an address holds its runs, the links of the sidebar carry them, Back takes one step."""

from urllib.parse import parse_qs, urlencode, urlsplit

import pytest

DEFAULT = {"run": ["demo-baseline", "demo"], "split": ["dev"]}
PAIR = "run=demo-baseline&run=demo&split=dev"
# page → values of its controls that are not the usual ones; former names are read, too
CHANGED = {
    "overview": {"misses-of": "Image → captions", "misses-at": "5"},
    "retrieval": {"direction": "Image → captions", "at": "5", "look": "Near misses", "words": "scene"},
    "diversity": {
        "anchors": "Images",
        "measure": "Entropy",
        "over": "A batch",
        "seed": "3",
        "tau": "0.5",
        "image": "4",
    },
    "similarity": {
        "anchors": "Images",
        "matrices": "Difference",
        "pairs": "32",
        "mu": "0.2",
        "pair-image": "4",
    },
    "clusters": {"clusters-run": "demo-baseline", "cluster": "3", "members": "Furthest from it"},
    "slices": {"queries": "Images", "at": "5", "kind": "Length", "slice-order": "Most gained"},
    "data": {"list": "Says little", "judge": "demo-baseline"},
    "reviews": {"queue": "Near misses", "reviewer": "anna"},
}
# pages on which the browser's own part is tested; test_steps.py has the others
IN_BROWSER = ("slices", "reviews")


def test_a_bare_address_gets_the_default_runs_and_back_or_a_saved_view_reopen_it_with_its_format_of_figures(
    visit,
):
    visit.open("?figures=SVG", reload=True)
    assert urlsplit(visit.page.url).path == "/overview"
    assert visit.query() == DEFAULT | {"figures": ["SVG"]}
    links = visit.page.locator(".st-key-pages a")
    addresses = [urlsplit(link.get_attribute("href") or "") for link in links.all()]
    assert [address.path for address in addresses][:2] == ["overview", "retrieval"]
    assert all(parse_qs(address.query) == DEFAULT for address in addresses)
    menu = visit.page.get_by_role("button", name="Saved views")
    menu.click()
    visit.enter("Save this view as", "where it begins")
    view = visit.page.get_by_role("link", name="where it begins")
    view.wait_for()
    visit.page.keyboard.press("Escape")
    visit.follow("Retrieval")
    visit.page.go_back()
    visit.reach("/overview[?]")
    assert visit.query() == DEFAULT | {"figures": ["SVG"]}
    visit.page.go_forward()
    visit.titled("Retrieval")
    menu.click()
    visit.page.evaluate("window.stays = true")
    view.click()
    visit.reach("/overview[?]")
    visit.settle()
    assert visit.page.evaluate("window.stays")  # no document was loaded
    assert visit.query() == DEFAULT | {"figures": ["SVG"]}
    visit.page.get_by_role("button", name="Remove", exact=True).click()
    view.wait_for(state="detached")


def test_a_link_keeps_its_runs_on_every_page_and_back_takes_one_step(visit):
    visit.open("overview?run=demo&versus=demo-baseline&split=dev", reload=True)  # as older links have it
    assert visit.page.url.endswith("/overview?run=demo&run=demo-baseline&split=dev")
    visit.follow("Diversity")
    assert visit.page.locator(".st-key-histogram .legendtext").all_text_contents() == [
        "demo",
        "demo-baseline",
    ]
    visit.follow("Train")
    swapped = {"run": ["demo", "demo-baseline"], "split": ["dev"]}
    assert visit.query() == swapped
    for page in ("Diversity", "Overview"):  # one step per press
        visit.page.go_back()
        visit.titled(page)
        assert visit.query() == swapped


def test_back_restores_the_previous_page_in_one_step(visit):
    """Its address holds the value of a control whose name the next page also uses."""
    visit.open(f"similarity?{PAIR}")
    visit.page.get_by_text("Images", exact=True).first.click()
    visit.reach("anchors=Images")
    before = visit.query()
    assert visit.page.locator(".st-key-open-entry").inner_text().split()[-1] == "Diversity"
    visit.page.get_by_role("navigation", name="Tabs").get_by_role("link", name="Diversity").click()
    visit.titled("Diversity")
    assert visit.query() == DEFAULT
    visit.page.go_back()
    visit.titled("Similarity")
    assert visit.query() == before
    assert visit.page.get_by_role("radio", name="Images").first.is_checked()


def test_choosing_a_run_or_sample_updates_the_address_and_back_undoes_it(visit):
    """The measure adds no step to the history and is not carried to other pages; the opened sample is."""
    visit.open(f"diversity?{PAIR}&measure=Entropy&caption=7")
    visit.page.get_by_role("combobox", name="Runs").click()
    visit.page.get_by_role("option", name="concepts", exact=True).click()
    visit.reach("run=concepts")
    visit.page.locator(".st-key-caption-next button").click()
    visit.reach("caption=(?!7(&|$))")
    assert (visit.query()["run"][-1], visit.query()["measure"]) == ("concepts", ["Entropy"])
    visit.page.go_back()
    visit.reach("caption=7(&|$)")
    visit.page.go_back()
    visit.reach("run=demo&split")
    visit.page.wait_for_function("document.title.includes('demo-baseline and demo ')")
    visit.follow("Retrieval")
    assert visit.query() == DEFAULT | {"query-text": ["7"]}  # the sample follows


def test_a_cluster_opens_from_the_list_and_the_link_to_it_is_copied(visit):
    with visit.task(PAIR):
        visit.follow("Joint space")
        visit.page.get_by_role("link", name="Clusters", exact=True).click()
        visit.titled("Clusters")
        row = visit.page.locator(".st-key-clusters-table tbody tr").nth(2)
        cluster = int(row.locator("td").first.inner_text())
        row.click()
        visit.reach(rf"cluster={cluster}(&|$)")
        assert visit.number("Cluster") == cluster
        assert visit.page.locator(".cl-grid .cl-card").count() > 0
        visit.page.get_by_text("Copy link", exact=True).click()
        visit.page.get_by_text("Link copied", exact=True).wait_for()


@pytest.mark.parametrize("page", IN_BROWSER)
def test_a_step_in_the_history_shows_what_loading_the_document_shows(visit, page):
    """Also if it stays on the page, or leads to one of whose controls another page has a former name."""

    def shown():
        title = visit.page.locator("h1").inner_text()
        pressed = visit.page.locator("[data-testid=stMain] [role=radio][aria-checked=true]").all_inner_texts()
        return title, pressed, visit.query()

    changed = f"{page}?{PAIR}&{urlencode(CHANGED[page])}"
    visit.open(changed, charts=False, reload=True)
    loaded = shown()
    assert len(loaded[2]) >= len(DEFAULT) + len(CHANGED[page])
    visit.open(f"{page}?{PAIR}", charts=False)
    usual = shown()
    assert usual != loaded
    visit.open(changed, charts=False)
    assert shown() == loaded
    visit.open(f"{page}?{PAIR}", charts=False)
    assert shown() == usual
    visit.open(f"retrieval?{PAIR}&direction=Image+→+captions&at=5", charts=False)
    visit.open(changed, charts=False)
    assert shown() == loaded


def test_ten_steps_are_undone_by_ten_backs(visit):
    visit.open("data?run=demo&split=dev", charts=False)
    opened = [visit.number("Caption number")]
    for _ in range(10):
        visit.page.get_by_role("button", name="Next").first.click()
        visit.settle()
        opened.append(visit.number("Caption number"))
    assert len(set(opened)) > 5
    for expected in reversed(opened[:-1]):
        visit.page.go_back()
        visit.settle()
        visit.page.wait_for_function(
            "n => document.querySelector('[aria-label=\"Caption number\"]').value === n", arg=str(expected)
        )


def test_ambiguous_anchors_are_one_click_away_and_their_entropy_and_its_temperature_three(visit):
    with visit.task(PAIR):
        visit.follow("Diversity")
        assert "iversity" in visit.page.locator("h1").inner_text()
        assert visit.page.locator(".stMain tbody tr").count() > 10
        visit.page.get_by_role("button", name="Advanced").click()
        visit.page.get_by_role("radio", name="Entropy", exact=True).first.click()
        visit.reach("measure=Entropy")
        visit.page.get_by_role("slider", name="τ of entropy").press("ArrowLeft")
        visit.reach("tau=0.99")
        assert visit.page.get_by_role("columnheader", name="entropy").count() > 0


def test_another_run_is_chosen_where_a_reviewer_has_given_a_name(visit):
    visit.open(f"reviews?{PAIR}", charts=False)
    visit.enter("Reviewer", "anna")
    visit.reach("reviewer=anna")
    visit.page.get_by_role("combobox", name="Runs").click()
    visit.page.get_by_role("option", name="demo-late", exact=True).click()
    visit.reach("run=demo-late")
    visit.page.keyboard.press("Escape")  # closes the list of runs
    assert visit.query()["reviewer"] == ["anna"]
    visit.follow("Slices")
    assert visit.query()["reviewer"] == ["anna"]
