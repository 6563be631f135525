from collections.abc import Iterable, Sequence

import pytest

from core.errors import BadEvent, EventIdTaken, TrajlogError, WrongExpectedVersion
from core.identity import uuid_text
from eventlog.inmemory import InMemoryLog
from eventlog.intake import append_lines
from eventlog.log import Accepted, Appended

NOTE = b'{"stream": "episode/a", "type": "NoteAdded", "payload": {"text": "x"}}\n'
ID = "0192d3c4-0000-7000-8000-000000000001"


def line(**fields: object) -> bytes:
    import json

    return json.dumps({"stream": "a", "type": "T", "payload": {}} | fields).encode() + b"\n"


def take(log: InMemoryLog, chunks: Iterable[bytes]) -> list[list[Appended]]:
    return [_appended(answers) for answers in append_lines(log, chunks)]


def _appended(answers: Sequence[Appended | Accepted]) -> list[Appended]:
    assert all(isinstance(answer, Appended) for answer in answers)
    return [answer for answer in answers if isinstance(answer, Appended)]


def test_what_has_arrived_is_one_commit_and_answered_in_order() -> None:
    log = InMemoryLog()
    first, second = take(log, [NOTE * 3, NOTE])
    assert [answer.position for answer in first + second] == [1, 2, 3, 4]
    assert len({event.committed_at for event in log.read_all()}) == 2
    assert [event.seq for event in log.read_all()] == [1, 2, 3, 4]


def test_lines_may_be_cut_anywhere_and_end_anyhow() -> None:
    log = InMemoryLog()
    data = b"\xef\xbb\xbf" + NOTE + b"\r\n  \n" + NOTE.rstrip()
    take(log, [data[i : i + 7] for i in range(0, len(data), 7)])
    assert log.head().position == 2


def test_an_answer_does_not_wait_for_the_next_line() -> None:
    log = InMemoryLog()
    asked: list[int] = []

    def chunks() -> Iterable[bytes]:
        for n in range(3):
            asked.append(n)
            yield NOTE

    for n, answers in enumerate(append_lines(log, chunks())):
        assert [answer.position for answer in _appended(answers)] == [n + 1]
        assert asked == list(range(n + 1))


def test_payload_and_fields_are_kept_as_they_came() -> None:
    log = InMemoryLog()
    given = (
        b'{"stream": "s", "type": "Unheard", "schema": 7, "payload": {"b" : 1.50, "a": "\\u0000"}, "actor": "device",'
        b' "occurred_at": "2026-01-02T03:04:05Z", "causation_id": "' + ID.encode() + b'", "correlation_id": "c",'
        b' "conversation": "v", "event_id": "' + ID.encode() + b'", "expected_version": 0, "owner": null}\n'
    )
    take(log, [given])
    (event,) = log.read("s")
    assert event.body == b'{"b" : 1.50, "a": "\\u0000"}'
    assert (event.type, event.schema, event.actor, event.correlation_id, event.conversation) == (
        "Unheard",
        7,
        "device",
        "c",
        "v",
    )
    assert uuid_text(event.event_id) == ID == uuid_text(event.causation_id or b"")
    assert event.occurred_at == 1_767_323_045_000_000


@pytest.mark.parametrize(
    ("bad", "kind", "words"),
    [
        (b"nope\n", BadEvent, "line 3: malformed JSON"),
        (b'{"stream": "a", "type": "T", "payload": {"a": NaN}}\n', BadEvent, "line 3: holds NaN"),
        (b'{"stream": "a", "type": "T", "payload": {"a": "\\ud800"}}\n', BadEvent, r"line 3: holds \\ud800"),
        (b'{"stream": "a", "type": "T", "payload": {"a": "\xff"}}\n', BadEvent, "line 3, .*payload is not"),
        (b'{"stream": "a"\n', BadEvent, "line 3: cut short"),
        (line(sream="x"), BadEvent, "line 3: not an event: .*`sream`"),
        (b'{"stream": "a", "type": "T"}\n', BadEvent, "missing required field `payload`"),
        (line(payload=5), BadEvent, "payload is not a JSON object"),
        (line(payload={"a": "x" * 1_000_001}), BadEvent, "more than 1,000,000"),
        (line(stream="a\0"), BadEvent, "stream holds a NUL"),
        (line(stream="a" * 513), BadEvent, "more than 512"),
        (line(stream=5), BadEvent, "Expected `str`"),
        (line(type="no type"), BadEvent, "not a CamelCase name"),
        (line(schema=0), BadEvent, "schema 0"),
        (line(event_id="zz"), BadEvent, "line 3, event_id: 'zz' is not a UUID"),
        (line(occurred_at="148000-01-01T00:00:00Z"), BadEvent, "line 3, occurred_at: .*not RFC 3339"),
        (line(owner="me"), BadEvent, "need encryption"),
        (line(type="NoteAdded", payload={"text": 5}), BadEvent, "line 3, payload: payload does not fit NoteAdded"),
        (line(stream="episode/a", expected_version=7), WrongExpectedVersion, "line 3, episode/a: expected version 7"),
    ],
)
def test_the_first_bad_line_is_named_and_what_came_before_it_stands(
    bad: bytes, kind: type[TrajlogError], words: str
) -> None:
    log = InMemoryLog()
    answered: list[Appended] = []
    with pytest.raises(kind, match=words):
        for answers in append_lines(log, [NOTE + b"\n" + bad + NOTE]):
            answered += _appended(answers)
    assert [answer.version for answer in answered] == [1]
    assert log.head().position == 1


def test_a_line_without_end_is_refused_before_it_fills_the_memory() -> None:
    log = InMemoryLog()

    def endless() -> Iterable[bytes]:
        yield b'{"stream": "'
        while True:
            yield b"x" * 1_000_000

    with pytest.raises(BadEvent, match="line 1: a line of more than"):
        take(log, endless())


def test_a_line_with_an_id_can_be_sent_again() -> None:
    log = InMemoryLog()
    again = line(event_id=ID, payload={"n": 1})
    ((first,),) = take(log, [again])
    ((second,),) = take(log, [again])
    assert (second.position, second.duplicate) == (first.position, True)
    assert log.head().position == 1
    with pytest.raises(EventIdTaken, match="line 1, "):
        take(log, [line(event_id=ID, payload={"n": 2})])


def test_an_event_of_a_newer_schema_is_taken() -> None:
    log = InMemoryLog()
    take(log, [line(type="NoteAdded", schema=9, payload={"words": ["x"]})])
    assert log.head().position == 1
