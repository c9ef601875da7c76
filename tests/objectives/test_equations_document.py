"""docs/equations.md names tests; each of them exists."""

import re
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
DOCUMENT = REPOSITORY / "docs" / "equations.md"
DEFAULT_FILE = "test_diversity.py"


def test_every_test_and_file_the_document_names_exists():
    """`file.py::test_name`; a bare `::test_name` stands for the section's file."""
    document = DOCUMENT.read_text(encoding="utf-8")
    names = re.findall(r"`([\w/]*(?:\.py)?)::(test_\w+)`", document)
    mentioned = {(Path(file or DEFAULT_FILE).name, name) for file, name in names}
    written = {
        (path.name, name)
        for path in (REPOSITORY / "tests").rglob("test_*.py")
        for name in re.findall(r"^def (test_\w+)", path.read_text(encoding="utf-8"), re.MULTILINE)
    }
    assert len(mentioned) > 30
    assert mentioned - written == set()
    files = re.findall(r"`((?:tests|coder_core)/[\w/]+\.py)", document)
    assert [file for file in files if not (REPOSITORY / file).exists()] == []
