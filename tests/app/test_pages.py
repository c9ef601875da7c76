"""Every page with no run, one, two, a damaged one, and with values in the URL that mean nothing."""

from __future__ import annotations

from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from tests.app.run_folders import damage, import_run_folder, write_run

PAGES = ("overview", "diversity", "retrieval")
ROOTS = ("none", "one", "two", "damaged", "no pictures", "imported")
PROJECT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def roots(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    base = tmp_path_factory.mktemp("app")
    made = {name: base / name.replace(" ", "-") for name in ROOTS}
    made["none"].mkdir()
    write_run(made["one"], "demo", images=20)
    for name, loss, noise in (("demo-baseline", "btr-hardest", 3.0), ("demo", "dcl", 1.5)):
        write_run(made["two"], name, loss=loss, noise=noise, images=20)
    write_run(made["damaged"], "demo", images=20)
    damage(write_run(made["damaged"], "torn", images=12))
    write_run(made["no pictures"], "demo", images=20, pictures=False)
    write_run(made["imported"], "demo", images=20)
    import_run_folder(made["imported"], "clip", images=20)
    return made


def opened(root: Path, page: str, monkeypatch: pytest.MonkeyPatch, **query: str) -> AppTest:
    monkeypatch.setenv("CODER_CHECKPOINTS", str(root))
    monkeypatch.chdir(PROJECT)
    app = AppTest.from_file(str(PROJECT / "streamlit_app.py"), default_timeout=120)
    app.query_params.update(query)
    app.run()
    if page:
        app.switch_page(f"pages/{page}.py")
        app.run()
    assert not app.exception, [item.value for item in app.exception]
    return app


def texts(app: AppTest) -> str:
    return "\n".join(str(item.proto.body) for item in app.get("html"))


@pytest.mark.parametrize("root", ROOTS)
@pytest.mark.parametrize("page", [*PAGES, "start"])
def test_every_page_opens(roots: dict[str, Path], root: str, page: str, monkeypatch: pytest.MonkeyPatch) -> None:
    app = opened(roots[root], page, monkeypatch)
    assert app.title[0].value.endswith("?")
    if root == "none" and page != "start":
        assert "There is no evaluated run yet." in texts(app)


def test_without_a_run_the_app_begins_with_the_offer_to_train(
    roots: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    app = opened(roots["none"], "", monkeypatch)
    assert [button.label for button in app.button] == ["Train the demo pair"]


def test_a_damaged_run_is_named(roots: dict[str, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    app = opened(roots["damaged"], "overview", monkeypatch)
    assert "torn" in texts(app)
    assert "config.toml" in texts(app)
    assert "torn" not in app.selectbox(key="run").options


def test_the_baseline_stands_first(roots: dict[str, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    app = opened(roots["two"], "overview", monkeypatch)
    assert app.selectbox(key="run").value == "demo-baseline"
    assert app.selectbox(key="versus").value == "demo"


@pytest.mark.parametrize("page", PAGES)
def test_one_run_alone_can_be_chosen(roots: dict[str, Path], page: str, monkeypatch: pytest.MonkeyPatch) -> None:
    app = opened(roots["two"], page, monkeypatch)
    app.selectbox(key="versus").set_value("—").run()
    assert not app.exception


@pytest.mark.parametrize("anchors", ["text", "image"])
@pytest.mark.parametrize("measure", ["std", "entropy"])
@pytest.mark.parametrize("over", ["split", "batch"])
def test_every_setting_of_diversity(
    roots: dict[str, Path], anchors: str, measure: str, over: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = opened(roots["two"], "diversity", monkeypatch)
    for key, value in (("anchors", anchors), ("measure", measure), ("over", over)):
        app.segmented_control(key=key).set_value(value)
    app.slider(key="epsilon").set_value(0.3)
    app.run()
    assert not app.exception
    number = "caption" if anchors == "text" else "image"
    app.number_input(key=number).set_value(7).run()
    assert not app.exception
    assert f"{number.capitalize()} 7" in texts(app)


def test_next_and_previous_walk_the_ranking(roots: dict[str, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    app = opened(roots["two"], "diversity", monkeypatch)
    first = app.number_input(key="caption").value
    app.button(key="caption-next").click().run()
    second = app.number_input(key="caption").value
    assert second != first
    app.button(key="caption-previous").click().run()
    assert app.number_input(key="caption").value == first


def test_words_that_no_caption_holds(roots: dict[str, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    app = opened(roots["two"], "diversity", monkeypatch)
    app.text_input(key="words").set_value("zebra").run()
    assert "No caption holds all of these words." in texts(app)
    assert not app.exception


@pytest.mark.parametrize("root", ["one", "two"])
@pytest.mark.parametrize("direction", ["t2i", "i2t"])
def test_every_setting_of_retrieval(
    roots: dict[str, Path], root: str, direction: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = opened(roots[root], "retrieval", monkeypatch)
    app.segmented_control(key="direction").set_value(direction)
    app.segmented_control(key="at").set_value("5").run()
    choices = ("fixed", "broken", "both wrong", "both right") if root == "two" else ("found", "missed")
    for choice in choices:
        app.segmented_control(key="outcome" if root == "two" else "answer").set_value(choice).run()
        assert not app.exception


def test_a_free_text_says_when_the_run_has_no_model(roots: dict[str, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    app = opened(roots["one"], "retrieval", monkeypatch)
    app.segmented_control(key="ask").set_value("text").run()
    assert "Nothing asked yet." in texts(app)
    app.text_input(key="text").set_value("a red ring").run()
    assert "This run cannot answer a free text." in texts(app)
    assert not app.exception


def test_what_an_imported_run_lacks_is_said(roots: dict[str, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    app = opened(roots["imported"], "overview", monkeypatch, run="clip", versus="demo")
    assert "clip: imported embeddings, which have no configuration." in texts(app)
    app.multiselect(key="curves").set_value(["clip"]).run()
    assert "Imported embeddings have no training curves." in texts(app)
    app = opened(roots["imported"], "diversity", monkeypatch, run="clip", versus="—")
    assert "Not trained with CODER’s eq. 4" in texts(app)
    app = opened(roots["imported"], "retrieval", monkeypatch, run="clip", versus="—", ask="Your own words")
    app.text_input(key="text").set_value("a red ring").run()
    assert "holds imported embeddings and no model" in texts(app)
    assert not app.exception


@pytest.mark.parametrize(
    "value", ["../../etc", "/etc/passwd", "-rf", "a\nb", "<script>alert(1)</script>", "9" * 400, "inf"]
)
@pytest.mark.parametrize("page", ["diversity", "retrieval"])
def test_strange_values_in_the_url_change_nothing(
    roots: dict[str, Path], page: str, value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys = ("run", "versus", "split", "caption", "image", "epsilon", "anchors", "curves", "at", "query-text")
    app = opened(roots["two"], page, monkeypatch, **dict.fromkeys(keys, value))
    assert app.selectbox(key="run").value == "demo-baseline"
    assert app.selectbox(key="split").value == "dev"
    assert "<script>" not in texts(app)
