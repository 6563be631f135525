"""The blobs that events name: are they there, and are they what their address says?"""

import re
from collections.abc import Iterator
from typing import Any, Final, Protocol

import msgspec

from core.errors import Corrupt, NotFound
from core.event import StoredEvent
from eventlog.verify.report import Problem

_ADDRESS: Final = re.compile(r"sha256:[0-9a-f]{64}")
_HINT: Final = re.compile(rb'"sha256:[0-9a-f]{64}"')


class Blobs(Protocol):
    """What verification asks of a blob store."""

    def check(self, address: str) -> None:
        """Read the whole blob; raises `NotFound` or `Corrupt`."""
        ...


class References:
    """Every blob named by the events that were noted, with the first event that names it."""

    def __init__(self) -> None:
        self._first: dict[str, tuple[int, str, int]] = {}

    def note(self, event: StoredEvent) -> None:
        """Keep the blobs that this event names."""
        if b'"sha256:' in event.body:
            for address in addresses(event.body):
                self._first.setdefault(address, (event.position, event.stream, event.version))

    def faults(self, blobs: Blobs) -> Iterator[Problem]:
        """Each blob that is missing or damaged, by the first event that names it."""
        for address, (position, stream, version) in self._first.items():
            try:
                blobs.check(address)
            except (NotFound, Corrupt) as error:
                yield Problem("blob", position, stream, version, f"{address}: {error.what}")


def addresses(body: bytes) -> set[str]:
    """The addresses of the blob references in a payload: objects with address, size and media_type."""
    if not _HINT.search(body):
        return set()
    found: set[str] = set()
    pending: list[Any] = [msgspec.json.decode(body)]
    while pending:
        value = pending.pop()
        if isinstance(value, dict):
            address = value.get("address")
            if isinstance(address, str) and {"size", "media_type"} <= value.keys() and _ADDRESS.fullmatch(address):
                found.add(address)
            pending.extend(value.values())
        elif isinstance(value, list):
            pending.extend(value)
    return found
