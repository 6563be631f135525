"""`eventlog.open` is the way in: embedded, by URL, or in memory."""

import threading

import pytest

import eventlog
from core.errors import SchemaMismatch, UsageError
from eventlog.embedded import Embedded
from eventlog.inmemory import InMemoryLog
from eventlog.log import Log
from eventlog.testing import an_event
from tests.databases import Database, Databases


def test_the_embedded_log_is_made_at_once_and_kept(stopped: Embedded) -> None:
    with eventlog.open(home=stopped.home) as log:
        answer = log.append(an_event("a"))
        log_id = log.log_id
    stopped.stop()
    with eventlog.open(home=stopped.home) as log:
        assert log.log_id == log_id
        assert log.append(an_event("a")).position == answer.position + 1


def test_several_may_open_a_new_log_at_once(stopped: Embedded) -> None:
    opened: list[Log] = []
    threads = [threading.Thread(target=lambda: opened.append(eventlog.open(home=stopped.home))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(opened) == 4
    assert len({log.log_id for log in opened}) == 1
    for log in opened:
        log.append(an_event("a"))
        log.close()


def test_a_url_opens_what_is_there_and_makes_nothing(database: Database, databases: Databases) -> None:
    with eventlog.open(database.url) as log:
        log.append(an_event("a"))
    with pytest.raises(SchemaMismatch, match="trajlog init"):
        eventlog.open(databases.bare().url)


def test_memory_holds_a_log_of_its_own() -> None:
    with eventlog.open("memory://") as one, eventlog.open("memory://") as other:
        assert isinstance(one, InMemoryLog)
        one.append(an_event("a"))
        assert other.head().position == 0


def test_a_log_behind_kafka_is_read_without_a_broker(database: Database) -> None:
    with eventlog.open(database.url) as direct:
        direct.append(an_event("a"))
        with eventlog.open(database.url, "kafka://127.0.0.1:9/nowhere", kafka={"client_id": "me"}) as log:
            assert not log.direct
            assert (log.log_id, log.head(), log.root()) == (direct.log_id, direct.head(), direct.root())
            assert list(log.read("a")) == list(log.read_all()) == list(direct.read_all())


@pytest.mark.parametrize(
    ("db", "log", "words"),
    [
        (None, "http://host/topic", "not a Kafka address"),
        (None, "kafka://host", "names no topic"),
        ("memory://", "kafka://host/topic", "ends in Postgres"),
    ],
)
def test_a_wrong_address_to_append_to_is_refused_before_anything_is_opened(
    db: str | None, log: str, words: str
) -> None:
    with pytest.raises(UsageError, match=words):
        eventlog.open(db, log)
