"""The README's example runs as printed, and the files and commands it names exist."""

import importlib.util
import re
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[2]
README = (PROJECT / "README.md").read_text(encoding="utf-8")


def test_the_loss_example_runs():
    [program] = re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL)
    names = {}
    exec(program, names)
    diversity, loss = names["diversity"], names["loss"]
    assert diversity.shape == (8,)
    assert diversity.max() == 1
    assert loss.isfinite()


def test_every_command_folder_and_document_exists():
    modules = set(re.findall(r"-m (coder_core\.\w+)", README))
    assert len(modules) >= 5
    assert [name for name in modules if importlib.util.find_spec(name) is None] == []
    documents = re.findall(r"docs/[\w/]+\.(?:md|png)", README)
    folders = re.findall(r"^    (?:  )?([a-z_/ ]+/)(?=  )", README, flags=re.MULTILINE)
    names = [name for line in folders for name in line.split()]
    assert "objectives/" in names
    roots = (PROJECT, PROJECT / "coder_core")
    assert [name for name in [*documents, *names] if not any((root / name).exists() for root in roots)] == []


def test_the_installation_takes_torch_for_the_cpu_first_and_activates_the_environment():
    activated, without_gpu = ". .venv/bin/activate", "--index-url https://download.pytorch.org/whl/cpu"
    steps = (activated, without_gpu, "    pip install . ", "python -m coder_core.embed")
    places = [README.index(step) for step in steps]
    assert places == sorted(places)
    assert "/build/" in (PROJECT / ".gitignore").read_text().splitlines()
