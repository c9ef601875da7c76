"""Links in a real browser: an address holds its runs, the links of the sidebar carry them, Back takes one step."""

from __future__ import annotations

from urllib.parse import parse_qs, urlsplit

import pytest

from tests.support.visits import PATIENCE, Visit

pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.timeout(600)]
DEFAULT = {"run": ["demo-baseline"], "versus": ["demo"], "split": ["dev"]}
PAIR = "run=demo-baseline&versus=demo&split=dev"


def query(visit: Visit) -> dict[str, list[str]]:
    """The parameters of the address."""
    return parse_qs(urlsplit(visit.page.url).query)


def follow(visit: Visit, page: str, path: str) -> None:
    """Click on a link of the sidebar."""
    visit.page.locator(".st-key-pages").get_by_role("link", name=page).click()
    visit.page.wait_for_url(f"**/{path}?*", timeout=PATIENCE)
    visit.page.wait_for_function("page => document.title.startsWith(page)", arg=page, timeout=PATIENCE)
    visit.settle()


def test_the_bare_address_names_its_runs_the_sidebar_carries_them_and_a_saved_view_opens_it(
    visit: Visit,
) -> None:
    visit.open("?figures=SVG")
    assert urlsplit(visit.page.url).path == "/overview"
    assert query(visit) == DEFAULT | {"figures": ["SVG"]}
    links = visit.page.locator(".st-key-pages a")
    addresses = [urlsplit(link.get_attribute("href") or "") for link in links.all()]
    assert [address.path for address in addresses][:2] == ["overview", "diversity"]
    assert all(parse_qs(address.query) == DEFAULT for address in addresses)
    for table in visit.page.locator(".dvn-scroller").all():  # the last column is in the window of 1280
        assert table.evaluate("table => table.scrollWidth - table.clientWidth") <= 0
    menu = visit.page.get_by_role("button", name="Saved views")
    menu.click()
    visit.page.get_by_label("Save this view as").fill("where it begins")
    visit.page.get_by_role("button", name="Save", exact=True).click()
    view = visit.page.get_by_role("link", name="where it begins")
    view.wait_for(timeout=PATIENCE)
    visit.page.keyboard.press("Escape")
    follow(visit, "Retrieval", "retrieval")
    menu.click()
    view.click()
    visit.page.wait_for_url("**/overview?*", timeout=PATIENCE)
    visit.settle()
    assert query(visit) == DEFAULT | {"figures": ["SVG"]}
    menu.click()
    visit.page.get_by_role("button", name="Remove").click()
    view.wait_for(state="detached", timeout=PATIENCE)


def test_a_link_keeps_its_runs_on_every_page_and_back_takes_one_step(visit: Visit) -> None:
    visit.open(f"retrieval?{PAIR}")
    assert visit.page.url.endswith(f"/retrieval?{PAIR}")
    assert visit.page.title() == "Retrieval · demo-baseline and demo · CODER Lab"
    assert visit.page.locator("h1").inner_text() == "Which run retrieves better, demo-baseline or demo?"
    visit.page.reload()
    visit.page.locator(".legendtext, .js-plotly-plot").first.wait_for(timeout=PATIENCE)
    visit.settle()
    assert visit.page.url.endswith(f"/retrieval?{PAIR}")
    visit.open("overview?run=demo&versus=demo-baseline&split=dev")
    follow(visit, "Diversity", "diversity")
    assert visit.page.locator(".legendtext").all_text_contents()[:2] == ["demo", "demo-baseline"]
    follow(visit, "Train", "train")
    follow(visit, "Clusters", "clusters")
    assert query(visit) == {"run": ["demo"], "versus": ["demo-baseline"], "split": ["dev"]}
    for page in ("Train", "Diversity", "Overview"):  # one step a press
        visit.page.go_back()
        visit.page.wait_for_function("page => document.title.startsWith(page)", arg=page, timeout=PATIENCE)
        visit.settle()
        assert query(visit) == {"run": ["demo"], "versus": ["demo-baseline"], "split": ["dev"]}


def test_another_run_is_in_the_address_at_once_and_back_returns(visit: Visit) -> None:
    visit.open(f"diversity?{PAIR}")
    visit.page.get_by_role("combobox", name="Compared with").click()
    visit.page.get_by_role("option", name="concepts", exact=True).click()
    visit.page.wait_for_url("**versus=concepts**", timeout=PATIENCE)
    visit.settle()
    visit.page.locator(".st-key-caption-next button").click()
    visit.page.wait_for_url("**caption=**", timeout=PATIENCE)
    visit.settle()
    assert query(visit)["versus"] == ["concepts"]
    visit.page.go_back()
    visit.page.wait_for_function("!location.search.includes('caption=')", timeout=PATIENCE)
    visit.settle()
    visit.page.go_back()
    visit.page.wait_for_url(f"**/diversity?{PAIR}", timeout=PATIENCE)
    visit.page.wait_for_function("document.title.includes('demo-baseline and demo ')", timeout=PATIENCE)
    visit.settle()


def test_a_run_that_is_not_there_is_named_and_the_link_stays_as_it_was(visit: Visit) -> None:
    for page in ("retrieval", "train"):
        visit.open(f"{page}?run=gone&versus=demo&split=dev&at=5", charts=False)
        assert visit.page.url.endswith(f"/{page}?run=gone&versus=demo&split=dev&at=5")
        follow(visit, "Diversity", "diversity")
        assert query(visit) == {"run": ["gone"], "versus": ["demo"], "split": ["dev"]}
        visit.page.get_by_text("There is no run gone in").wait_for(timeout=PATIENCE)
    visit.page.locator(".cl-links").get_by_role("link", name="demo-baseline", exact=True).click()
    visit.page.wait_for_url("**run=demo-baseline&**", timeout=PATIENCE)
    visit.page.locator(".js-plotly-plot").first.wait_for(timeout=PATIENCE)
    visit.settle()
