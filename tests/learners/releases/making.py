"""Logs to release from, and releases of them."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from core.vocabulary import Payload
from eventlog import schema
from eventlog.log import Log
from learners.recipe import Recipe
from learners.releases.build import Built, build
from learners.releases.sources import Source, at
from learners.views import find
from tests.databases import Database, Databases
from tests.eventlog import samples


def episodes(count: int, first: int = 0, **given: Any) -> dict[str, list[Payload]]:
    """Passing episodes by stream, each of another task and conversation."""
    found = {}
    for number in range(first, first + count):
        wanted: dict[str, Any] = {"task": f"task-{number}", "verdict": "pass", "steps": 1 + number % 4} | given
        found[f"episode/{number * 2654435761 % 2**64:016x}"] = samples.episode(**wanted)
    return found


def append(log: Log, found: dict[str, list[Payload]]) -> None:
    for stream, payloads in found.items():
        log.append_many(samples.events(stream, payloads))


def released(
    log: Log,
    place: Path,
    name: str = "sft",
    *,
    view: str = "sft_row",
    recipe: Recipe | None = None,
    as_of: str | None = None,
    others: Sequence[Source] = (),
    blobs: dict[str, bytes] | None = None,
) -> Built:
    stored = blobs or {}

    def fetch(address: str) -> bytes | None:
        return stored.get(address)

    return build(log, name, find(view), recipe or Recipe(), [at(log, as_of), *others], place, fetch)


def nothing(address: str) -> bytes | None:
    """A blob store that is empty."""
    return None


def contents(folder: Path) -> dict[str, bytes]:
    """The files of a release by name."""
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


def another(databases: Databases) -> Database:
    """A database with a log of its own; those of a template have the same."""
    made = databases.bare()
    schema.upgrade(made.owner)
    return made
