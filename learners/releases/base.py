"""The release before: which rows it had, and their bytes, so that what did not change is not made again.

Only a folder whose every file is as the log says is used; without one the log tells the rows' digests.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

import pyarrow as pa

from core.errors import TrajlogError
from core.identity import uuid_bytes
from eventlog.log import Log
from learners.releases import arrow, checking, index, register
from learners.releases.index import Entry
from learners.releases.manifest import ROWS, Manifest, read
from learners.releases.naming import Named
from learners.releases.states import find


class Base(Protocol):
    """Rows in canonical order, each with a place where its bytes are, if they are kept."""

    def entries(self) -> Iterator[Entry]: ...

    def piece(self, place: int, count: int) -> list[pa.RecordBatch]:
        """The bytes of `count` rows from the `place`-th on, places ascending from call to call."""
        ...


class Nothing:
    """No release before."""

    def entries(self) -> Iterator[Entry]:
        return iter(())

    def piece(self, place: int, count: int) -> list[pa.RecordBatch]:
        raise AssertionError


class Listed(Nothing):
    """The rows that the log lists."""

    def __init__(self, log: Log, name: str, version: int) -> None:
        self._log, self._name, self._version = log, name, version

    def entries(self) -> Iterator[Entry]:
        return register.members(self._log, self._name, self._version)


class Folder:
    """The rows of a folder."""

    def __init__(self, folder: Path, manifest: Manifest) -> None:
        self._folder = folder
        self._manifest = manifest
        self._batches = self._all()
        self._held: list[tuple[int, pa.RecordBatch]] = []

    def entries(self) -> Iterator[Entry]:
        logs = [uuid_bytes(cut.log_id) for cut in self._manifest.built.cuts]
        return index.entries(self._folder / ROWS, logs)

    def piece(self, place: int, count: int) -> list[pa.RecordBatch]:
        self._held = [(first, batch) for first, batch in self._held if first + batch.num_rows > place]
        while self._end() < place + count:
            first, batch = next(self._batches)
            if first + batch.num_rows > place:
                self._held.append((first, batch))
        found = []
        for first, batch in self._held:
            start, end = max(place, first), min(place + count, first + batch.num_rows)
            if start < end:
                found.append(batch.slice(start - first, end - start))
        return found

    def _end(self) -> int:
        return self._held[-1][0] + self._held[-1][1].num_rows if self._held else 0

    def _all(self) -> Iterator[tuple[int, pa.RecordBatch]]:
        first = 0
        for name in self._manifest.shards:
            for batch in arrow.batches(self._folder / name):
                yield first, batch
                first += batch.num_rows


def of(log: Log, name: str, since: int, place: Path, *, view: str, text: str | None) -> Base:
    """What a build can take from version `since` of a name, 0 if there is none, whose folder would be in
    `place`; `view` and `text` are the build's own."""
    if not since:
        return Nothing()
    listed = Listed(log, name, since)
    try:
        release = find(log, Named(name, since))
        if (release.built.view, release.built.code.text) != (view, text):
            return listed
        folder = place / str(release.named)
        manifest = read(folder)
        fault = checking.fault(folder, manifest, release)
    except TrajlogError:
        return listed
    return listed if fault is not None else Folder(folder, manifest)
