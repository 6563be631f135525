"""Rows into a folder: chosen, written as text, digested, cut into shards.

Two passes over the view, a page at a time: the recipe chooses by facts, then the chosen rows are made. What a
release before holds unchanged is taken from its shards. While a page is made, the events of the next are read
and the batch before is written, each by a thread of its own.
"""

from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa

from eventlog.collector import no_collector
from learners.recipe import canonical as recipe_bytes
from learners.releases import arrow, canonical, chat, events, index, order
from learners.releases.base import Base
from learners.releases.before import Before, Old
from learners.releases.events import Alike
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

_PAGE = 64
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
        self._base = base
        self._fetch = fetch
        self._progress = progress
        self._text = text_of(view)
        names = view.schema().names
        self._parts = [names.index(name) for name in chat.PARTS] if self._text else []
        self._before = Before(base, spool)
        self._index = index.Writer(folder / ROWS)
        self._origins: dict[str, int] = {}
        self._origin_of = array("H")
        self._weights: array[float] = array("d")
        self._count = 0
        self._faults: Counter[str] = Counter()

    def run(self, sources: Sequence[Open], refuse: Refuse | None = None) -> Written:
        """Write what the recipe chooses of these logs' rows; there are no shards where that is nothing."""
        with no_collector(), ThreadPoolExecutor(1) as reader, ThreadPoolExecutor(1) as writer:
            selection = select(self._facts(sources), self._recipe, refuse)
            self._weights = selection.weights
            chosen = _Chosen(selection, self._origin_of)
            logs = {source.log_id: canonical.Rows() for source in sources}
            shards = Shards(self._folder, schema(self._view), self._base, writer)
            for number, source in enumerate(sources):
                found = chosen.of(self._view.rows(source.connection, source.log_id))
                for page in _ahead(self._pages(source, found, reader)):
                    self._put(number, page, logs[source.log_id], shards)
                    if self._progress:
                        self._progress(self._count, selection.kept)
            self._before.end()
            files = shards.close()
        count = len(files)
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
            count,
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

    def _pages(self, source: Open, rows: "Iterator[_Kept]", reader: ThreadPoolExecutor) -> "Iterator[_Page]":
        """The rows by pages, their events on the way."""
        while some := list(islice(rows, _PAGE)):
            page = []
            for row, weight in some:
                old = self._before.meet(row.key, kept=weight is not None)
                if weight is not None:
                    reference = canonical.reference(row.values)
                    page.append(_Candidate(row, weight, reference, old, old is not None and old.same(reference)))
            streams = [one.row.key.stream for one in page if not one.same] if self._text else []
            yield _Page(page, reader.submit(events.read, source.connection, streams) if streams else None)

    def _put(self, number: int, page: "_Page", rows: canonical.Rows, shards: Shards) -> None:
        found = page.events.result() if page.events else {}
        for row, weight, reference, old, same in page.rows:
            if same and old is not None:
                entry = old.entry
                shards.take(number, old.place)
            else:
                told = self._told(row, found)
                if told.fault is not None:
                    self._faults[told.fault] += 1
                    self._before.lost(old)
                    continue
                _, stream, version, place = row.key
                values = (*row.values, *told.values)
                digest = canonical.row_digest(canonical.row_bytes(stream, version, place, values))
                entry = Entry(row.key, digest, reference, told.plain)
                shards.add((number, stream, version, place, *values))
                self._before.made(entry, old, row)
            self._index.add(number, entry)
            rows.add(entry.digest)
            self._weights[self._count] = weight
            self._count += 1

    def _told(self, row: Row, found: dict[str, list[Alike]]) -> chat.Told:
        """A row's text."""
        if self._text is None:
            return chat.Told((), True)
        parts = zip(*[row.values[i] for i in self._parts], strict=True)
        stream = row.key.stream
        return chat.conversation(stream, row.key.version, parts, events.decoded(found[stream]), self._fetch)

    def _order(self) -> File:
        """The order of use, with the rows' weights."""
        file = arrow.Written(self._folder / ORDER, _ORDER)
        rows = self._count
        weights = pa.Array.from_buffers(pa.float64(), rows, [None, pa.py_buffer(self._weights)])
        parts = order.order(self._recipe.seed, rows)
        for batch in arrow.by_shards(pa.record_batch([used, weights.take(used)], schema=_ORDER) for used in parts):
            file.add(batch)
        return file.close()


_Kept = tuple[Row, float | None]
"""A row, and its weight if it is kept."""


class _Candidate(NamedTuple):
    """A row that is kept. `same`: the `old` one's bytes are its own."""

    row: Row
    weight: float
    reference: bytes
    old: Old | None
    same: bool


class _Page(NamedTuple):
    rows: list[_Candidate]
    events: Future[dict[str, list[Alike]]] | None


def _ahead(pages: Iterable[_Page]) -> Iterator[_Page]:
    """Each page once the next is begun."""
    last = None
    for page in pages:
        if last is not None:
            yield last
        last = page
    if last is not None:
        yield last


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
