"""What is no event goes into quarantine, whole and with its reason; nothing else waits."""

import json
from typing import Any

from msgspec.structs import replace

from core.codec import encode
from core.event import Event
from eventlog import database as postgres
from eventlog.persister import quarantine
from eventlog.testing import an_event
from tests.eventlog.persister.workbench import Workbench


def wire(event: Event, **changed: Any) -> bytes:
    return json.dumps(json.loads(encode(event)) | changed).encode()


def test_every_poison_is_quarantined_and_stops_nothing(bench: Workbench) -> None:
    stream = "episode/a"
    key, home = stream.encode(), bench.partition(stream)
    long = "episode/" + "x" * 4_000
    before, after = [an_event(stream) for _ in range(5)], [an_event(stream) for _ in range(5)]
    bench.send(before)
    poison: list[tuple[str, bytes | None, bytes | None, int | None]] = [
        ("not_json", key, b"not json", home),
        ("missing_fields", key, b"{}", home),
        ("too_large", key, b"x" * 20_000_000, home),
        ("null_value", key, None, home),
        ("misrouted", None, encode(an_event(stream)), home),
        ("misrouted", b"episode/b", encode(an_event(stream)), home),
        ("misrouted", key, encode(an_event(stream)), (home + 1) % bench.partitions),
        ("bad_event", b"episode/\0", wire(an_event(stream), stream="episode/\0"), bench.partition("episode/\0")),
        ("bad_event", long.encode(), wire(an_event(stream), stream=long), bench.partition(long)),
        ("bad_event", key, wire(an_event(stream), occurred_at="148000-01-01T00:00:00Z"), home),
        ("bad_event", key, wire(an_event(stream), occurred_at="9999-12-31T23:59:59.999999-23:59"), home),
    ]
    for _, poisoned_key, value, partition in poison:
        bench.put(poisoned_key, value, partition)
    bench.send(after)
    with bench.running() as worker:
        bench.drained(worker)
    assert bench.ids() == [event.event_id for event in before + after]
    assert sorted(reason for reason, _ in bench.quarantined()) == sorted(reason for reason, *_ in poison)
    assert sum(worker.metrics.quarantined.values()) == len(poison)
    sizes = bench.rows("SELECT octet_length(value) FROM trajlog.quarantine WHERE reason = 'too_large'")
    assert sizes == [(20_000_000,)]
    bench.whole()


def test_what_the_database_cannot_hold_is_found_and_quarantined_alone(bench: Workbench) -> None:
    """SQLSTATE 22 and 54 would fail the batch for ever."""
    events = [an_event("episode/a") for _ in range(40)]
    bad = {17: "22P05", 31: "54000"}
    for place, state in bad.items():
        events[place] = an_event("episode/a", type=f"Bad{state}")
    with bench.database.tampering() as connection:
        connection.execute(
            "CREATE OR REPLACE FUNCTION trajlog.choke() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
            "RAISE EXCEPTION 'cannot hold it' USING ERRCODE = substr(NEW.type, 4); END $$"
        )
        connection.execute(
            "CREATE TRIGGER choke BEFORE INSERT ON trajlog.event FOR EACH ROW WHEN (NEW.type LIKE 'Bad%') "
            "EXECUTE FUNCTION trajlog.choke()"
        )
    try:
        bench.send(events)
        with bench.running() as worker:
            bench.drained(worker)
    finally:
        with bench.database.tampering() as connection:
            connection.execute("DROP TRIGGER choke ON trajlog.event")
    good = [event.event_id for place, event in enumerate(events) if place not in bad]
    assert bench.ids() == good
    assert [reason for reason, _ in bench.quarantined()] == ["not_storable"] * 2
    bench.whole()


def test_a_wrong_expected_version_is_refused_and_blocks_nobody(bench: Workbench) -> None:
    first = an_event("episode/a", expected_version=0)
    wrong = an_event("episode/a", expected_version=7)
    second = an_event("episode/a", expected_version=1)
    bench.send([first, wrong, second])
    with bench.running() as worker:
        bench.drained(worker)
        bench.send([wrong, replace(wrong, expected_version=2)])
        bench.drained(worker)
    assert bench.ids() == [first.event_id, second.event_id]
    assert bench.quarantined() == [("refused", "expected version 7, but the stream was at 1")] * 3


def test_a_misrouted_record_can_be_retried_and_leaves_an_event(bench: Workbench) -> None:
    event = an_event("episode/a")
    bench.put(b"episode/b", encode(event), bench.partition("episode/b"))
    with bench.running() as worker:
        bench.drained(worker)
    with postgres.connect(bench.database.url) as connection:
        (held,) = quarantine.ls(connection, quarantine.Filters())
        done = quarantine.retry(connection, held.id)
        assert quarantine.ls(connection, quarantine.Filters()) == []
    assert done.appended is not None
    assert (done.appended.stream, done.appended.version) == ("episode/a", 1)
    found = bench.events()
    assert [each.type for each in found] == [event.type, "RecordRetried"]
    assert found[1].stream.startswith("quarantine/")
    bench.whole()
