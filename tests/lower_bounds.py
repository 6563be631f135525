"""Prints, as constraints, the oldest version of each direct dependency that pyproject.toml allows."""

import re
import tomllib
from pathlib import Path

PYPROJECT = Path(__file__).parents[1] / "pyproject.toml"


def lower_bounds() -> list[str]:
    project = tomllib.loads(PYPROJECT.read_text())["project"]
    lines = []
    for requirement in [*project["dependencies"], *project["optional-dependencies"]["dev"]]:
        found = re.fullmatch(r"([\w.-]+)(?:\[[\w,]+\])?>=([\w.]+)(?:,.*)?", requirement)
        assert found, f"{requirement}: no lower bound"
        lines.append(f"{found[1]}=={found[2]}")
    return lines


if __name__ == "__main__":
    print("\n".join(lower_bounds()))
