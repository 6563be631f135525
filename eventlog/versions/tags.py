"""Tags: cuts with a name, for ever, each signed with the instance's key.

A row of `trajlog.tag` holds what was signed, the public key and the signature; whoever changes any of
it, or puts in a tag of his own, is found by `faults`.
"""

import re
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any, Final
from uuid import UUID

import msgspec

from core.errors import Corrupt, NotFound, TrajlogError, UsageError
from core.merkle import consistency_proof, verify_consistency
from core.tag import Receipt, Tag, offsets_bytes, read_offsets, tag_bytes
from eventlog.log import Log, reader_of
from eventlog.versions.cut import Cut, cut_at, resolve
from eventlog.versions.keys import Keys, signed
from eventlog.versions.rotation import instance_of, signer, vouched
from eventlog.versions.tree import Tree

MAX_WHY: Final = 4_000
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9._:+/-]{0,127}", re.ASCII)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_FIELDS: Final = (
    "name, uuid_send(log_id), uuid_send(instance_id), position, root, seal, offsets, created_at, why, key, signature"
)
_ALL = f"SELECT {_FIELDS} FROM trajlog.tag ORDER BY position, created_at, name"
_ONE = f"SELECT {_FIELDS} FROM trajlog.tag WHERE name = %s"
_INSERT = "INSERT INTO trajlog.tag VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s) ON CONFLICT DO NOTHING"
_NOW = (
    "SELECT greatest(clock_timestamp(), (SELECT committed_at FROM trajlog.segment ORDER BY last_position DESC LIMIT 1))"
)
_TYPES = (
    "SELECT type, count(*) FROM trajlog.event WHERE position > %s AND position <= %s GROUP BY type ORDER BY 2 DESC, 1"
)
_EPISODES = (
    "SELECT substr(stream, 9), min(version) = 1, count(*) FROM trajlog.event WHERE position > %s AND position <= %s "
    "AND stream LIKE 'episode/%%' GROUP BY stream ORDER BY min(position)"
)


class TagTaken(TrajlogError):
    """The name is a tag already."""

    def __init__(self, name: str, position: int) -> None:
        super().__init__(
            f"this tag stands at position {position}, for ever", where=name, mend="give the new one another name"
        )


class Changed(msgspec.Struct, frozen=True):
    """An episode with events between two cuts."""

    episode: str
    events: int


class Difference(msgspec.Struct, frozen=True):
    """What lies between two cuts, and the proof (RFC 9162, 2.1.4) that the later one extends the earlier."""

    old: Cut
    new: Cut
    types: dict[str, int]
    begun: list[Changed]
    changed: list[Changed]
    proof: list[bytes]


def create(log: Log, keys: Keys, name: str, *, at: str | None = None, why: str | None = None) -> Receipt:
    """Name the log as of `at` (default: now) for ever. The key is made if this is the first.

    `UsageError` for a bad name or reason, `TagTaken`, `NotFound` where there is no such cut, `KeyLost`.
    """
    if not _NAME.fullmatch(name):
        raise UsageError(
            "a tag's name is a letter and up to 127 more of letters, digits and ._:+/-",
            where=repr(name[:80]),
            mend="choose another",
        )
    if why is not None and ("\0" in why or why != why.encode(errors="replace").decode() or len(why) > MAX_WHY):
        raise UsageError(f"--why must be text of at most {MAX_WHY:,} characters", mend="say it shorter")
    _refuse_taken(log, name)
    receipt = sign(log, keys, name=name, at=at, why=why)
    tag = receipt.tag
    row = (
        tag.name,
        UUID(bytes=tag.log_id),
        UUID(bytes=tag.instance_id),
        tag.position,
        tag.root,
        tag.seal,
        offsets_bytes(tag.offsets) or None,
        _EPOCH + timedelta(microseconds=tag.created_at),
        tag.why,
        receipt.key,
        receipt.signature,
    )
    with reader_of(log).borrow() as connection:
        if connection.execute(_INSERT, row).rowcount:
            return receipt
    _refuse_taken(log, name)
    raise Corrupt("the tag was not written", where=name)


def sign(log: Log, keys: Keys, *, name: str | None = None, at: str | None = None, why: str | None = None) -> Receipt:
    """Sign the log as of `at` (default: now), once its tree is sealed that far."""
    log.seal()
    cut = cut_at(log, log.head().position) if at is None else resolve(log, at)
    if cut.position == 0:
        what = "the log has no events yet" if log.head().position == 0 else f"{at} is before the first event"
        raise NotFound(what, where=name, mend="there is nothing to sign")
    key = signer(log, keys)
    with reader_of(log).borrow() as connection:
        (created_at,) = connection.execute(_NOW, binary=True).fetchone() or (0,)
    offsets = tuple((topic, partition, n) for (topic, partition), n in sorted(cut.offsets.items()))
    tag = Tag(
        name=name,
        log_id=cut.log_id,
        instance_id=instance_of(log),
        position=cut.position,
        root=cut.root,
        seal=cut.seal,
        offsets=offsets,
        created_at=created_at,
        why=why,
    )
    return Receipt(tag, key.key, key.sign(tag_bytes(tag)))


def tags(log: Log) -> list[Receipt]:
    """Every tag, by position."""
    with reader_of(log).borrow() as connection:
        return [_receipt(row) for row in connection.execute(_ALL, binary=True).fetchall()]


def tag(log: Log, name: str) -> Receipt:
    """The tag of that name. `NotFound`."""
    found = _find(log, name)
    if found is None:
        raise NotFound("no such tag", where=repr(name[:80]), mend="trajlog tag ls lists them")
    return found


def trusted(log: Log, keys: Keys, receipts: Iterable[Receipt], *given: bytes) -> frozenset[bytes]:
    """The public keys that the key folder, or who asks, vouches for."""
    return vouched(log, {receipt.tag.instance_id for receipt in receipts}, keys.held() | set(given))


def fault(log: Log, receipt: Receipt) -> str | None:
    """What is wrong with a tag of this log, or None: its signature, or that the log is not what it names."""
    tag = receipt.tag
    if not signed(receipt.key, tag_bytes(tag), receipt.signature):
        return "the signature is not that of what the tag says"
    if tag.log_id != log.log_id:
        return "a tag of another log"
    head = log.head().position
    if tag.position > head:
        return f"the log ends at position {head}: positions {head + 1} to {tag.position} were lost"
    try:
        cut = cut_at(log, tag.position)
    except Corrupt as error:
        return str(error)
    if cut.root != tag.root:
        return f"the events up to position {tag.position} are not those that were tagged"
    if cut.seal != tag.seal:
        return f"the commits up to position {tag.position} are not those that were tagged"
    if tuple((topic, partition, n) for (topic, partition), n in sorted(cut.offsets.items())) != tag.offsets:
        return f"the offsets up to position {tag.position} are not those that were tagged"
    return None


def diff(log: Log, one: str, other: str) -> Difference:
    """What lies between two cuts, each a TAG, POSITION or TIME. `Corrupt` where the later does not extend
    the earlier as it was tagged."""
    log.seal()
    reader = reader_of(log)
    old, new = sorted((_cut(log, one), _cut(log, other)), key=lambda cut: cut.position)
    with reader.borrow() as connection:
        types = dict(connection.execute(_TYPES, (old.position, new.position)).fetchall())
        episodes = connection.execute(_EPISODES, (old.position, new.position)).fetchall()
        proof = consistency_proof(old.position, new.position, Tree(connection).node) if old.position else []
    if old.position and not verify_consistency(old.position, new.position, old.root, new.root, proof):
        raise Corrupt(
            f"the log up to position {new.position} does not extend that up to position {old.position}",
            mend="run: trajlog verify",
        )
    return Difference(
        old,
        new,
        types,
        [Changed(episode, count) for episode, begun, count in episodes if begun],
        [Changed(episode, count) for episode, begun, count in episodes if not begun],
        proof,
    )


def _cut(log: Log, text: str) -> Cut:
    """The cut that `text` names; for a tag, with the root that was signed."""
    cut = resolve(log, text)
    named = _find(log, text)
    return msgspec.structs.replace(cut, root=named.tag.root) if named else cut


def _find(log: Log, name: str) -> Receipt | None:
    if not _NAME.fullmatch(name):
        return None
    with reader_of(log).borrow() as connection:
        row = connection.execute(_ONE, (name,), binary=True).fetchone()
    return _receipt(row) if row else None


def _refuse_taken(log: Log, name: str) -> None:
    taken = _find(log, name)
    if taken is not None:
        raise TagTaken(name, taken.tag.position)


def _receipt(row: tuple[Any, ...]) -> Receipt:
    tag = Tag(
        name=row[0],
        log_id=row[1],
        instance_id=row[2],
        position=row[3],
        root=row[4],
        seal=row[5],
        offsets=read_offsets(row[6] or b""),
        created_at=row[7],
        why=row[8],
    )
    return Receipt(tag, row[9], row[10])
