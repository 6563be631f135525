"""Plug-ins as they are installed: a module and the .dist-info that names it, in a folder on the path."""

import re
import sys
from importlib.util import cache_from_source
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[3] / "docs" / "projections.md"


def page(begins: str) -> str:
    """The Python on the page about projections whose docstring begins so."""
    for code in re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL):
        if code.startswith(f'"""{begins}'):
            return str(code)
    raise LookupError(begins)


def entry_points(begins: str) -> str:
    """The entry points that the page says, as an installer writes them down."""
    for text in re.findall(r"```toml\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL):
        found = re.search(rf'\[project\.entry-points\."({begins})"\]\n(\S+) = "(.*)"', text)
        if found:
            return f"[{found[1]}]\n{found[2]} = {found[3]}\n"
    raise LookupError(begins)


def install(folder: Path, monkeypatch: pytest.MonkeyPatch, name: str, code: str, points: str) -> None:
    """Put a distribution into the folder, and the folder on the path."""
    file = folder / f"{name}.py"
    file.write_text(code, encoding="utf-8")
    Path(cache_from_source(str(file))).unlink(missing_ok=True)  # of as long a version, a moment ago
    info = folder / f"{name}-1.0.dist-info"
    info.mkdir(exist_ok=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(points)
    if str(folder) not in sys.path:
        monkeypatch.syspath_prepend(str(folder))
    monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.setenv("PYTHONPATH", str(folder))
