"""A batch on its way out: its events, each once, as the bytes that Kafka keeps."""

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import NamedTuple

from msgspec.structs import replace

from core.codec import encode
from core.digest import event_digest
from core.errors import EventIdTaken
from core.event import Event
from core.identity import uuid_text
from eventlog.answers import Answer
from eventlog.log import MAX_BATCH_BYTES, MAX_BATCH_EVENTS, Appended, BatchTooLarge


class Outgoing(NamedTuple):
    """Events and their records' values, in order. `places`: of each event that was given, where among
    these it is; empty where none was given twice."""

    events: list[Event]
    values: list[bytes]
    places: list[int]


def outgoing(events: Sequence[Event], known: Callable[[list[bytes]], set[bytes]]) -> Outgoing:
    """Let a batch through the door as a whole. `BadEvent`, `BatchTooLarge`; `EventIdTaken` for an id with two
    contents, unless it follows from the content's source and is in the log: `known` says which ids are."""
    if len(events) > MAX_BATCH_EVENTS:
        raise BatchTooLarge(f"{len(events):,} events in one batch, more than {MAX_BATCH_EVENTS:,}", mend="split it")
    values: list[bytes] = []
    where: dict[bytes, int] = {}
    size = 0
    for event in events:
        value = encode(event)
        size += len(value)
        if size > MAX_BATCH_BYTES:
            raise BatchTooLarge(f"more than {MAX_BATCH_BYTES:,} bytes in one batch", mend="split it")
        values.append(value)
        where.setdefault(event.event_id, len(where))
    if len(where) == len(events):
        return Outgoing(list(events), values, [])
    return _each_once(events, values, where, known)


def _each_once(
    events: Sequence[Event],
    values: list[bytes],
    where: dict[bytes, int],
    known: Callable[[list[bytes]], set[bytes]],
) -> Outgoing:
    firsts: list[Event] = []
    kept: list[bytes] = []
    places: list[int] = []
    other: list[tuple[Event, Event]] = []
    for event, value in zip(events, values, strict=True):
        place = where[event.event_id]
        places.append(place)
        if place == len(firsts):
            firsts.append(event)
            kept.append(value)
        elif event_digest(event) != event_digest(firsts[place]):
            other.append((event, firsts[place]))
    there = known([event.event_id for event, _ in other]) if other else set()
    for event, first in other:
        same = event.stream == first.stream and event.owner == first.owner and event.event_id[6] >> 4 != 7
        if not same or event.event_id not in there:
            raise taken(event)
    return Outgoing(firsts, kept, places)


def repeated(future: Future[list[Answer]], places: list[int]) -> Future[list[Answer]]:
    """The answers to all events that were given: a repeat is a duplicate of its first."""
    whole: Future[list[Answer]] = Future()
    whole.set_running_or_notify_cancel()

    def tell(done: Future[list[Answer]]) -> None:
        told = done.result()
        seen: set[int] = set()
        answers: list[Answer] = []
        for place in places:
            answer = told[place]
            if place in seen and isinstance(answer, Appended):
                answer = replace(answer, duplicate=True)
            seen.add(place)
            answers.append(answer)
        whole.set_result(answers)

    future.add_done_callback(tell)
    return whole


def taken(event: Event) -> EventIdTaken:
    """The id of an event that stands for another."""
    return EventIdTaken(
        f"event id {uuid_text(event.event_id)} stands for another event",
        where=event.stream,
        mend="give each event an id of its own",
    )
