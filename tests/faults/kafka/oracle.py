"""Judges what came of a scenario: where every record is that the broker confirmed. Pure.

It is in the ledger once, or in quarantine for a reason that it gives cause for, or named lost, if the
fault took it away. What the ledger holds is in stream order, dense, and whole.
"""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

from eventlog.verify.report import SEQ, Report

NONE: frozenset[str] = frozenset()


class Sent(NamedTuple):
    """A record that the broker confirmed. `era` counts what offsets meant: it grows when a topic is made anew or
    cut. `reasons`: for which it may stand in quarantine; `poison`: it is no event at all, and
    must. An `offset` of -1: the broker did not say where it lies."""

    era: int
    topic_id: bytes
    partition: int
    offset: int
    event_id: bytes | None = None
    stream: str | None = None
    digest: bytes | None = None
    expected: int | None = None
    reasons: frozenset[str] = NONE
    poison: bool = False


class Stored(NamedTuple):
    """An event as the ledger has it."""

    position: int
    stream: str
    version: int
    event_id: bytes
    digest: bytes


class Quarantined(NamedTuple):
    """A record in quarantine."""

    topic_id: bytes
    partition: int
    offset: int
    reason: str
    detail: str
    event_id: bytes | None = None


class Lost(NamedTuple):
    """A stretch of a partition that the log names lost; `until` None: up to its end."""

    topic_id: bytes
    partition: int
    first: int
    until: int | None


class Answer(NamedTuple):
    """What a client was told of an event that it waited for."""

    event_id: bytes
    stream: str
    version: int
    position: int


class Facts(NamedTuple):
    """All that is known after a run. `orders`: ids as each client handed them over for one stream; `unconfirmed`:
    ids that were handed over and may be in Kafka or not; `refused`: ids that a client
    was told were refused; `gone`: records that the fault took away; `own`: streams
    that trajlog itself writes."""

    sent: Sequence[Sent]
    ledger: Sequence[Stored]
    quarantine: Sequence[Quarantined]
    report: Report
    lost: Sequence[Lost] = ()
    orders: Sequence[Sequence[bytes]] = ()
    answers: Sequence[Answer] = ()
    unconfirmed: Collection[bytes] = ()
    refused: Collection[bytes] = ()
    gone: Collection[Sent] = ()
    own: tuple[str, ...] = ("kafka/", "quarantine/", "instance/")


def judge(facts: Facts) -> list[str]:
    """What is wrong, a line each; empty: all is as promised."""
    places = {event.event_id: event for event in facts.ledger}
    held = {(q.topic_id, q.partition, q.offset): q for q in facts.quarantine}
    return [
        *_doubles(facts),
        *_fates(facts, places, held),
        *_strangers(facts, held),
        *_dense(facts),
        *_orders(facts, places, held),
        *_answers(facts, places),
        *_refusals(facts, places),
        *_whole(facts),
    ]


def _doubles(facts: Facts) -> list[str]:
    counts = Counter(event.event_id for event in facts.ledger)
    return [f"double: event {event_id.hex()} is in the ledger {n} times" for event_id, n in counts.items() if n > 1]


def _fates(
    facts: Facts, places: Mapping[bytes, Stored], held: Mapping[tuple[bytes, int, int], Quarantined]
) -> list[str]:
    found = []
    for sent in facts.sent:
        where = f"partition {sent.partition}, offset {sent.offset} of era {sent.era}"
        quarantined = held.get((sent.topic_id, sent.partition, sent.offset))
        stored = None if sent.event_id is None or sent.poison else places.get(sent.event_id)
        if quarantined is not None and (quarantined.reason in sent.reasons or _other(facts, sent)):
            continue
        if quarantined is not None:
            found.append(f"stopped: what was accepted at {where} is in quarantine: {quarantined}")
        elif stored is not None:
            if (stored.stream, stored.digest) != (sent.stream, sent.digest):
                found.append(f"altered: what was accepted at {where} is not what the ledger holds under its id")
            elif sent.expected is not None and stored.version != sent.expected + 1 and not _again(facts, sent):
                found.append(f"unexpected: what was accepted at {where} expected version {sent.expected}: {stored}")
        elif sent not in facts.gone:
            found.append(f"lost: what was accepted at {where} is nowhere")
        elif not any(_names(lost, sent) for lost in facts.lost):
            found.append(f"silent: what was lost at {where} is not named")
    return found


def _other(facts: Facts, sent: Sent) -> bool:
    """Whether the same place held another record once, of another era, that may be the one in quarantine."""
    place = (sent.topic_id, sent.partition, sent.offset)
    return any(
        (other.topic_id, other.partition, other.offset) == place and other.era != sent.era and other.reasons
        for other in facts.sent
    )


def _again(facts: Facts, sent: Sent) -> bool:
    """Whether the same event was accepted elsewhere too."""
    return sum(other.event_id == sent.event_id for other in facts.sent) > 1


def _names(lost: Lost, sent: Sent) -> bool:
    same = (lost.topic_id, lost.partition) == (sent.topic_id, sent.partition)
    return same and lost.first <= sent.offset and (lost.until is None or sent.offset < lost.until)


def _strangers(facts: Facts, held: Mapping[tuple[bytes, int, int], Quarantined]) -> list[str]:
    known = {sent.event_id for sent in facts.sent} | set(facts.unconfirmed)
    places = {(sent.topic_id, sent.partition, sent.offset) for sent in facts.sent}
    gone = {(sent.topic_id, sent.partition) for sent in facts.gone}
    found = [
        f"stranger: nobody sent {event}"
        for event in facts.ledger
        if event.event_id not in known and not event.stream.startswith(facts.own)
    ]
    if not facts.unconfirmed:
        found += [
            f"stranger: nobody sent {record}"
            for place, record in held.items()
            if place not in places and record.event_id not in facts.refused
        ]
    if not gone:
        found += [f"named lost, though nothing was: {lost}" for lost in facts.lost if _held_back(facts, lost)]
    return found


def _held_back(facts: Facts, lost: Lost) -> bool:
    """Whether a stretch that is named lost held anything."""
    return any(_names(lost, sent) for sent in facts.sent)


def _dense(facts: Facts) -> list[str]:
    found: list[str] = []
    heads: dict[str, int] = {}
    for position, event in enumerate(facts.ledger, 1):
        heads[event.stream] = version = heads.get(event.stream, 0) + 1
        if event.position != position:
            return [*found, f"not dense: position {position} is not there, but {event.position}"]
        if event.version != version:
            found.append(f"not dense: {event} should have version {version}")
    return found


def _orders(
    facts: Facts, places: Mapping[bytes, Stored], held: Mapping[tuple[bytes, int, int], Quarantined]
) -> list[str]:
    found: list[str] = []
    for order in facts.orders:
        stored = [places[event_id] for event_id in order if event_id in places]
        found += [
            f"disorder: {later} was handed over before {earlier}"
            for later, earlier in pairwise(stored)
            if later.position > earlier.position
        ]
    gone = set(facts.gone)
    taken = [each for each in facts.sent if each.offset >= 0 and each[1:4] not in held]
    firsts: dict[bytes | None, Sent] = {}
    for sent in sorted(taken, key=lambda sent: (sent in gone, sent.era, sent.offset)):
        firsts.setdefault(sent.event_id, sent)
    streams: dict[str, Sent] = {}
    for event in facts.ledger:
        here = firsts.get(event.event_id)
        if here is None or event.event_id in facts.unconfirmed:
            continue
        before = streams.get(event.stream)
        if before is not None and (before.era, before.offset) > (here.era, here.offset):
            found.append(f"disorder: {event} lies at {here.offset} in Kafka, but comes after {before.offset}")
        streams[event.stream] = here
    return found


def _answers(facts: Facts, places: Mapping[bytes, Stored]) -> list[str]:
    found: list[str] = []
    for answer in facts.answers:
        stored = places.get(answer.event_id)
        if stored is None or (stored.stream, stored.version, stored.position) != answer[1:]:
            found.append(f"told otherwise: {answer}, but the ledger has {stored}")
    return found


def _refusals(facts: Facts, places: Mapping[bytes, Stored]) -> list[str]:
    held = {record.event_id for record in facts.quarantine if record.reason == "refused"}
    return [
        f"told otherwise: event {event_id.hex()} was refused, but {'is in the ledger' if there else 'is nowhere'}"
        for event_id in facts.refused
        if (there := event_id in places) or event_id not in held
    ]


def _whole(facts: Facts) -> list[str]:
    seqs_may_gap = bool(facts.quarantine or facts.gone or facts.unconfirmed)
    found = [f"not whole: {problem}" for problem in facts.report.problems if problem.kind != SEQ or not seqs_may_gap]
    if facts.report.position != len(facts.ledger):
        found.append(f"not whole: {facts.report.position} verified, {len(facts.ledger)} read")
    return found
