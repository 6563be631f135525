"""`trajlog quarantine`: looking at what could not be accepted, and deciding about it."""

import base64
import json
from collections.abc import Callable
from typing import Any
from uuid import UUID, uuid4

import pytest

from cli.main import run
from core.codec import encode
from core.event import Event
from core.identity import uuid_text
from core.vocabulary import payload
from core.vocabulary.access import RecordDropped, RecordRetried
from eventlog import database as postgres
from eventlog.kafka.client import Record
from eventlog.persister import quarantine
from eventlog.persister.decode import Fault
from eventlog.testing import an_event
from tests.databases import Database

Capture = pytest.CaptureFixture[str]
TOPIC = uuid4()


@pytest.fixture
def command(database: Database, capsys: Capture) -> Callable[..., Any]:
    def command(*arguments: str, code: int = 0) -> str:
        assert run(["quarantine", *arguments, "--db", database.url]) == code
        shown = capsys.readouterr()
        return shown.out + shown.err

    return command


def hold(database: Database, value: bytes | None, reason: str = "not_json", **given: Any) -> int:
    """Put a record into quarantine; its number."""
    with postgres.connect(database.url) as connection:
        row = connection.execute("SELECT coalesce(max(id), 0) FROM trajlog.quarantine").fetchone()
        offset = (row or (0,))[0] + 10
        record = Record(given.get("partition", 0), offset, given.get("key", b"k"), value, given.get("headers", ()))
        fault = Fault(reason, given.get("detail", "what was wrong"), given.get("event_id"), given.get("stream"))
        quarantine.hold(connection, TOPIC, [(record, fault)])
        row = connection.execute("SELECT max(id) FROM trajlog.quarantine").fetchone()
        assert row is not None
        return int(row[0])


def events(database: Database) -> list[Event]:
    with database.ledger() as log:
        return list(log.read_all())


def test_an_empty_quarantine_says_so(command: Callable[..., str]) -> None:
    assert command("ls") == "nothing is in quarantine\n"
    assert command("ls", "--json") == "[]\n"
    assert command("ls", "--reason", "refused") == "no record matches\n"


def test_records_are_listed_the_latest_first(command: Callable[..., str], database: Database) -> None:
    first = hold(database, b"not json\x1b[31m", stream="episode/a")
    second = hold(database, None, "null_value", partition=2)
    lines = command("ls").splitlines()
    assert lines[0].split() == ["N", "when", "reason", "partition", "offset", "stream", "detail"]
    assert [line.split()[0] for line in lines[1:]] == [str(second), str(first)]
    rows = json.loads(command("ls", "--json"))
    assert [row["record"] for row in rows] == [second, first]
    assert rows[1] == {
        "record": first,
        "state": "held",
        "reason": "not_json",
        "detail": "what was wrong",
        "topic_id": str(TOPIC),
        "partition": 0,
        "offset": rows[1]["offset"],
        "event_id": None,
        "stream": "episode/a",
        "size": 13,
        "quarantined_at": rows[1]["quarantined_at"],
    }


@pytest.mark.parametrize(
    ("arguments", "count"),
    [
        (["--reason", "not_json"], 2),
        (["--partition", "1"], 1),
        (["--stream", "episode/a"], 1),
        (["--since", "1h"], 3),
        (["--since", "2999-01-01"], 0),
        (["--state", "dropped"], 1),
        (["--state", "all"], 4),
        (["--limit", "2"], 2),
    ],
)
def test_filters(command: Callable[..., str], database: Database, arguments: list[str], count: int) -> None:
    hold(database, b"a", stream="episode/a")
    hold(database, b"b", partition=1)
    hold(database, b"c", "misrouted")
    command("drop", str(hold(database, b"d", "misrouted")))
    assert len(json.loads(command("ls", "--json", *arguments))) == count


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["ls", "--state", "x"], "no such state: 'x'"),
        (["ls", "--reason", "x"], "no such reason: 'x'"),
        (["ls", "--since", "x"], "'x'"),
        (["ls", "--limit", "0"], "--limit"),
        (["show", "x"], "'x'"),
        (["retry"], "N"),
    ],
)
def test_a_mistake_is_one_line(command: Callable[..., str], arguments: list[str], said: str) -> None:
    assert said in command(*arguments, code=2)


@pytest.mark.parametrize("verb", ["show", "retry", "drop"])
def test_a_number_that_is_not_there_is_said(command: Callable[..., str], verb: str) -> None:
    assert "no record 999 in quarantine" in command(verb, "999", code=1)


def test_show_shows_the_bytes_and_cleans_them(command: Callable[..., str], database: Database) -> None:
    number = hold(database, b"\x1b[31m\xff" + b"x" * 3_000, key=b"key\x00", headers=(("h", b"\x01"),))
    shown = command("show", str(number))
    assert "\x1b" not in shown
    assert "\\xff" in shown
    assert "1,006 bytes more" in shown
    found = json.loads(command("show", str(number), "--json"))
    assert base64.b64decode(found["value"]) == b"\x1b[31m\xff" + b"x" * 3_000
    assert base64.b64decode(found["key"]) == b"key\x00"
    assert [[name, base64.b64decode(value)] for name, value in found["headers"]] == [["h", b"\x01"]]


def test_a_retried_record_is_an_event_and_leaves_one(command: Callable[..., str], database: Database) -> None:
    event = an_event("episode/a")
    number = hold(database, encode(event), "misrouted", event_id=event.event_id)
    found = json.loads(command("retry", str(number), "--json"))
    assert found == {
        "record": number,
        "accepted": True,
        "event_id": uuid_text(event.event_id),
        "stream": "episode/a",
        "version": 1,
        "position": 1,
        "why": None,
    }
    stored = events(database)
    assert [e.event_id for e in stored[:1]] == [event.event_id]
    assert payload(stored[1]) == RecordRetried(number, True, "misrouted")
    assert "was retried already" in command("retry", str(number), code=1)
    assert len(events(database)) == 2


def test_a_retried_record_that_the_log_has_is_a_duplicate(command: Callable[..., str], database: Database) -> None:
    event = an_event("episode/a")
    with database.ledger() as log:
        log.append(event)
    number = hold(database, encode(event), "misrouted")
    assert "where it was already" in command("retry", str(number))
    assert len(events(database)) == 2


def test_what_is_still_no_event_stays_and_the_try_is_recorded(command: Callable[..., str], database: Database) -> None:
    number = hold(database, b"not json")
    assert f"{number}: still no event: " in command("retry", str(number), code=1)
    (left,) = events(database)
    found = payload(left)
    assert isinstance(found, RecordRetried)
    assert (found.record, found.accepted) == (number, False)
    assert len(json.loads(command("ls", "--json"))) == 1


def test_a_refused_event_stays_refused(command: Callable[..., str], database: Database) -> None:
    event = an_event("episode/a", expected_version=0)
    number = hold(database, encode(event), "refused", event_id=event.event_id)
    assert "a refused event stays refused" in command("retry", str(number), code=1)
    assert events(database) == []


def test_a_taken_id_stays_taken(command: Callable[..., str], database: Database) -> None:
    event = an_event("episode/a")
    with database.ledger() as log:
        log.append(event)
    number = hold(database, encode(an_event("episode/b", event_id=event.event_id)), "id_taken")
    assert "stands for another event" in command("retry", str(number), code=1)


def test_a_dropped_record_is_no_longer_listed_and_leaves_an_event(
    command: Callable[..., str], database: Database
) -> None:
    number = hold(database, b"junk")
    assert command("drop", str(number), "--why", "a test") == f"{number}: dropped\n"
    assert command("ls") == "nothing is in quarantine\n"
    found = payload(events(database)[0])
    assert isinstance(found, RecordDropped)
    assert (found.record, found.why) == (number, "a test")
    assert json.loads(command("show", str(number), "--json"))["state"] == "dropped"
    assert "was dropped already" in command("drop", str(number), code=1)


def test_the_topic_is_named_by_its_id(command: Callable[..., str], database: Database) -> None:
    number = hold(database, b"x")
    assert UUID(json.loads(command("show", str(number), "--json"))["topic_id"]) == TOPIC
