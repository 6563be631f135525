"""Rows into a folder: chosen, written as text, digested, cut into shards.

Two passes over the view, a page at a time: the recipe chooses by facts, then the chosen rows are made. What a
release before holds unchanged is taken from its shards.
"""

from array import array
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa

from learners.recipe import canonical as recipe_bytes
from learners.releases import arrow, canonical, chat, index, order
from learners.releases.base import Base
from learners.releases.before import Before, Old
from learners.releases.index import Entry
from learners.releases.manifest import ORDER, ROWS, File
from learners.releases.register import Spool
from learners.releases.shards import Shards
from learners.releases.sources import Open
from learners.rows import Facts, Row
from learners.selection import Refuse, Selection, select

if TYPE_CHECKING:
    from learners.recipe import Recipe
    from learners.rows import RowView

Progress = Callable[[int, int], None]

_SOME = 64
_ORDER = pa.schema([pa.field("row", pa.uint64(), False), pa.field("weight", pa.float64(), False)])


class Written(NamedTuple):
    """What was written. `rows` by log; `voids` counts rows of the release before that are not what they were."""

    id: bytes
    rows: dict[bytes, int]
    shards: int
    files: dict[str, File]
    excluded: dict[str, int]
    origins: dict[str, int]
    voids: int

    @property
    def total(self) -> int:
        return sum(self.rows.values())


def schema(view: "RowView") -> pa.Schema:
    """The shards' declared schema."""
    key = [
        pa.field("log", pa.int32(), False),
        pa.field("stream", pa.string(), False),
        pa.field("version", pa.int64(), False),
        pa.field("row", pa.int64(), False),
    ]
    return pa.schema([*key, *view.schema(), *(chat.fields() if text_of(view) else [])])


def text_of(view: "RowView") -> str | None:
    """How the view's messages are written, None if it refers to none."""
    return chat.NAME if "part_version" in view.schema().names else None


class Writing:
    """A release on its way into an empty folder."""

    def __init__(
        self,
        view: "RowView",
        recipe: "Recipe",
        folder: Path,
        base: Base,
        fetch: chat.Fetch,
        spool: Spool,
        progress: Progress | None = None,
    ) -> None:
        self._view = view
        self._recipe = recipe
        self._folder = folder
        self._fetch = fetch
        self._progress = progress
        self._text = text_of(view)
        self._names = view.schema().names
        self._before = Before(base, spool)
        self._shards = Shards(folder, schema(view), base)
        self._index = index.Writer(folder / ROWS)
        self._origins: dict[str, int] = {}
        self._origin_of = array("H")
        self._weights: array[float] = array("d")
        self._faults: Counter[str] = Counter()
        self._done = 0

    def run(self, sources: Sequence[Open], refuse: Refuse | None = None) -> Written:
        """Write what the recipe chooses of these logs' rows; there are no shards where that is nothing."""
        selection = select(self._facts(sources), self._recipe, refuse)
        chosen = _Chosen(selection, self._origin_of)
        logs = {source.log_id: canonical.Rows() for source in sources}
        for number, source in enumerate(sources):
            found = chosen.of(self._view.rows(source.connection, source.log_id))
            while some := list(islice(found, _SOME)):
                self._some(number, source, some, logs[source.log_id])
                if self._progress:
                    self._progress(self._done, selection.kept)
        self._before.end()
        files = self._shards.close()
        shards = len(files)
        files[ROWS] = self._index.close()
        files[ORDER] = self._order()
        excluded = Counter(selection.excluded)
        for source in sources:
            excluded.update(self._view.left_out(source.connection))
        excluded.update(self._faults)
        release_id = canonical.release_id(
            self._view.name,
            self._view.version,
            self._text,
            recipe_bytes(self._recipe),
            [rows.digest() for rows in logs.values() if rows.count],
        )
        names = list(self._origins)
        return Written(
            release_id,
            {log_id: rows.count for log_id, rows in logs.items()},
            shards,
            files,
            dict(sorted(excluded.items())),
            {names[code]: count for code, count in sorted(chosen.origins.items(), key=lambda pair: names[pair[0]])},
            self._before.voids,
        )

    def _facts(self, sources: Sequence[Open]) -> Iterator[Facts]:
        for source in sources:
            for facts in self._view.facts(source.connection, source.log_id):
                self._origin_of.append(self._origins.setdefault(facts.origin_label, len(self._origins)))
                yield facts

    def _some(self, number: int, source: Open, some: "list[_Kept]", rows: canonical.Rows) -> None:
        olds: list[tuple[bytes, Old | None]] = []
        made: list[Row] = []
        for row, weight in some:
            old = self._before.meet(row.key, kept=weight is not None)
            reference = canonical.reference(row.values)
            olds.append((reference, old))
            if weight is not None and (old is None or not old.same(reference)):
                made.append(row)
        texts = self._texts(source, made)
        for (row, weight), (reference, old) in zip(some, olds, strict=True):
            if weight is None:
                continue
            if old is not None and old.same(reference):
                entry = old.entry
                self._shards.take(number, old.place)
            else:
                told = next(texts)
                if told.fault is not None:
                    self._faults[told.fault] += 1
                    self._before.lost(old)
                    continue
                _, stream, version, place = row.key
                values = (*row.values, *told.values)
                digest = canonical.row_digest(canonical.row_bytes(stream, version, place, values))
                entry = Entry(row.key, digest, reference, told.plain)
                self._shards.add((number, stream, version, place, *values))
                self._before.made(entry, old, row)
            self._index.add(number, entry)
            rows.add(entry.digest)
            self._weights.append(weight)
            self._done += 1

    def _texts(self, source: Open, rows: list[Row]) -> "Iterator[chat.Told]":
        if self._text is None:
            return iter([chat.Told((), True)] * len(rows))
        return chat.told(source.connection, rows, self._names, self._fetch) if rows else iter(())

    def _order(self) -> File:
        """The order of use, with the rows' weights."""
        file = arrow.Written(self._folder / ORDER, _ORDER)
        rows = len(self._weights)
        if rows:
            weights = pa.Array.from_buffers(pa.float64(), rows, [None, pa.py_buffer(self._weights)])
            used = order.order(self._recipe.seed, rows)
            made = pa.RecordBatch.from_arrays([used, weights.take(used)], schema=_ORDER)
            for first in range(0, rows, arrow.SHARD):
                file.add(arrow.joined([made.slice(first, arrow.SHARD)]))
        return file.close()


_Kept = tuple[Row, float | None]
"""A row, and its weight if it is kept."""


class _Chosen:
    """A selection while its rows come by. `origins` counts those of the kept ones."""

    def __init__(self, selection: Selection, origin_of: "array[int]") -> None:
        self._codes = iter(selection.codes)
        self._weights = iter(selection.weights)
        self._origin_of = iter(origin_of)
        self.origins: Counter[int] = Counter()

    def of(self, rows: Iterator[Row]) -> "Iterator[_Kept]":
        for row in rows:
            kept = next(self._codes) == 0
            origin = next(self._origin_of)
            self.origins[origin] += kept
            yield row, next(self._weights) if kept else None
