"""Which key signs for this instance, and which keys are vouched for.

A rotation is an event in the stream `instance/<id>`: the old key signs its successor, and the new key
accepts the old. So whoever trusts one of the two can trust the other, and nobody who holds neither can
put a key of his own into the chain.
"""

from collections.abc import Iterable, Iterator
from typing import Final
from uuid import UUID

from core.errors import UsageError
from core.identity import uuid8, uuid_text
from core.tag import ROTATION_LABEL, rotation_bytes, unhex
from core.vocabulary import payload
from core.vocabulary.access import KeyRotated
from eventlog.log import Log, reader_of
from eventlog.versions.keys import KeyLost, Keys, Signer, signed
from eventlog.writer import Writer

WRITER: Final = "keys"

_INSTANCE = "SELECT instance_id FROM trajlog.log"
_LAST_KEY = "SELECT key FROM trajlog.tag WHERE instance_id = %s ORDER BY created_at DESC LIMIT 1"
_KIND: Final = "instance_signing"


def instance_of(log: Log) -> bytes:
    """The id of this copy of the log."""
    with reader_of(log).borrow() as connection:
        row = connection.execute(_INSTANCE).fetchone()
    assert row is not None
    instance: UUID = row[0]
    return instance.bytes


def signer(log: Log, keys: Keys) -> Signer:
    """The key that signs for this instance; the first time, it is made. `KeyLost` if it was there once."""
    instance_id = instance_of(log)
    if keys.successor(instance_id):
        return rotate(log, keys)
    found = keys.signer(instance_id)
    if found is None and (last := last_key(log, instance_id)):
        found = keys.signer(instance_id)  # somebody else may have made it meanwhile, and signed
        if found is None:
            raise KeyLost(last, keys.folder)
    return found or keys.make(instance_id)


def rotate(log: Log, keys: Keys, *, lost: bool = False, why: str | None = None) -> Signer:
    """Replace the instance's key. One that was interrupted is finished, however often it is begun.

    `lost`: the old key is gone and cannot sign; tags that it signed are vouched for by nobody then.
    `UsageError` where there is no key yet, or where it is said to be lost and is not; `KeyLost`.
    """
    instance_id = instance_of(log)
    old = keys.signer(instance_id)
    last = old.key if old else last_key(log, instance_id)
    if last is None:
        raise UsageError("there is no key yet", where=str(keys.folder), mend="the first tag makes one")
    if lost and old is not None:
        raise UsageError("the key is not lost", where=str(keys.folder), mend="leave --lost out: it can sign")
    if not lost and old is None:
        raise KeyLost(last, keys.folder)
    new = keys.make_successor(instance_id)
    data = rotation_bytes(log.log_id, instance_id, last, new.key)
    rotated = KeyRotated(
        key=_KIND,
        new=new.key.hex(),
        old=last.hex(),
        signature=old.sign(data).hex() if old else None,
        accepted=new.sign(data).hex(),
        why=why,
    )
    event_id = uuid8(ROTATION_LABEL, log.log_id, instance_id, last, new.key)
    log.append(Writer(WRITER).event(_stream(instance_id), rotated, event_id=event_id))
    keys.succeed(instance_id)
    return new


def last_key(log: Log, instance_id: bytes) -> bytes | None:
    """The public key that signed for an instance last, as far as the log knows."""
    new = [unhex(event.new, 32) for event in _rotations(log, instance_id)]
    if new:
        return new[-1]
    with reader_of(log).borrow() as connection:
        row = connection.execute(_LAST_KEY, (UUID(bytes=instance_id),)).fetchone()
    return bytes(row[0]) if row else None


def vouched(log: Log, instances: Iterable[bytes], trusted: Iterable[bytes]) -> frozenset[bytes]:
    """The trusted public keys, and those that rotations of these instances join to them."""
    links = [(old, new) for instance_id in instances for old, new in _links(log, instance_id) if old != new]
    found = set(trusted)
    while more := {key for link in links if found & set(link) for key in link} - found:
        found |= more
    return frozenset(found)


def _links(log: Log, instance_id: bytes) -> Iterator[tuple[bytes, bytes]]:
    """The (old, new) keys of each rotation that both have signed."""
    for event in _rotations(log, instance_id):
        if event.old is None or event.signature is None or event.accepted is None:
            continue
        try:
            old, new = unhex(event.old, 32), unhex(event.new, 32)
            signatures = unhex(event.signature, 64), unhex(event.accepted, 64)
        except ValueError:
            continue
        data = rotation_bytes(log.log_id, instance_id, old, new)
        if signed(old, data, signatures[0]) and signed(new, data, signatures[1]):
            yield old, new


def _rotations(log: Log, instance_id: bytes) -> Iterator[KeyRotated]:
    for event in log.read(_stream(instance_id)):
        said = payload(event)
        if isinstance(said, KeyRotated) and said.key == _KIND:
            yield said


def _stream(instance_id: bytes) -> str:
    return f"instance/{uuid_text(instance_id)}"
