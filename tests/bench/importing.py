"""Importing, format by format: events/s of the whole import against `json.loads` of the same file plus
the log's own batch append of the same events.

The files are made here: real ones of `../shared/data` where they are at hand, each copied often enough
to measure, and what `trajlog export` makes of them in the formats that go both ways (`.own`; ATIF and
OpenAI also as others write them, without what only trajlog carries along).
"""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from msgspec.structs import asdict

from core.event import Event
from core.identity import uuid7
from eventlog.blobs import BlobStore
from eventlog.embedded import Embedded
from eventlog.interchange import workers
from eventlog.interchange.importer import run as import_files
from eventlog.interchange.sources import expand
from eventlog.ledger import Ledger
from tests.bench.harness import Row, fresh, row, seconds, server, watched

DATA = Path(__file__).parents[3] / "shared" / "data"
ROUNDS = 3
COPIES = {
    "tau-bench": 20,
    "android-control": 20,
    "swe-agent": 2_000,
    "mini-swe-agent": 2_000,
    "langfuse": 10_000,
    "inspect": 8_000,
}
_ADDED = ("event_id", "version", "position", "digest", "committed_at", "expected_version")


def run() -> list[Row]:
    """Rows `import.FORMAT` (events/s), `import.FORMAT.mb` (MB/s) and `import.tau-bench.peak` (MB of memory,
    against the size of the file)."""
    with server() as embedded, tempfile.TemporaryDirectory(prefix="trajlog-bench-") as folder:
        rows = []
        for name, paths in _files(embedded, Path(folder)):
            rows += _measured(embedded, name, paths)
        tau = Path(folder) / "tau-bench.json"
        if tau.exists():
            rows.append(_peak(embedded, tau))
        return rows


def _measured(embedded: Embedded, name: str, paths: list[Path]) -> list[Row]:
    size = sum(path.stat().st_size for path in paths)
    ours, limit, count = [], [], 0
    for turn in range(ROUNDS):
        url, _ = fresh(embedded, f"import{turn}")
        with tempfile.TemporaryDirectory(prefix="trajlog-bench-") as blobs, Ledger(url) as log:
            took = seconds(_import, log, blobs, name.partition(".")[0], paths)
            events = [_again(asdict(event)) for event in log.read_all()]
        url, _ = fresh(embedded, f"append{turn}")
        with Ledger(url) as log:
            bare = seconds(_loads, paths) + seconds(_append, log, events)
        count = len(events)
        ours.append(took)
        limit.append(bare)
    return [
        row(f"import.{name}", [count / took for took in ours], [count / took for took in limit], "events/s"),
        row(f"import.{name}.mb", [size / took / 1e6 for took in ours], [size / took / 1e6 for took in limit], "MB/s"),
    ]


def _import(log: Ledger, blobs: str, name: str, paths: list[Path]) -> None:
    report = import_files(
        log,
        expand([str(path) for path in paths], {path.suffix for path in paths}),
        BlobStore(blobs),
        format=name,
        workers=workers.count(),
    )
    assert report.episodes["new"] and not report.rejected, (report.episodes, report.rejected[:1])


def _append(log: Ledger, events: list[Event]) -> None:
    for _ in log.append_all(events):
        pass


def _again(fields: dict[str, Any]) -> Event:
    return Event(event_id=uuid7(), **{name: value for name, value in fields.items() if name not in _ADDED})


def _loads(paths: list[Path]) -> None:
    for path in paths:
        with path.open("rb") as file:
            if path.suffix == ".jsonl":
                for line in file:
                    json.loads(line)
            else:
                json.loads(file.read())


def _peak(embedded: Embedded, path: Path) -> Row:
    """Peak memory of the whole command, its workers with it."""
    url, _ = fresh(embedded, "peak")
    with tempfile.TemporaryDirectory(prefix="trajlog-bench-") as home:
        command = [sys.executable, "-m", "cli", "--db", url, "--home", home, "import", str(path)]
        _, peak = watched(command)
    return row("import.tau-bench.peak", [peak], [path.stat().st_size / 1e6], "MB")


def _files(embedded: Embedded, folder: Path) -> Iterator[tuple[str, list[Path]]]:
    """Each format with its files."""
    tau = DATA / "tau-bench" / "gpt-4o-airline-even.json"
    if tau.exists():
        copies = [
            {**result, "trial": result["trial"] + 4 * copy}
            for copy in range(COPIES["tau-bench"])
            for result in json.loads(tau.read_bytes())
        ]
        path = folder / "tau-bench.json"
        path.write_text(json.dumps(copies))
        yield "tau-bench", [path]
        yield from _exported(embedded, folder, tau)
    control = DATA / "android-control" / "episodes-300.jsonl"
    if control.exists():
        records = [json.loads(line) for line in control.read_bytes().splitlines()]
        yield "android-control", [_lines(folder / "android-control.jsonl", records, COPIES["android-control"])]
    for name, real in (
        ("swe-agent", "function_calling_simple.traj"),
        ("mini-swe-agent", "mini-github_issue.traj.json"),
    ):
        if (DATA / "swe-agent" / real).exists():
            record = json.loads((DATA / "swe-agent" / real).read_bytes())
            if isinstance(record, list):  # mini-swe-agent's bare list of messages, as its newer files hold it
                record = {"info": {}, "messages": record, "trajectory_format": "mini-swe-agent-1"}
            yield name, [_lines(folder / f"{name}.jsonl", [record], COPIES[name])]
    yield "langfuse", [_langfuse(folder / "langfuse.jsonl")]
    yield "inspect", [_inspect(folder / "inspect.json")]


def _exported(embedded: Embedded, folder: Path, tau: Path) -> Iterator[tuple[str, list[Path]]]:
    """The tau-bench episodes in the formats that go both ways, one to a line."""
    url, _ = fresh(embedded, "exported")
    home = folder / "home"
    base = [sys.executable, "-m", "cli", "--db", url, "--home", str(home)]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    subprocess.run([*base, "import", str(folder / "tau-bench.json")], check=True, capture_output=True, env=environment)
    for name in ("atif", "openai", "otlp"):
        path = folder / f"{name}.jsonl"
        command = [*base, "export", "--all", "--format", name, "--out", str(path)]
        subprocess.run(command, check=True, capture_output=True, env=environment)
        if name != "otlp":
            yield name, [_foreign(path, folder / f"{name}-foreign.jsonl")]
        yield f"{name}.own", [path]


def _foreign(own: Path, path: Path) -> Path:
    """The file as another tool would have written it."""
    with own.open() as source, path.open("w") as file:
        for number, line in enumerate(source):
            record = json.loads(line)
            record["extra"] = {"number": number}
            file.write(json.dumps(record) + "\n")
    return path


def _lines(path: Path, records: list[dict[str, Any]], copies: int) -> Path:
    """Every record many times over, each time another one by a field of its own."""
    with path.open("w") as file:
        for copy in range(copies):
            for record in records:
                file.write(json.dumps({**record, "bench_copy": copy}) + "\n")
    return path


def _langfuse(path: Path) -> Path:
    """Traces of three observations: an agent that asks a tool once."""
    with path.open("w") as file:
        for number in range(COPIES["langfuse"]):
            call = {"id": "c1", "type": "function", "function": {"name": "weather", "arguments": '{"city": "Ulm"}'}}
            asked = {"role": "assistant", "content": None, "tool_calls": [call]}
            prompt = [{"role": "user", "content": f"Weather in Ulm, number {number}? " + "Please be exact. " * 20}]
            for id_, type_, fields in (
                ("root", "AGENT", {}),
                ("one", "GENERATION", {"model": "m", "input": prompt, "output": asked}),
                ("tool", "TOOL", {"input": {"city": "Ulm"}, "output": "rainy " * 30}),
            ):
                observation = {
                    "id": f"{number}-{id_}",
                    "traceId": f"trace-{number}",
                    "type": type_,
                    "name": "weather" if type_ == "TOOL" else id_,
                    "startTime": "2026-01-02T03:04:01.000Z",
                    "endTime": "2026-01-02T03:04:02.000Z",
                    "parentObservationId": None if id_ == "root" else f"{number}-root",
                }
                file.write(json.dumps(observation | fields) + "\n")
    return path


def _inspect(path: Path) -> Path:
    """One log of many samples, each a conversation with one call."""
    call = {"id": "c1", "function": "weather", "arguments": {"city": "Ulm"}, "type": "function"}
    samples = [
        {
            "id": number,
            "epoch": 1,
            "input": "Weather in Ulm?",
            "target": "rainy",
            "messages": [
                {"role": "user", "content": "Weather in Ulm? " + "Please be exact. " * 20},
                {"role": "assistant", "content": "I look.", "tool_calls": [call]},
                {"role": "tool", "tool_call_id": "c1", "function": "weather", "content": "rainy " * 30},
                {"role": "assistant", "content": f"It rains, {number}."},
            ],
            "output": {"model": "m", "choices": []},
            "scores": {"match": {"value": "C", "answer": "rainy"}},
        }
        for number in range(COPIES["inspect"])
    ]
    head = {"task": "weather", "model": "m", "created": "2026-01-02T03:04:05+00:00", "dataset": {}, "config": {}}
    path.write_text(json.dumps({"version": 2, "status": "success", "eval": head, "samples": samples}))
    return path
