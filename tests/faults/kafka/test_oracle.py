"""The oracle sees what it is there to see: each fault planted in a sound run is named."""

from collections.abc import Callable
from typing import Any

import pytest

from eventlog.verify.report import Problem, Report
from tests.faults.kafka.oracle import Answer, Facts, Lost, Quarantined, Sent, Stored, judge

TOPIC, STREAMS = b"t" * 16, ("episode/a", "episode/b")


def an_id(number: int) -> bytes:
    return number.to_bytes(16, "big")


def report(position: int, *problems: Problem) -> Report:
    return Report(not problems, position, "", position, 2, 1, list(problems), [])


def sound() -> Facts:
    """Ten events of two streams, two clients; the last record is poison, in quarantine."""
    sent = [Sent(0, TOPIC, n % 2, n // 2, an_id(n), STREAMS[n % 2], b"d" * 32) for n in range(10)]
    ledger = [Stored(n + 1, STREAMS[n % 2], n // 2 + 1, an_id(n), b"d" * 32) for n in range(10)]
    poison = Sent(0, TOPIC, 0, 5, reasons=frozenset({"not_json"}), poison=True)
    return Facts(
        [*sent, poison],
        ledger,
        [Quarantined(TOPIC, 0, 5, "not_json", "not JSON")],
        report(10),
        orders=[[an_id(n) for n in range(0, 10, 2)], [an_id(n) for n in range(1, 10, 2)]],
        answers=[Answer(an_id(3), STREAMS[1], 2, 4)],
    )


def changed(facts: Facts, place: int, **fields: Any) -> list[Stored]:
    ledger = list(facts.ledger)
    ledger[place] = ledger[place]._replace(**fields)
    return ledger


def without(facts: Facts, place: int) -> list[Stored]:
    """As if the record had never been taken: all positions and versions are dense."""
    gone = facts.ledger[place]
    return [
        event._replace(
            position=event.position - (event.position > gone.position),
            version=event.version - (event.stream == gone.stream and event.version > gone.version),
        )
        for event in facts.ledger
        if event != gone
    ]


def swapped(facts: Facts) -> list[Stored]:
    """Two events of a stream in each other's place."""
    first, third = facts.ledger[0], facts.ledger[2]
    return [
        first._replace(event_id=third.event_id),
        facts.ledger[1],
        third._replace(event_id=first.event_id),
        *facts.ledger[3:],
    ]


def doubled(facts: Facts) -> list[Stored]:
    return [*facts.ledger, Stored(11, STREAMS[0], 6, an_id(0), b"d" * 32)]


PLANTED: dict[str, tuple[str, Callable[[Facts], Facts]]] = {
    "an event is nowhere": ("lost:", lambda f: f._replace(ledger=without(f, 4), report=report(9), answers=[])),
    "the poison is nowhere": ("lost:", lambda f: f._replace(quarantine=[])),
    "an event is there twice": ("double:", lambda f: f._replace(ledger=doubled(f), report=report(11))),
    "a stream has another order than Kafka": ("disorder:", lambda f: f._replace(ledger=swapped(f), orders=[])),
    "a stream has another order than its client": (
        "disorder:",
        lambda f: f._replace(ledger=swapped(f), sent=f.sent[3:], unconfirmed=[an_id(n) for n in range(3)]),
    ),
    "a position is missing": ("not dense:", lambda f: f._replace(ledger=changed(f, 9, position=11))),
    "a version is missing": ("not dense:", lambda f: f._replace(ledger=changed(f, 9, version=6))),
    "an event was changed": ("altered:", lambda f: f._replace(ledger=changed(f, 4, digest=b"x" * 32))),
    "an event was never sent": (
        "stranger:",
        lambda f: f._replace(ledger=[*f.ledger, Stored(11, "episode/c", 1, an_id(99), b"")], report=report(11)),
    ),
    "a good event is in quarantine": (
        "stopped:",
        lambda f: f._replace(
            ledger=without(f, 9),
            report=report(9),
            quarantine=[*f.quarantine, Quarantined(TOPIC, 1, 4, "bad_event", "")],
        ),
    ),
    "the reason is wrong": (
        "stopped:",
        lambda f: f._replace(quarantine=[f.quarantine[0]._replace(reason="null_value")]),
    ),
    "a loss is not named": (
        "silent:",
        lambda f: f._replace(ledger=without(f, 9), report=report(9), gone=[f.sent[9]], lost=[Lost(TOPIC, 1, 5, None)]),
    ),
    "what is there is named lost": ("named lost,", lambda f: f._replace(lost=[Lost(TOPIC, 1, 4, 5)])),
    "a client was told another place": (
        "told otherwise:",
        lambda f: f._replace(answers=[Answer(an_id(3), STREAMS[1], 2, 5)]),
    ),
    "an expected version was not the stream's": (
        "unexpected:",
        lambda f: f._replace(sent=[f.sent[0]._replace(expected=3), *f.sent[1:]]),
    ),
    "the tree is broken": (
        "not whole:",
        lambda f: f._replace(report=report(10, Problem("tree", 3, None, None, "another root"))),
    ),
    "a number of a writer is missing": (
        "not whole:",
        lambda f: f._replace(
            report=report(10, Problem("seq", 3, None, None, "a gap")), quarantine=[], sent=f.sent[:10]
        ),
    ),
    "verification read less than there is": ("not whole:", lambda f: f._replace(report=report(9))),
}


def test_a_sound_run_is_found_sound() -> None:
    assert judge(sound()) == []


def test_a_loss_that_is_named_is_no_fault() -> None:
    facts = sound()
    facts = facts._replace(
        ledger=without(facts, 9), report=report(9), gone=[facts.sent[9]], lost=[Lost(TOPIC, 1, 4, None)]
    )
    assert judge(facts) == []


def test_a_refused_event_is_no_fault() -> None:
    facts = sound()
    sent = [*facts.sent[:9], facts.sent[9]._replace(reasons=frozenset({"refused"})), facts.sent[10]]
    held = [*facts.quarantine, Quarantined(TOPIC, 1, 4, "refused", "expected version 9, but the stream was at 4")]
    assert judge(facts._replace(sent=sent, ledger=without(facts, 9), report=report(9), quarantine=held)) == []


@pytest.mark.parametrize("name", PLANTED)
def test_what_is_planted_is_found(name: str) -> None:
    words, plant = PLANTED[name]
    problems = judge(plant(sound()))
    assert [problem for problem in problems if problem.startswith(words)], problems
