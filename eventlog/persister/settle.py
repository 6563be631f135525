"""What becomes of each event of a batch, given what the log holds. Pure."""

from collections.abc import Mapping, MutableMapping
from typing import NamedTuple

from eventlog.commit import Known
from eventlog.pack import Packed
from eventlog.persister.decode import Fault


class Unsure(Exception):
    """An expected version does not fit: is the event known already? Look that up, and settle again."""


class Settled(NamedTuple):
    """`kept`: the places of the events that go into the log (None: all), with their `versions`; how many
    are `duplicates`; the `faults` of the others, by place."""

    kept: list[int] | None
    versions: list[int]
    duplicates: int = 0
    faults: tuple[tuple[int, Fault], ...] = ()


def settle(
    packed: Packed,
    heads: MutableMapping[str, int],
    known: Mapping[bytes, Known] | None,
    refused: MutableMapping[bytes, str],
    seen: MutableMapping[bytes, Known],
) -> Settled:
    """Settle the events in order; `heads` moves with them.

    `known`: those of the ids that the log has (None: not looked up; then nothing is a duplicate, and
    `Unsure` where that matters). `refused`: ids that were refused once and stay so, and why. `seen`: the ids of
    this transaction so far. The test for a duplicate comes before that of the expected version.
    """
    if known is None and not refused:
        versions = _versions(packed, heads)
        if versions is None:
            raise Unsure
        return Settled(None, versions)
    kept, versions, faults, duplicates = [], [], [], 0
    for place, event_id in enumerate(packed.ids):
        stream, owner, digest = packed.streams[place], packed.owners[place], packed.digests[place]
        there = (known or {}).get(event_id) or seen.get(event_id)
        head = heads.get(stream, 0)
        expected = packed.expected[place]
        if there is not None:
            if there.same(event_id, stream, owner, digest):
                duplicates += 1
            else:
                faults.append((place, Fault("id_taken", _taken(there), event_id, stream)))
        elif event_id in refused:
            if known is None:
                raise Unsure
            faults.append((place, Fault("refused", refused[event_id], event_id, stream)))
        elif expected is not None and expected != head:
            if known is None:
                raise Unsure
            refused[event_id] = _wrong_version(expected, head)
            faults.append((place, Fault("refused", refused[event_id], event_id, stream)))
        else:
            heads[stream] = head + 1
            seen[event_id] = Known(stream, head + 1, 0, owner, digest)
            kept.append(place)
            versions.append(head + 1)
    return Settled(kept if len(kept) < len(packed) else None, versions, duplicates, tuple(faults))


def _versions(packed: Packed, heads: MutableMapping[str, int]) -> list[int] | None:
    """Every event's version where none is known; None where an expected one does not fit."""
    versions = []
    for stream, expected in zip(packed.streams, packed.expected, strict=True):
        head = heads.get(stream, 0)
        if expected is not None and expected != head:
            return None
        heads[stream] = head = head + 1
        versions.append(head)
    return versions


def _wrong_version(expected: int, actual: int) -> str:
    """The detail of a refused event; its last word is the actual version."""
    return f"expected version {expected}, but the stream was at {actual}"


def _taken(there: Known) -> str:
    return f"the event id stands for another event, of stream {there.stream}, version {there.version}"
