"""Importing with other processes beside this one: the same log, whoever mapped what."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from core.event import StoredEvent
from eventlog.blobs import BlobStore
from eventlog.interchange import importer as import_
from eventlog.interchange.importer import Report, run
from eventlog.interchange.retract import resolve, retract
from eventlog.interchange.sources import Source
from eventlog.interchange.workers import Workers
from eventlog.ledger import Ledger
from tests.databases import Database
from tests.eventlog.interchange.results import result, text
from tests.eventlog.interchange.trajectories import said, trajectory

MANY = 60


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(import_, "WORTH", 1)
    monkeypatch.setattr(import_, "CHUNK_RECORDS", 4)


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many records each chunk had that a worker took."""
    taken: list[int] = []
    submit = Workers.submit

    def counted(self: Workers, job: Any, records: Any) -> Any:
        future = submit(self, job, records)
        if future is not None:
            taken.append(len(records))
        return future

    monkeypatch.setattr(Workers, "submit", counted)
    return taken


def _take(log: Ledger, folder: Path, data: bytes, name: str = "a.json", **options: Any) -> Report:
    path = folder / name
    path.write_bytes(data)
    return run(log, [Source(name, path)], BlobStore(folder / "blobs"), workers=2, **options)


def _content(events: list[StoredEvent], import_id: str | None) -> list[tuple[Any, ...]]:
    wanted = [event for event in events if event.stream.startswith("episode/")]
    unnamed = [event.body.replace((import_id or "-").encode(), b"-") for event in wanted]
    return [(e.event_id, e.stream, e.version, e.seq, e.type, b) for e, b in zip(wanted, unnamed, strict=True)]


def test_the_log_is_the_same_as_without_them(
    database: Database, ledger: Ledger, tmp_path: Path, sent: list[int]
) -> None:
    records = [result(n) for n in range(MANY)]
    records[7] = {"a": 1}
    records[11] = result(3)
    records[20]["traj"][1]["content"] = "x" * 70_000
    report = _take(ledger, tmp_path, text(*records))
    assert sum(sent) == MANY
    beside = list(ledger.read_all())
    stored = list(BlobStore(tmp_path / "blobs").addresses())
    database.empty()
    (tmp_path / "alone").mkdir()
    (tmp_path / "alone" / "a.json").write_bytes(text(*records))
    alone = run(ledger, [Source("a.json", tmp_path / "alone" / "a.json")], BlobStore(tmp_path / "alone" / "blobs"))
    assert _content(beside, report.import_id) == _content(list(ledger.read_all()), alone.import_id)
    assert (report.episodes, report.events, report.unmapped) == (alone.episodes, alone.events, alone.unmapped)
    assert report.episodes == {"new": MANY - 2, "present": 1, "rejected": 1}
    assert report.rejected == alone.rejected
    assert stored == list(BlobStore(tmp_path / "alone" / "blobs").addresses())


def test_what_is_there_or_was_retracted_is_known(ledger: Ledger, tmp_path: Path, sent: list[int]) -> None:
    first = _take(ledger, tmp_path, text(*[result(n) for n in range(0, MANY, 3)]))
    again = _take(ledger, tmp_path, text(*[result(n) for n in range(MANY)]))
    assert (first.episodes["new"], again.episodes["new"], again.episodes["present"]) == (20, 40, 20)
    assert first.import_id is not None
    retract(ledger, resolve(ledger, first.import_id))
    third = _take(ledger, tmp_path, text(*[result(n) for n in range(MANY)]))
    assert (third.episodes["new"], third.episodes["present"]) == (20, 40)
    assert sent


@pytest.mark.parametrize("which", [slice(0, 1), slice(1, 2), slice(0, 2)])
def test_a_worker_that_dies_costs_nothing(ledger: Ledger, tmp_path: Path, which: slice) -> None:
    def kill() -> None:
        while len(found := _workers(os.getpid())) < 2:
            time.sleep(0.01)
        for each in found[which]:
            os.kill(each, signal.SIGKILL)

    killer = threading.Thread(target=kill)
    killer.start()
    records = [result(n) for n in range(1_000)]
    report = _take(ledger, tmp_path, text(*records))
    killer.join()
    assert report.episodes == {"new": 1_000, "present": 0, "rejected": 0}
    assert ledger.head().position == report.events + 2


def test_a_worker_that_cannot_be_started_costs_nothing(
    ledger: Ledger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", str(tmp_path / "no-python"))
    report = _take(ledger, tmp_path, text(*[result(n) for n in range(MANY)]))
    assert report.episodes == {"new": MANY, "present": 0, "rejected": 0}


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_no_worker_outlives_its_import(database: Database, ledger: Ledger, tmp_path: Path, number: int) -> None:
    (tmp_path / "a.json").write_bytes(text(*[result(n) for n in range(20_000)]))
    program = tmp_path / "take.py"
    program.write_text(f"""
from pathlib import Path
from eventlog.blobs import BlobStore
from eventlog.interchange import importer
from eventlog.interchange.sources import Source
from eventlog.ledger import Ledger
importer.WORTH = 1
path = Path({str(tmp_path / "a.json")!r})
with Ledger({database.url!r}) as log:
    importer.run(log, [Source("a.json", path)], BlobStore(path.parent / "blobs"), workers=2)
""")
    root = Path(__file__).parents[3]
    process = subprocess.Popen(
        [sys.executable, str(program)],
        env={**os.environ, "PYTHONPATH": str(root)},
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    while len(children := _workers(process.pid)) < 2:
        assert process.poll() is None
        time.sleep(0.01)
    time.sleep(0.3)
    os.killpg(process.pid, number) if number == signal.SIGINT else process.kill()
    _, said = process.communicate(timeout=60)
    deadline = time.monotonic() + 20
    while any(_command(child) for child in children) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not any(_command(child) for child in children)
    assert said.count("Traceback") <= 1
    lengths = {e.stream: 0 for e in ledger.read_all() if e.stream.startswith("episode/")}
    for event in ledger.read_all():
        if event.stream in lengths:
            lengths[event.stream] += 1
    assert set(lengths.values()) <= {10}


def test_a_twin_is_known_whoever_maps_it(ledger: Ledger, tmp_path: Path, sent: list[int]) -> None:
    trajectories = [trajectory(said(f"Find {n}."), trajectory_id=f"t{n % 20}") for n in range(40)]
    data = b"\n".join(json.dumps(each).encode() for each in trajectories)
    report = _take(ledger, tmp_path, data, "a.jsonl", strict=True)
    assert sent and report.episodes == {"new": 20, "present": 0, "rejected": 20}
    report = _take(ledger, tmp_path, data, "a.jsonl")
    assert report.episodes == {"new": 20, "present": 20, "rejected": 0}
    assert report.unmapped["trajectory_id of an earlier trajectory, which says other things"] == 20


def test_an_export_of_our_own_asks_for_its_blobs(ledger: Ledger, tmp_path: Path) -> None:
    blob = BlobStore(tmp_path / "blobs").put(b"here already")
    lines = []
    for number in range(12):
        reference = {"address": blob.address, "size": blob.size, "media_type": blob.media_type}
        said = {"role": "user", "content": "look", "extra": {"image": reference}}
        entry = {"version": 9, "type": "MessageRecorded", "payload": said}
        carried = {"version": 1, "episode": f"e{number}", "events": [entry]}
        messages = [{"role": "user", "content": f"{number}"}, {"role": "assistant", "content": "hello"}]
        lines.append({"messages": messages, "extra": {"trajlog": carried}})
    data = b"\n".join(json.dumps(line).encode() for line in lines)
    report = _take(ledger, tmp_path, data, "a.jsonl", format="openai")
    assert report.episodes["new"] == 12
    bodies = [event.body for event in ledger.read_all() if event.type == "MessageRecorded"]
    assert sum(blob.address.encode() in body for body in bodies) == 12, report.unmapped


def test_bare_lists_of_messages_are_read_the_same(ledger: Ledger, tmp_path: Path, sent: list[int]) -> None:
    lists = [
        [{"role": "user", "content": f"task {number}"}, {"role": "assistant", "content": "hello"}]
        for number in range(MANY)
    ]
    data = b"\n".join(json.dumps(messages).encode() for messages in lists)
    report = _take(ledger, tmp_path, data, format="mini-swe-agent")
    assert sent and report.episodes == {"new": MANY, "present": 0, "rejected": 0}


def _workers(parent: int) -> list[int]:
    """The process ids of the workers that a process has, the first the one that made the others."""
    found: list[int] = []
    for path in Path(f"/proc/{parent}/task").glob("*/children"):
        with suppress(FileNotFoundError, ProcessLookupError):
            found += [child for child in map(int, path.read_text().split()) if "interchange.worker" in _command(child)]
    return found + [each for child in found for each in _workers(child)]


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return ""
