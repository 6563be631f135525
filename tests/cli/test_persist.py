"""`trajlog persist` and `trajlog kafka accept`: what people and supervisors see of the persister."""

import json
import os
import signal
import socket
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from cli.main import run
from eventlog.testing import an_event
from tests.bench.harness import episodes
from tests.broker import Cluster
from tests.databases import Database
from tests.eventlog.persister.processes import Persist
from tests.eventlog.persister.test_exactly_once import streams_of
from tests.eventlog.persister.workbench import Workbench

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def bench(broker: Cluster, database: Database, request: pytest.FixtureRequest) -> Iterator[Workbench]:
    topic = f"cli-{abs(hash(request.node.nodeid))}-{time.time_ns()}"
    with Workbench(broker, database, topic, "kafka-python") as found:
        yield found


def persist(bench: Workbench, home: Path, *arguments: str, **variables: str) -> Persist:
    return Persist(bench.database.url, bench.broker.address(bench.topic), home, *arguments, **variables)


def until(done: Callable[[], Any], running: Persist, seconds: float = 60) -> None:
    limit = time.monotonic() + seconds
    while not done():
        assert time.monotonic() < limit, running.said
        assert running.process.poll() is None, running.said
        time.sleep(0.05)


def taken(bench: Workbench) -> int:
    return sum(bench.cursors().values())


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port


def test_it_says_what_it_does_and_ends_in_order(bench: Workbench, tmp_path: Path) -> None:
    with persist(bench, tmp_path) as running:
        bench.send([an_event("episode/a") for _ in range(10)])
        until(lambda: taken(bench) == 10, running)
        assert running.end() == 0
        assert f"persisting kafka://{bench.broker.bootstrap[0]}/{bench.topic} into postgresql://" in running.said
        assert "1 worker, " in running.said
        assert running.said.splitlines()[-1] == "ended: 10 events written"


def test_ctrl_c_is_an_orderly_end_too(bench: Workbench, tmp_path: Path) -> None:
    with persist(bench, tmp_path, TRAJLOG_KAFKA_CLIENT="confluent-kafka") as running:
        until(lambda: "persisting" in running.said, running)
        running.process.send_signal(signal.SIGINT)
        assert running.process.wait(40) == 0


@pytest.mark.faults
def test_kill_9_again_and_again_loses_and_doubles_nothing(bench: Workbench, tmp_path: Path) -> None:
    events = list(episodes(6_000))
    bench.send(events[:3_000])
    for _ in range(3):
        with persist(bench, tmp_path) as running:
            before = taken(bench)
            until(lambda before=before: taken(bench) > before or taken(bench) == 3_000, running)  # type: ignore[misc]
            running.kill()
        bench.send(events[3_000 + 1_000 * _ : 4_000 + 1_000 * _])
    with persist(bench, tmp_path) as running:
        until(lambda: taken(bench) == 6_000, running)
    assert streams_of(bench.events()) == streams_of(events)
    bench.whole()


def test_a_worker_that_dies_is_replaced_and_all_end_with_their_parent(bench: Workbench, tmp_path: Path) -> None:
    events = list(episodes(2_000))
    with persist(bench, tmp_path, "--workers", "2") as running:
        bench.send(events[:1_000])
        until(lambda: taken(bench) == 1_000, running)
        first = children(running.process.pid)
        assert len(first) == 2
        os.kill(first[0], signal.SIGKILL)
        bench.send(events[1_000:])
        until(lambda: taken(bench) == 2_000, running)
        until(lambda: len(children(running.process.pid)) == 2, running)
        assert "another takes its place" in running.said
        now = children(running.process.pid)
        running.kill()
        limit = time.monotonic() + 20
        while any(map(alive, now)):
            assert time.monotonic() < limit
            time.sleep(0.05)
    assert streams_of(bench.events()) == streams_of(events)
    bench.whole()


def test_several_workers_drain_at_sigterm(bench: Workbench, tmp_path: Path) -> None:
    with persist(bench, tmp_path, "--workers", "auto") as running:
        bench.send([an_event("episode/a") for _ in range(100)])
        until(lambda: taken(bench) == 100, running)
        assert running.end() == 0
        assert "ended: 100 events written" in running.said


def test_prometheus_reads_the_numbers(bench: Workbench, tmp_path: Path) -> None:
    place = f"127.0.0.1:{free_port()}"
    with persist(bench, tmp_path, "--metrics", place) as running:
        bench.send([an_event("episode/a") for _ in range(10)])
        bench.put(b"episode/a", b"not json", bench.partition("episode/a"))
        until(lambda: taken(bench) == 11, running)

        def text() -> str:
            with urllib.request.urlopen(f"http://{place}/metrics", timeout=10) as answer:
                return str(answer.read().decode())

        home = bench.partition("episode/a")
        until(lambda: "trajlog_persister_seal_lag 10.0" in text(), running)
        until(lambda: f'trajlog_persister_lag{{partition="{home}",topic="{bench.topic}"}} 0.0' in text(), running)
        found = text()
    for line in (
        "trajlog_persister_events_total 10.0",
        'trajlog_persister_quarantined_total{reason="not_json"} 1.0',
        "trajlog_persister_duplicates_total 0.0",
        "trajlog_persister_refused_total 0.0",
        "trajlog_persister_paused 0.0",
        "trajlog_persister_seal_lag 10.0",
        'trajlog_persister_commit_seconds_bucket{le="+Inf"}',
        f'trajlog_persister_partition_refused{{partition="{home}",topic="{bench.topic}"}} 0.0',
    ):
        assert line in found, found


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "--log: there is nothing to persist"),
        (["--log", "postgres://x"], "not a Kafka address"),
        (["--log", "kafka://127.0.0.1:1/t", "--workers", "0"], "--workers: '0' is not a number of processes"),
        (["--log", "kafka://127.0.0.1:1/t", "--workers", "many"], "'many' is not a number of processes"),
        (["--log", "kafka://127.0.0.1:1/t", "--metrics", "here"], "'here' is not HOST:PORT"),
    ],
)
def test_what_it_cannot_do_is_one_line(
    database: Database, capsys: Capture, arguments: list[str], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TRAJLOG_LOG", raising=False)
    assert run(["persist", "--db", database.url, *arguments]) == 2
    line = capsys.readouterr().err
    assert said in line
    assert line.count("\n") == 1


def test_a_place_that_is_taken_is_said(bench: Workbench, capsys: Capture) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        place = f"127.0.0.1:{other.getsockname()[1]}"
        log = bench.broker.address(bench.topic)
        assert run(["persist", "--db", bench.database.url, "--log", log, "--metrics", place]) == 4
    assert f"--metrics {place}: cannot listen there" in capsys.readouterr().err


def test_a_topic_that_is_not_there_is_said(bench: Workbench, capsys: Capture) -> None:
    log = bench.broker.address("nowhere")
    assert run(["persist", "--db", bench.database.url, "--log", log]) == 1
    assert "there is no topic 'nowhere'; run: trajlog kafka init" in capsys.readouterr().err


def test_a_loss_is_shown_and_accepted(bench: Workbench, capsys: Capture) -> None:
    bench.send([an_event("episode/a") for _ in range(5)])
    with bench.running() as worker:
        bench.drained(worker)
    common = ["--db", bench.database.url, "--log", bench.broker.address(bench.topic)]
    assert run(["kafka", "accept", *common]) == 0
    assert capsys.readouterr().out == "Nothing is lost: there is nothing to accept.\n"
    bench.recreate()
    assert run(["kafka", "accept", *common]) == 0
    shown = capsys.readouterr()
    assert "recreated" in shown.out
    assert "goes on with topic" in shown.out
    assert "--yes" in shown.err
    assert bench.lost() == []
    assert run(["kafka", "accept", "--yes", "--json", *common]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["accepted"]
    assert {loss["cause"] for loss in found["losses"]} == {"recreated"}
    assert len(bench.lost()) == bench.partitions
    assert run(["kafka", "accept", "--json", *common]) == 0
    assert json.loads(capsys.readouterr().out) == {"accepted": False, "topic_id": None, "losses": []}


def children(pid: int) -> list[int]:
    """The worker processes of a `trajlog persist`."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            stat = (folder / "stat").read_text()
            command = (folder / "cmdline").read_bytes()
        except OSError:
            continue
        if int(stat.rpartition(")")[2].split()[1]) == pid and b"spawn_main" in command:
            found.append(int(folder.name))
    return sorted(found)


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()
