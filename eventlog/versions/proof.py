"""Making proof packs: an episode's events, or one of them, that can be checked without the log.

See `core.proof` for what is in a pack, and docs/proofs.md for what it proves to whom.
"""

from collections.abc import Iterator
from typing import NamedTuple

from core.errors import Corrupt, NotFound, TrajlogError
from core.merkle import inclusion_proof
from core.proof import Head, Proven, event_line, head_line, included
from eventlog.log import Log, reader_of
from eventlog.versions.keys import Keys
from eventlog.versions.tags import sign, tag
from eventlog.versions.tree import Tree

_EXTENT = "SELECT min(version), max(version) FROM trajlog.event WHERE stream = %s AND position <= %s"


class Named(NamedTuple):
    """What to prove: a stream, or the event of one version in it."""

    stream: str
    version: int | None = None


def make(log: Log, keys: Keys, named: Named, *, under: str | None = None) -> tuple[Head, Iterator[bytes]]:
    """A pack, line by line: events of a stream as of the tag `under`, or of a root that is signed now.

    `NotFound` where there is no such tag or event, or none yet at the tag; `KeyLost`; `Corrupt` where an
    event is not what was committed.
    """
    receipt = sign(log, keys) if under is None else tag(log, under)
    size = receipt.tag.position
    with reader_of(log).borrow() as connection:
        first, last = connection.execute(_EXTENT, (named.stream, size)).fetchone() or (None, None)
    if first is None or (named.version or 1) > last:
        raise _absent(log, named, under, last or 0)
    if named.version is not None:
        first = last = named.version
    head = Head(receipt, last - first + 1)
    return head, _lines(log, head, named.stream, first - 1, last)


def _lines(log: Log, head: Head, stream: str, after: int, until: int) -> Iterator[bytes]:
    yield head_line(head)
    size, root = head.receipt.tag.position, head.receipt.tag.root
    with reader_of(log).borrow() as connection:
        tree = Tree(connection)
        for event in log.read(stream, after=after, until=until):
            path = inclusion_proof(event.position - 1, size, tree.node)
            proven = Proven(event.position, event.version, tuple(path), event)
            if not included(proven, size, root):
                raise Corrupt(
                    f"event {event.version} is not what was committed at position {event.position}",
                    where=stream,
                    mend="run: trajlog verify",
                )
            yield event_line(proven)


def _absent(log: Log, named: Named, under: str | None, last: int) -> TrajlogError:
    now = log.stream_head(named.stream)
    wanted = named.version or 1
    if wanted > now:
        return NotFound(f"there is no event {wanted}: the stream has {now}", where=named.stream)
    return NotFound(
        f"event {wanted} came after the tag, which knows {last} events of it",
        where=f"{named.stream} as of {under}",
        mend="make the proof without --tag",
    )
