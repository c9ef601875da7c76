"""A catalog from its CSV to a verdict: embedded, measured by product, filtered by brand, sliced by price, one failure
opened and judged."""

import csv

import numpy as np
import pytest
from PIL import Image

from coder_core.api import open_run
from coder_core.data.reviews import read_reviews
from coder_core.embed import main as embed
from tests.support.tiny_towers import WORDS, write_tiny_clip

PRODUCTS = 80
BRANDS = ("Acme", "Bolt")


@pytest.fixture(scope="module")
def shop_runs(tmp_path_factory):
    """Folder of a run that embeds a catalog of 80 products with two pictures each, by one title."""
    base = tmp_path_factory.mktemp("catalogue")
    shop = base / "sets" / "shop"
    shop.mkdir(parents=True)
    rng = np.random.default_rng(0)
    with (shop / "catalogue.csv").open("w", newline="") as file:
        table = csv.writer(file)
        table.writerow(["image", "title", "product_id", "brand", "price"])
        for product in range(PRODUCTS):
            title = " ".join(rng.choice(WORDS, 6))
            price = round(float(rng.uniform(5, 95)), 2)
            for view in range(2):
                name = f"{product:03}-{view}.jpg"
                Image.fromarray(rng.integers(0, 255, (32, 32, 3), dtype=np.uint8)).save(shop / name)
                table.writerow([name, title, f"P{product:03}", BRANDS[product % 2], price])
    write_tiny_clip(base / "clip")
    command = ["pictures", str(shop), "--model", str(base / "clip"), "--name=shop", f"--root={base / 'runs'}"]
    assert embed([*command, "--group-column=product_id", "--dev-share=1", "--test-share=0"]) == 0
    return base / "runs"


def test_a_catalogue_leads_to_a_verdict_on_one_product(shop_runs, visit, move):
    move(shop_runs.parent)
    page = visit.page
    visit.open("overview")
    visit.show("Several right answers")
    page.locator(".st-key-several tbody").get_by_text("group", exact=True).wait_for()

    page.get_by_role("button", name="brand", exact=True).click()  # the chip
    visit.settle()
    page.get_by_test_id("stPopoverBody").get_by_role("combobox").click()
    page.get_by_role("option", name="Acme · 80").click()
    visit.reach("slice=brand")
    visit.show("80 of 160 captions on every page")
    page.keyboard.press("Escape")

    visit.follow("Slices")
    visit.titled("Slices")
    page.get_by_role("radio", name="price", exact=True).click()
    visit.settle()
    row = page.locator("tbody tr").first
    assert row.inner_text().startswith("price ")
    row.click()
    visit.reach("slice=.*price")
    columns = open_run(shop_runs / "shop").columns("dev").images
    page.get_by_role("link", name="Misses of this slice").click()
    visit.titled("Retrieval")
    panel = page.locator(".st-key-opened")
    product = panel.locator("dt:text-is('product_id') + dd").inner_text()
    price = float(panel.locator("dt:text-is('price') + dd").inner_text())
    caption = visit.number("Caption number")
    assert (columns["product_id"].cell(caption), columns["price"].cell(caption)) == (product, price)

    panel.get_by_role("button", name="Wrong caption").click()
    visit.settle()
    reviews = list(shop_runs.parent.rglob("*reviews*.jsonl"))
    [review] = [review for file in reviews for review in read_reviews(file).all]
    assert review.verdict == "wrong-caption"
    assert review.image == f"{product.removeprefix('P')}-{caption % 2}.jpg"
