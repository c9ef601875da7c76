"""Every page begins with data, is short, and fits windows of all usual widths, with two runs and, in the dark theme, with
a slice of them."""

import shutil

from app.charts import DARK, LIGHT
from tests.support.pages import PAGES
from tests.support.visits import CHART

PAIR = "run=demo-baseline&run=demo&split=dev"
SLICE = f"{PAIR}&slice=image+<+40"
OF_PAGE = {"weights": "run=combined&run=opposite", "concepts": "run=concepts", "joint": f"{PAIR}&map=PCA"}
RUNS = ("demo-baseline", "demo", "combined", "opposite", "concepts")
DATA = f"{CHART}, [data-testid=stMain] :is(table, img, canvas)"
LONGEST = 2600  # pixels of a page of 1440 × 900
FIRST_DATA = {1440: 320, 390: 420}  # width → pixels from the top
HEIGHTS = {390: 844, 760: 1000, 1024: 768, 1440: 900, 1920: 1080}
LISTED = (*PAGES, "train")
MEASURE = """data => {
  const main = document.querySelector("[data-testid=stMain]")
  const tops = [...document.querySelectorAll(data)].map(part => part.getBoundingClientRect())
    .filter(box => box.height > 0).map(box => box.top)
  const shadows = [...main.querySelectorAll("*")].filter(part => part.shadowRoot)
    .flatMap(part => [...part.shadowRoot.querySelectorAll("table, canvas")])
    .map(part => part.getBoundingClientRect().top)
  return { first: Math.min(...tops, ...shadows), height: main.scrollHeight,
    beyond: Math.max(main.scrollWidth - main.clientWidth, document.documentElement.scrollWidth - innerWidth) }
}"""


def faults(found):
    """Return what is wrong with a page, from its measures at every width."""
    wrong = {f"beyond {width}": box["beyond"] for width, box in found.items() if box["beyond"] > 0}
    wrong |= {
        f"first data at {width}": found[width]["first"]
        for width, most in FIRST_DATA.items()
        if found[width]["first"] > most
    }
    return wrong | ({"height": found[1440]["height"]} if found[1440]["height"] > LONGEST else {})


def in_dark(visit):
    """Assert that a page has enough contrast in the dark theme, which its charts follow."""
    charts = visit.page.locator(CHART).count()
    if not visit.dark:
        assert visit.colour() == LIGHT.ink
        visit.darken()
    visit.check_accessibility()
    assert not charts or visit.colour() == DARK.ink


def measured(visit, widths):
    """Return what is wrong with the opened page in windows of these widths; the first width is the window's, if the last
    page was measured in the reverse order."""
    found = {}
    for width in widths:
        visit.page.set_viewport_size({"width": width, "height": HEIGHTS[width]})
        visit.settle()
        found[width] = visit.page.evaluate(MEASURE, DATA)
    widths.reverse()
    return faults(found)


def test_a_page_begins_with_data_is_short_and_fits_every_window(visit, runs, move, tmp_path):
    for name in RUNS:
        shutil.copytree(runs / name, tmp_path / "runs" / name)
    move(tmp_path)
    wrong = {}
    widths = list(HEIGHTS)
    for page in LISTED:
        visit.open(f"{page}?{OF_PAGE.get(page, PAIR)}", charts=False)
        wrong[page] = measured(visit, widths)
    widths = list(FIRST_DATA)
    for page in LISTED:
        visit.open(f"{page}?{OF_PAGE.get(page, SLICE)}", charts=False)
        in_dark(visit)
        if page not in OF_PAGE:
            wrong[f"{page} of a slice"] = measured(visit, widths)
    visit.open(f"retrieval?{PAIR}&values=true")
    in_dark(visit)
    assert {page: faults for page, faults in wrong.items() if faults} == {}
