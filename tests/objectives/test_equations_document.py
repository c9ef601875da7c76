"""docs/equations.md names tests; each of them exists."""

import re
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
DOCUMENT = REPOSITORY / "docs" / "equations.md"
DEFAULT_FILE = "test_diversity.py"


def mentioned_tests():
    """(file, test) of every `file.py::test_name`; a bare `::test_name` stands for the section's file."""
    actual = re.findall(r"`([\w/]*(?:\.py)?)::(test_\w+)`", DOCUMENT.read_text(encoding="utf-8"))
    return {(Path(file or DEFAULT_FILE).name, name) for file, name in actual}


def test_every_test_the_document_names_exists():
    written = {
        (path.name, name)
        for path in (REPOSITORY / "tests").rglob("test_*.py")
        for name in re.findall(r"^def (test_\w+)", path.read_text(encoding="utf-8"), re.MULTILINE)
    }
    mentioned = mentioned_tests()
    assert len(mentioned) > 30
    assert mentioned - written == set()


def test_every_file_the_document_names_exists():
    files = re.findall(r"`((?:tests|coder_core)/[\w/]+\.py)", DOCUMENT.read_text(encoding="utf-8"))
    assert [file for file in files if not (REPOSITORY / file).exists()] == []
