"""The commands with --log kafka://…: the same as without, but for one URL."""

import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from cli.main import run
from core.identity import uuid7, uuid_text
from core.vocabulary.episode import EpisodeStarted, NoteAdded
from eventlog.kafka.address import KafkaAddress
from eventlog.kafka.log import KafkaLog
from eventlog.writer import Writer
from tests.broker import Cluster
from tests.cli.logs import as_json, printed, refused
from tests.databases import Database
from tests.eventlog.interchange.results import result, text
from tests.eventlog.persister.workbench import Workbench

Capture = pytest.CaptureFixture[str]
NOTE = {"stream": "episode/a", "type": "NoteAdded", "payload": {"text": "x"}}


@pytest.fixture(scope="module")
def bench(broker: Cluster, _database: Database) -> Iterator[Workbench]:
    """A topic of three partitions, and one worker that feeds the ledger from it."""
    _database.empty()
    with Workbench(broker, _database, f"cli-{uuid7().hex()[-8:]}", "kafka-python") as bench, bench.running():
        yield bench


@pytest.fixture
def url(bench: Workbench, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> str:
    """The log's address, named by the environment as a user would; the ledger is empty."""
    with bench.database.tampering() as connection:
        connection.execute(
            "TRUNCATE trajlog.event, trajlog.stream, trajlog.segment, trajlog.merkle, trajlog.quarantine, "
            "trajlog.projection, trajlog.parked"
        )
    monkeypatch.setenv("TRAJLOG_DB", bench.database.url)
    monkeypatch.setenv("TRAJLOG_HOME", str(tmp_path))
    monkeypatch.setenv("TRAJLOG_LOG", bench.broker.address(bench.topic))
    return bench.broker.address(bench.topic)


@pytest.fixture
def results(tmp_path: Path) -> str:
    """Six episodes, three of which failed."""
    path = tmp_path / "results.json"
    path.write_bytes(text(*(result(i, reward=float(i % 2)) for i in range(6))))
    return str(path)


def append(*lines: dict[str, Any], arguments: tuple[str, ...] = ()) -> subprocess.CompletedProcess[bytes]:
    data = b"".join(json.dumps(line).encode() + b"\n" for line in lines)
    command = [sys.executable, "-m", "cli", "append", *arguments]
    return subprocess.run(command, input=data, capture_output=True, timeout=60, check=False)


def test_an_accepted_line_has_no_version_and_no_position_yet(url: str) -> None:
    done = append(NOTE, NOTE)
    assert done.returncode == 0, done.stderr
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert [(a["stream"], a["version"], a["position"]) for a in answers] == [("episode/a", None, None)] * 2
    assert answers[1]["offset"] == answers[0]["offset"] + 1
    assert answers[0]["partition"] == answers[1]["partition"]


def test_waiting_for_the_ledger_gives_both(url: str) -> None:
    done = append(NOTE, NOTE, arguments=("--wait", "persisted"))
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert [list(answer) for answer in answers] == [["event_id", "stream", "version", "position"]] * 2
    assert [(a["version"], a["position"]) for a in answers] == [(1, 1), (2, 2)]


def test_a_line_that_is_refused_is_named_and_what_came_after_it_said(url: str) -> None:
    done = append(NOTE, NOTE | {"expected_version": 7}, NOTE, arguments=("--wait", "persisted"))
    assert done.returncode == 1
    assert [json.loads(line)["version"] for line in done.stdout.splitlines()] == [1]
    (line,) = done.stderr.decode().splitlines()
    assert line.startswith("trajlog: line 2, episode/a: expected version 7, but the stream is at 1; ")
    assert line.endswith("; 1 line after it was sent as well")


def test_a_line_with_an_id_may_be_sent_again(url: str) -> None:
    line = NOTE | {"event_id": uuid_text(uuid7())}
    for _ in range(2):
        done = append(line, arguments=("--wait", "persisted"))
        assert json.loads(done.stdout)["position"] == 1


def test_a_bad_line_stops_before_it_is_sent(url: str) -> None:
    done = append(NOTE, {"stream": "a"}, NOTE)
    assert (done.returncode, len(done.stdout.splitlines())) == (1, 1)
    assert done.stderr.decode().startswith("trajlog: line 2: not an event")


def test_stopped_by_ctrl_c_it_says_what_was_answered(url: str) -> None:
    command = [sys.executable, "-m", "cli", "append"]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdin and process.stdout
    process.stdin.write(json.dumps(NOTE).encode() + b"\n")
    process.stdin.flush()
    assert process.stdout.readline()
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=30)
    assert process.returncode == 130
    assert said.decode().splitlines() == [
        "1 line was answered; what was sent after that may be in the log as well",
        "trajlog: interrupted",
    ]


def test_import_list_judge_retract_and_import_again(url: str, results: str, bench: Workbench, capsys: Capture) -> None:
    report = as_json(capsys, "import", results)
    assert report["episodes"] == {"new": 6, "present": 0, "rejected": 0}
    assert len(as_json(capsys, "ls", "--verdict", "fail")) == 3
    again = as_json(capsys, "import", results)
    assert (again["episodes"], again["import"]) == ({"new": 0, "present": 6, "rejected": 0}, report["import"])
    printed(capsys, "note", "@last-failed", "Seen.")
    printed(capsys, "verdict", "@last-failed", "pass", "--why", "It was right.")
    assert len(as_json(capsys, "ls", "--verdict", "fail")) == 2
    assert as_json(capsys, "retract", report["import"])["episodes"] == 6
    assert as_json(capsys, "ls") == []
    assert as_json(capsys, "import", results)["episodes"]["new"] == 6
    assert len(as_json(capsys, "ls", "--verdict", "fail")) == 3
    assert run(["verify"]) == 0
    capsys.readouterr()
    bench.whole()


def test_an_import_that_was_killed_half_way_is_completed_by_the_next(
    url: str, results: str, bench: Workbench, capsys: Capture
) -> None:
    """Only a part of an episode came to Kafka: its first events, since a stream has one order."""
    as_json(capsys, "import", results)
    with bench.database.ledger() as log:
        whole = list(log.read_all())
    with bench.database.tampering() as connection:
        connection.execute("TRUNCATE trajlog.event, trajlog.stream, trajlog.segment, trajlog.merkle")
        connection.execute("TRUNCATE trajlog.projection, trajlog.parked")
    part = [event for event in whole if event.type != "ImportEnded" and event.version <= 4]
    with KafkaLog(bench.database.ledger(), KafkaAddress.parse(url)) as log:
        log.append_many(part)
    assert 0 < len(part) < len(whole)
    assert as_json(capsys, "import", results)["episodes"] == {"new": 0, "present": 6, "rejected": 0}
    with bench.database.ledger() as log:
        streams = {event.stream for event in whole if event.stream.startswith("episode/")}
        for stream in streams:
            assert [e.event_id for e in log.read(stream)] == [e.event_id for e in whole if e.stream == stream]
    assert len(as_json(capsys, "ls", "--verdict", "fail")) == 3


@contextmanager
def following(*arguments: str) -> Iterator["subprocess.Popen[str]"]:
    command = [sys.executable, "-m", "cli", "show", *arguments, "--follow", "--raw"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        yield process
    finally:
        process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


def test_following_shows_an_event_soon_after_it_was_accepted(url: str, bench: Workbench) -> None:
    writer = Writer("test")
    with KafkaLog(bench.database.ledger(), KafkaAddress.parse(url)) as log:
        log.append(writer.event("episode/f1", EpisodeStarted(task="t")))
        with following("f1") as process:
            assert process.stdout is not None
            assert "EpisodeStarted" in process.stdout.readline()
            waits = []
            for i in range(20):
                log.append(writer.event("episode/f1", NoteAdded(f"note {i}")), wait="accepted")
                begun = time.monotonic()
                assert f"note {i}" in process.stdout.readline()
                waits.append(time.monotonic() - begun)
                time.sleep(0.05)
    assert sorted(waits)[len(waits) // 2] < 0.25, waits


# -- without a broker --------------------------------------------------------------------------------


def test_reading_needs_no_broker(url: str, results: str, monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    as_json(capsys, "import", results)
    monkeypatch.setenv("TRAJLOG_LOG", "kafka://127.0.0.1:9/nowhere")
    monkeypatch.setitem(sys.modules, "kafka", None)  # not even the client's library is touched
    monkeypatch.setitem(sys.modules, "confluent_kafka", None)
    begun = time.monotonic()
    assert len(as_json(capsys, "ls")) == 6
    assert as_json(capsys, "show", "@last")["events"]
    printed(capsys, "show", "@last", "--json", "--follow")
    assert printed(capsys, "grep", "Found")
    assert run(["verify"]) == 0
    assert time.monotonic() - begun < 30


def test_writing_without_a_broker_is_one_line(
    url: str, results: str, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    as_json(capsys, "import", results)
    monkeypatch.setenv("TRAJLOG_LOG", "kafka://127.0.0.1:9/nowhere")
    monkeypatch.setenv("TRAJLOG_KAFKA_BOOTSTRAP_TIMEOUT_MS", "1000")
    line = refused(capsys, "note", "@last", "x", code=4)
    assert "127.0.0.1:9" in line


def test_a_log_in_memory_has_no_front(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRAJLOG_DB", "memory://")
    monkeypatch.setenv("TRAJLOG_LOG", "kafka://127.0.0.1:9/nowhere")
    assert "ends in Postgres" in refused(capsys, "ls", code=2)


# -- status ------------------------------------------------------------------------------------------


def test_status_says_how_far_each_partition_is(url: str, bench: Workbench, capsys: Capture) -> None:
    append(NOTE, NOTE, NOTE | {"stream": "episode/b"}, NOTE | {"expected_version": 9})
    append(NOTE, arguments=("--wait", "persisted"))
    found = as_json(capsys, "status")
    assert (found["position"], found["sealed"], found["lag"], found["quarantined"]) == (4, 0, 0, 1)
    assert (found["kafka"], found["writers"]) == (url, "open: no writer keys")
    assert [p["partition"] for p in found["partitions"]] == [0, 1, 2]
    assert list(found["partitions"][0]) == ["partition", "offset", "position", "sealed", "lag", "quarantined"]
    at = bench.partition("episode/a")
    assert (found["partitions"][at]["position"], found["partitions"][at]["quarantined"]) == (4, 1)
    assert sum(p["quarantined"] for p in found["partitions"]) == 1
    shown = printed(capsys, "status")
    for words in ("writers     open: no writer keys", "lag         0", "quarantined 1", "partition  offset"):
        assert words in shown


def test_status_without_a_broker_knows_no_lag(url: str, monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    append(NOTE, arguments=("--wait", "persisted"))
    monkeypatch.setenv("TRAJLOG_LOG", url.replace(url.split(":")[2].split("/")[0], "9"))
    begun = time.monotonic()
    found = as_json(capsys, "status")
    assert time.monotonic() - begun < 10
    assert (found["position"], found["lag"], {p["lag"] for p in found["partitions"]}) == (1, None, {None})
    assert "lag         unknown: no broker answers" in printed(capsys, "status")
    monkeypatch.delenv("TRAJLOG_LOG")
    assert as_json(capsys, "status")["lag"] is None
    assert "if --log names it" in printed(capsys, "status")


def test_a_topic_that_nobody_took_from_is_said(
    url: str, bench: Workbench, database: Database, monkeypatch: pytest.MonkeyPatch, capsys: Capture, databases: Any
) -> None:
    monkeypatch.setenv("TRAJLOG_DB", databases.fresh("untaken").url)
    found = as_json(capsys, "status")
    assert (found["lag"], found["partitions"], found["writers"]) == (None, [], "open: no writer keys")
    assert "trajlog persist has taken nothing yet" in printed(capsys, "status")
