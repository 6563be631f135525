"""Environments that somebody else wrote, mounted: `find("airline", home)` makes one.

A mount lies in the home folder, as its file said when it was added; where its code is may change under
it, and then its version does.
"""

import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from backends.contract import Make
from backends.mounts.mount import NAME, Bfcl, Mcp, Mount, Python, convert, missing
from backends.mounts.mounted import Mounted
from core.errors import BadRecord, Unavailable, UsageError
from core.times import now, to_text

if TYPE_CHECKING:
    from backends.tasks import Task

FOLDER = "mounts"
MOVED = "put it back, or add the mount again from where it is now: trajlog env add FILE"


class Version(msgspec.Struct, frozen=True):
    """A version that was added, and when (RFC 3339)."""

    version: str
    added_at: str
    tools: int


class Added(msgspec.Struct, frozen=True):
    """A mount in the home folder: what its file said, which file that was, the newest version last."""

    mount: dict[str, Any]
    file: str
    versions: list[Version]

    def read(self) -> Mount:
        return convert(self.mount, f"mount {self.mount.get('name')}")


def opened(mount: Mount) -> Mounted:
    """An instance. `Unavailable` in one line where it cannot be started or loaded."""
    if gone := missing(mount):
        raise Unavailable(gone, where=f"mount {mount.name}", mend=MOVED)
    if isinstance(mount, Mcp):
        from backends.mounts.mcp_server import Server

        return Mounted(Server(mount))
    if isinstance(mount, Bfcl):
        from backends.mounts import bfcl

        return Mounted(bfcl.engine(mount))
    from backends.mounts.hosted import python

    return Mounted(python(mount))


def find(name: str, home: Path) -> Make | None:
    """Makes instances of a mounted environment, `NAME` or `NAME@VERSION`; None if it is not mounted.
    The version is the one its code has now."""
    added = get(name.partition("@")[0], home)
    if added is None:
        return None
    mount = added.read()
    make: Callable[[], Mounted] = lambda: opened(mount)  # noqa: E731
    return make


def names(home: Path) -> list[str]:
    """Every mounted environment."""
    folder = home / FOLDER
    return sorted(file.stem for file in folder.glob("*.json")) if folder.is_dir() else []


def tasks(name: str, home: Path) -> "list[Task] | None":
    """The tasks that a mounted environment brings along; None if it brings none."""
    added = get(name, home)
    mount = None if added is None else added.read()
    if not isinstance(mount, Bfcl):
        return None
    from backends.mounts import bfcl_tasks

    backend = opened(mount)
    try:
        return list(bfcl_tasks.tasks(backend))
    finally:
        backend.close()


def get(name: str, home: Path) -> Added | None:
    """What was added under that name; None if nothing was. `BadRecord` for a file that is none."""
    if re.match(NAME, name) is None:
        return None
    file = home / FOLDER / f"{name}.json"
    try:
        return msgspec.json.decode(file.read_bytes(), type=Added)
    except FileNotFoundError:
        return None
    except (OSError, msgspec.DecodeError) as error:
        raise BadRecord(f"no mount that can be read: {error}", where=str(file), mend="add it again") from error


def add(mount: Mount, file: Path, version: str, tools: int, home: Path) -> bool:
    """Keep a mount and note its version; whether that version is new."""
    before = get(mount.name, home)
    versions = [] if before is None else before.versions
    new = not versions or versions[-1].version != version
    if new:
        versions = [*versions, Version(version, to_text(now()), tools)]
    added = Added(msgspec.to_builtins(mount), str(file.absolute()), versions)
    folder = home / FOLDER
    try:
        folder.mkdir(parents=True, exist_ok=True)
        written = folder / f".{mount.name}.new"
        written.write_bytes(msgspec.json.format(msgspec.json.encode(added), indent=2) + b"\n")
        written.replace(folder / f"{mount.name}.json")
    except OSError as error:
        raise UsageError(f"it cannot be kept: {error.strerror}", where=str(folder), mend="see --home") from error
    return new


__all__ = ["Added", "Mount", "Mounted", "Python", "Version", "add", "find", "get", "names", "opened", "tasks"]
