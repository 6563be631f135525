"""Which files our modules come from: names such as `core` and `cli` can meet a user's own."""

import sys
from collections.abc import Iterator
from importlib.machinery import PathFinder
from pathlib import Path

ROOMS = ("core", "eventlog", "backends", "harness", "learners", "cli", "migrations", "trajlog")
MEND = "install trajlog in an environment of its own (pipx, uv tool), and look at PYTHONPATH"


def root() -> Path:
    """The folder this installation's modules lie in."""
    return Path(__file__).resolve().parent.parent


def shadows() -> list[str]:
    """A line for each of our modules that Python finds, or has imported, from another place."""
    found = {}
    for room in ROOMS:
        spec = PathFinder.find_spec(room)
        origin = spec and (spec.origin or next(iter(spec.submodule_search_locations or []), None))
        if not origin:
            found[room] = f"{room} is not found"
        elif not _ours(room, origin):
            found[room] = f"{room} comes from {origin}"
    for name, module in sorted(sys.modules.items()):
        room = name.partition(".")[0]
        origin = getattr(module, "__file__", None)
        if room in ROOMS and room not in found and origin and not _ours(room, origin):
            found[name] = f"{name} comes from {origin}"
    return list(found.values())


def altered() -> list[str]:
    """Files of ours that are missing or differ from what was installed (nothing for a checkout)."""
    return [str(path) for path, whole in _recorded() if not whole]


def _ours(room: str, origin: str) -> bool:
    expected = root() / (f"{room}.py" if room == "trajlog" else room)
    return Path(origin).resolve().is_relative_to(expected)


def _recorded() -> Iterator[tuple[Path, bool]]:
    import base64
    import hashlib
    from importlib import metadata

    try:
        files = metadata.distribution("trajlog").files or []
    except metadata.PackageNotFoundError:
        return
    for file in files:
        if file.parts[0] not in (*ROOMS, "trajlog.py") or file.hash is None:
            continue
        path = Path(str(file.locate()))
        try:
            digest = hashlib.new(file.hash.mode, path.read_bytes()).digest()
        except OSError:
            yield path, False
        else:
            yield path, base64.urlsafe_b64encode(digest).rstrip(b"=").decode() == file.hash.value
