"""Logs of UK AISI's Inspect: the `.eval` archive, and the same as one JSON document.

Each sample of each epoch is a record of its own, read from the archive or cut out of the document one
at a time: `{"log": {version, eval, plan}, "sample": …}`, both as they were written. The rest of the
log (its status, results and statistics) is kept as one blob that its episodes name.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from tempfile import TemporaryFile
from typing import Any, BinaryIO, ClassVar

import msgspec
from msgspec import Raw

from core.errors import BadRecord
from eventlog.interchange import Confidence, Context, EpisodeDraft, Importer, Reader, Record, Rejected, Source
from eventlog.interchange.archive import Archive, Entry, Refused
from eventlog.interchange.inspect.sample import episode
from eventlog.interchange.mapping.messages import Fields
from eventlog.interchange.mapping.texts import check_texts
from eventlog.interchange.records import explain, text_fault
from eventlog.interchange.sources import HEAD
from eventlog.interchange.split import CHUNK, MAX_RECORD, Piece, members

_encode = msgspec.json.encode
_fields = msgspec.json.Decoder(dict[str, Raw]).decode
_IDENTITY = ("version", "eval", "plan")
_START, _HEADER = "_journal/start.json", "header.json"
_SAMPLE = re.compile(r"samples/.+\.json", re.DOTALL)
_PIECES = re.compile(
    r"(samples/.+_epoch_\d+)/(?:(?:sample|metadata|skeleton)\.json|(?:messages|events|calls|attachments)/)"
)
_DERIVED = re.compile(r"header\.json|summaries\.json|reductions\.json|_journal/.*|.*/", re.DOTALL)
_FIRST_NAMES = (b"_journal/", b"samples/", b"header.json", b"summaries.json", b"reductions.json")
_NOT_FINITE = re.compile(rb'"(?:[^"\\]|\\.)*+"|-?(?:NaN|Infinity)', re.DOTALL)
_OPENING = re.compile(rb'\s*\{\s*"version"\s*:\s*\d+\s*,\s*"status"\s*:\s*"[a-z]+"\s*,\s*"eval"\s*:\s*\{')


class Inspect(Importer):
    """An evaluation's log; each of its samples is an episode."""

    name: ClassVar[str] = "inspect"
    mapping: ClassVar[int] = 1
    suffixes: ClassVar[tuple[str, ...]] = (".eval", ".json")

    def __init__(self) -> None:
        self._log: bytes | None = None

    def sniff(self, head: bytes, first: dict[str, Any] | None) -> Confidence:
        if head.startswith(b"PK\3\4"):
            return Confidence.CERTAIN if head[30:].startswith(_FIRST_NAMES) else Confidence.NO
        if first is not None:
            spec = first.get("eval")
            whole = isinstance(spec, dict) and "task" in spec and {"run_id", "created"} & spec.keys()
            return Confidence.CERTAIN if whole and {"version", "status", "plan"} & first.keys() else Confidence.NO
        return Confidence.CERTAIN if _OPENING.match(head) else Confidence.NO

    def records(self, source: Source, reader: Reader) -> Iterator[Record | Rejected]:
        head = reader.peek(HEAD)
        if not head.startswith(b"PK\3\4") and (fault := text_fault(head)):
            raise BadRecord(f"is {fault[0]}, not an Inspect log", where=source.name, mend=fault[1])
        with _seekable(source, reader) as file:
            yield from (self._archive if head.startswith(b"PK\3\4") else self._document)(source, file)

    def episodes(self, record: Record, context: Context) -> Iterator[EpisodeDraft]:
        parts, finite = _parts(record)
        sample = msgspec.json.format(parts.sample, indent=-1)
        draft = episode(sample, parts.log, record.where, context.keep, self._log)
        if not finite:
            draft.unmapped["NaN or Infinity: read as null"] += 1
        yield draft

    def _archive(self, source: Source, file: BinaryIO) -> Iterator[Record | Rejected]:
        archive = Archive(file, source.name)
        by_name = {entry.name: entry for entry in archive.entries}
        header, start = (_read_log(archive, by_name.get(name)) for name in (_HEADER, _START))
        self._log = header or start
        log = _identity(start or header or b"{}")
        if log is None:
            raise BadRecord(
                "is no Inspect log: neither its header.json nor its _journal/start.json can be read",
                where=source.name,
                mend="check how the archive was written",
            )
        found = 0
        pieces: dict[str, int] = {}
        for entry in archive.entries:
            where = f"{source.name}:{entry.name}"
            if in_pieces := _PIECES.match(entry.name):
                pieces.setdefault(in_pieces[1], entry.offset)
            elif _SAMPLE.fullmatch(entry.name):
                found += 1
                yield _sample_entry(archive, entry, where, log)
            elif not _DERIVED.fullmatch(entry.name):
                yield Rejected(where, _why_left_out(archive, entry), entry.offset)
        for name, offset in pieces.items():
            what = "is stored in pieces, which is not read here: inspect log convert --to json makes it whole"
            yield Rejected(f"{source.name}:{name}", what, offset)
        if archive.cut:
            what = f"cut short: it ends at byte {archive.length} without the archive's directory"
            yield Rejected(source.name, what, archive.length)
        elif not found and not pieces:
            yield Rejected(source.name, "holds no samples", archive.length)

    def _document(self, source: Source, file: BinaryIO) -> Iterator[Record | Rejected]:
        header: dict[str, Raw] = {}
        for name, piece in members(_reader(file), "samples"):
            if name != "samples" and piece.data and not piece.cut and name:
                data, _ = _finite(piece.data)
                header[name] = Raw(data)
        self._log, log = None, None
        if "eval" in header:
            self._log = _valid(_encode(header))
            log = _identity(self._log or b"{}")
        if log is None:
            raise BadRecord("is no Inspect log: it has no eval that can be read", where=source.name)
        index = end = 0
        for name, piece in members(_reader(file), "samples"):
            end = piece.offset + len(piece.data or b"")
            if name == "samples":
                yield _sample(piece.data, piece, f"{source.name}[{index}]", log, end)
                index += 1
            elif piece.cut:
                yield Rejected(source.name, f"cut short: it ends at byte {end}, inside {name or 'a member'}", end)
        if not index:
            yield Rejected(source.name, "holds no samples", end)


class _Parts(msgspec.Struct, forbid_unknown_fields=True):
    """A record: what it says of the log, and the sample."""

    log: Raw
    sample: Raw


_decode = msgspec.json.Decoder(_Parts).decode


def _parts(record: Record) -> tuple[_Parts, bool]:
    """A record's parts; and whether it had no NaN or Infinity, with which it is no JSON yet."""
    try:
        return _decode(record.data), True
    except (ValueError, RecursionError):
        data, finite = _finite(record.data)
    fields = Fields(data, record.where)
    log, sample = fields.raw("log"), fields.raw("sample")
    if log is None or sample is None:
        raise fields.fault("this is no sample of an Inspect log")
    return _Parts(log, sample), finite


@contextmanager
def _seekable(source: Source, reader: Reader) -> Iterator[BinaryIO]:
    """The source as a file that can be read twice; stdin is copied to disk for that."""
    if source.path is not None and reader.offset == 0:
        with source.path.open("rb") as file:
            yield file
        return
    with TemporaryFile() as copy:
        while data := reader.read(CHUNK):
            copy.write(data)
        yield copy


def _reader(file: BinaryIO) -> Reader:
    file.seek(0)
    return Reader(file)


def _sample_entry(archive: Archive, entry: Entry, where: str, log: Raw) -> Record | Rejected:
    try:
        data = archive.read(entry)
    except Refused as error:
        return Rejected(where, f"refused: it {error}", entry.offset)
    return _sample(data, Piece(0, data), where, log, entry.offset)


def _sample(data: bytes | None, piece: Piece, where: str, log: Raw, offset: int) -> Record | Rejected:
    """A sample with what identifies its log, or why it is none."""
    if data is None:
        return Rejected(where, f"larger than {MAX_RECORD >> 20} MB (at byte {piece.offset})", offset)
    try:
        readable, _ = _finite(data)
        check_texts(readable)
        value = _fields(readable)
    except msgspec.ValidationError:
        return Rejected(where, f"not an object (at byte {piece.offset})", offset)
    except (ValueError, RecursionError) as error:
        return Rejected(where, explain(piece, error), offset)
    whole = b'{"log":' + bytes(log) + b',"sample":' + data + b"}"
    return Record(where, whole, dict.fromkeys(value), offset)


def _read_log(archive: Archive, entry: Entry | None) -> bytes | None:
    """The log's header from one of its files; None if it is not there or cannot be read."""
    if entry is None:
        return None
    try:
        data, _ = _finite(archive.read(entry))
    except Refused:
        return None
    return _valid(data)


def _identity(data: bytes) -> Raw | None:
    """What the record of each sample says of its log: what does not change while it is written."""
    header = _fields(data)
    if not bytes(header.get("eval", b"")).startswith(b"{"):
        return None
    return Raw(_encode({name: header[name] for name in _IDENTITY if name in header}))


def _valid(data: bytes) -> bytes | None:
    try:
        check_texts(data)
        _fields(data)
    except (ValueError, RecursionError):
        return None
    return data


def _finite(data: bytes) -> tuple[bytes, bool]:
    """JSON with its NaN and Infinity as null, which Inspect writes for samples that have no score; and
    whether it had none."""
    if b"NaN" not in data and b"Infinity" not in data:
        return data, True
    changed = _NOT_FINITE.sub(lambda found: found[0] if found[0][:1] == b'"' else b"null", data)
    return changed, changed == data


def _why_left_out(archive: Archive, entry: Entry) -> str:
    try:
        archive.read(entry)
    except Refused as error:
        return f"refused: it {error}"
    return "no part of an Inspect log: left out"
