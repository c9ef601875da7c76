"""Print the oldest version that pyproject.toml allows of every package, as requirements for pip.

python tests/support/oldest.py [torch==2.13.0 …]      exact versions of packages that are not to be the oldest
"""

import re
import sys
import tomllib
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[2]
EXTRAS = ("app", "tensorboard")
LOWER = re.compile(r"(?P<name>[\w.-]+)>=(?P<version>[\d.]+)")


def oldest(*exact):
    """Return one requirement for every dependency of the package and of the extras that the tests need."""
    project = tomllib.loads((PROJECT / "pyproject.toml").read_text("utf-8"))["project"]
    of_extras = [text for extra in EXTRAS for text in project["optional-dependencies"][extra]]
    bounds = {}
    for text in (*project["dependencies"], *of_extras):
        bound = LOWER.match(text)
        bounds[bound["name"]] = f"{bound['name']}=={bound['version']}"
    bounds |= {text.partition("==")[0]: text for text in exact}
    return list(bounds.values())


if __name__ == "__main__":
    print("\n".join(oldest(*sys.argv[1:])))
