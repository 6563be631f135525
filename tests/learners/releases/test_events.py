"""What a row's text is made of is read many events at a time, each as if it were read alone."""

from pathlib import Path

import msgspec
import pyarrow as pa

from core import vocabulary
from core.vocabulary import BlobRef, Unknown
from core.vocabulary.episode import MessageRecorded
from eventlog.writer import Writer
from learners.releases import events
from learners.releases.events import Alone
from tests.databases import Database
from tests.eventlog import samples
from tests.learners.logs import random_log
from tests.learners.releases.making import append, episodes, nothing, released

TYPES = {"EpisodeStarted", "MessageRecorded", "ModelResponded", "ActionSubmitted", "FeedbackRecorded"}


def test_events_read_together_are_as_each_alone(database: Database) -> None:
    with database.ledger() as log:
        for batch in random_log(3):
            log.append_many(batch)
        stored = [event for event in log.read_all() if event.type in TYPES]
        streams = sorted({event.stream for event in stored})
        with log.reader.borrow() as connection:
            alike = events.read(connection, [*streams, "episode/none"])
    found = {stream: events.decoded(of_it) for stream, of_it in alike.items()}
    assert found.pop("episode/none") == {}
    kinds = set()
    for event in stored:
        read = found[event.stream][event.version]
        expected = vocabulary.payload(event)
        kinds.add((type(read) is Alone, isinstance(expected, Unknown)))
        assert (read.payload(nothing) if isinstance(read, Alone) else read) == expected
    assert kinds == {(False, False), (True, False), (True, True)}


def test_one_bad_event_leaves_those_beside_it_as_they_are(database: Database, tmp_path: Path) -> None:
    found = episodes(2)
    one, two = found
    blob = BlobRef("sha256:" + "5" * 64, 70_000, "text/plain")
    found[two].insert(1, MessageRecorded(role="system", content=samples.raw(msgspec.to_builtins(blob))))
    writer = Writer("test")
    with database.ledger() as log:
        append(log, found)
        log.append_many([writer.raw(one, "ModelResponded", b'{"step":99,"finish_reason":5}')])
        built = released(log, tmp_path, blobs={blob.address: b"x" * blob.size}).release.built
    assert (built.rows, built.exclusions) == (1, {"event unreadable": 1})
    table = pa.ipc.open_stream((tmp_path / "sft@v1/data-00000.arrow").read_bytes()).read_all()
    assert table["stream"].to_pylist() == [two]
    assert {"role": "system", "content": "x" * blob.size}.items() <= table["messages"][0].as_py()[0].items()


def test_a_tool_message_that_answers_no_call_is_told_as_it_is(database: Database, tmp_path: Path) -> None:
    found = episodes(1)
    (stream,) = found
    found[stream].insert(1, MessageRecorded(role="tool", content=samples.raw("42"), name="sum"))
    with database.ledger() as log:
        append(log, found)
        assert released(log, tmp_path).release.built.rows == 1
    table = pa.ipc.open_stream((tmp_path / "sft@v1/data-00000.arrow").read_bytes()).read_all()
    message = table["messages"][0].as_py()[0]
    assert (message["role"], message["content"], message["name"], message["tool_call_id"]) == (
        "tool",
        "42",
        "sum",
        None,
    )
