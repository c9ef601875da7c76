"""The panel of the opened sample: how a sample is opened, and which pages keep it open."""

import re

import pytest

from coder_core.api import open_run

PANEL = 'class="cl-sample"'


@pytest.mark.parametrize(
    ("page", "unknown"), [("overview", "caption-100"), ("train", "image-20"), ("start", "<b>")]
)
def test_the_sample_in_the_address_is_shown_with_its_ranks(roots, page, unknown, opened):
    assert PANEL not in opened(roots["two"], page, sample=unknown).texts()
    app = opened(roots["two"], page, sample="caption-12")
    [panel] = [part for part in app.parts() if PANEL in part]
    assert re.findall(r'<li class="(.*?)">(.*?)</li>', panel)[0] == ("cl-query", "scene 2, told in way 2")
    ranks = [open_run(roots["two"] / name).ranks("dev") for name in ("demo-baseline", "demo")]
    expected = [of_run[way][row] + 1 for way, row in (("t2i", 12), ("i2t", 2)) for of_run in ranks]
    assert [int(rank) for rank in re.findall(r"<b>(\d+)</b>", panel)] == expected
    for link in ("diversity?", "retrieval?", "joint?", "similarity?", "data?"):
        assert f'href="{link}' in panel
    assert PANEL not in app.click("close-sample").texts()
    assert "sample" not in app.query_params


def test_a_page_opens_the_sample_and_another_number_replaces_it(roots, opened):
    app = opened(roots["two"], "retrieval", sample="caption-12")
    assert app.value("query-text") == 12
    assert app.texts().count("Caption 12 of image 2") == 1
    app.click("query-text-next")
    number = app.value("query-text")
    assert number != 12
    assert app.saying(f"Caption {number} of image {number // 5}")
    assert "sample" not in app.query_params  # the field holds it
    app.app.switch_page("pages/overview.py")
    assert app.again().saying(f"Caption {number} of image {number // 5}")
    assert app.query_params["sample"] == f"caption-{number}"
    app.app.switch_page("pages/data.py")
    assert app.again().value("pair-caption-number") == number
