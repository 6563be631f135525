"""Finds the format of a file by its first record, or says between which it cannot decide."""

from io import BytesIO
from typing import Any

from core.errors import BadRecord, TrajlogError, UsageError
from eventlog.interchange import Confidence, Importer, importers, names
from eventlog.interchange.records import Record, Rejected, records, text_fault
from eventlog.interchange.sources import HEAD, Source
from eventlog.interchange.split import MAX_RECORD, Reader

MAX_BAD = 100
"""How many bad records may stand before the first good one."""


def detect(source: Source, reader: Reader) -> Importer:
    """The importer that fits best; nothing is read but ahead. `BadRecord` if none fits, `UsageError`
    if two fit equally well."""
    head = reader.peek(HEAD)
    fits = _fits(head, None)
    if len(fits.get(Confidence.CERTAIN, [])) == 1:
        return fits[Confidence.CERTAIN][0]
    fault = text_fault(head)
    first, bad = None, None
    try:
        first = None if fault else _first(source, reader)
    except BadRecord as error:
        bad = error
    if first is not None:
        fits = _fits(head, first.value)
    best = max(fits)
    if best == Confidence.NO:
        raise bad or _unknown(source, fault, first)
    if len(fits[best]) > 1:
        fitting = " and ".join(sorted(importer.name for importer in fits[best]))
        raise UsageError(f"could be {fitting}", where=source.name, mend="say which with --format")
    return fits[best][0]


def _fits(head: bytes, first: dict[str, Any] | None) -> dict[Confidence, list[Importer]]:
    fits: dict[Confidence, list[Importer]] = {}
    for importer in importers():
        fits.setdefault(importer.sniff(head, first), []).append(importer)
    return fits


def _first(source: Source, reader: Reader) -> Record | None:
    """The first good record. `BadRecord` if there are records and all are bad."""
    size = HEAD
    while True:
        head = reader.peek(size)
        bad: Rejected | None = None
        for count, item in enumerate(records(source, Reader(BytesIO(head)))):
            if isinstance(item, Record):
                return item
            bad = bad or item
            if count == MAX_BAD:
                break
        if len(head) < size or size > MAX_RECORD:
            if bad:
                raise BadRecord(bad.why, where=bad.where, mend="mend the file")
            return None
        size *= 4


def _unknown(source: Source, fault: tuple[str, str] | None, first: Record | None) -> TrajlogError:
    if fault:
        return BadRecord(f"is {fault[0]}, not JSON", where=source.name, mend=fault[1])
    if first is None:
        return BadRecord("holds no records", where=source.name, mend="check how the file was written")
    keys = ", ".join(list(first.value)[:6])
    return BadRecord(
        f"is in no known format: its first record has {keys[:80] or 'no fields'}",
        where=source.name,
        mend=f"known formats: {', '.join(names())}",
    )
