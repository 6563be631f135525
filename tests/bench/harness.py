"""What every benchmark shares: a database of its own, events like real ones, and a row of the result.

Each benchmark measures `ours` and its `limit` in turn, in one run on one machine, and reports medians
and their ratio: of two speeds ours/limit (higher is better), of two durations likewise (lower is).
"""

import json
import os
import random
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from core.event import Event
from core.identity import uuid7
from eventlog import database, schema
from eventlog.embedded import Embedded

EVENTS_PER_EPISODE = 30


class Row(NamedTuple):
    """One line of the result."""

    name: str
    ours: float
    limit: float
    ratio: float
    unit: str


def row(name: str, ours: Sequence[float], limit: Sequence[float], unit: str) -> Row:
    """Medians of both sides, and their ratio."""
    a, b = statistics.median(ours), statistics.median(limit)
    return Row(name, round(a, 4), round(b, 4), round(a / b, 3), unit)


def seconds(work: Callable[..., object], *args: object) -> float:
    """How long one call takes."""
    start = time.perf_counter()
    work(*args)
    return time.perf_counter() - start


def watched(command: Sequence[str]) -> tuple[float, float]:
    """Seconds that a command of ours took, and the most MB that it and its children had in memory at once
    (Linux; of `ru_maxrss` the parent's size before it became the command would be part)."""
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    most = 0.0
    start = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, env=environment)
    while process.poll() is None:
        most = max(most, sum(map(_resident, _tree(process.pid))))
        time.sleep(0.02)
    took = time.perf_counter() - start
    assert process.returncode == 0, command
    return took, most


def _tree(pid: int) -> Iterator[int]:
    """A process and all that it started."""
    yield pid
    with suppress(OSError):
        for children in Path(f"/proc/{pid}/task").glob("*/children"):
            for child in children.read_text().split():
                yield from _tree(int(child))


def _resident(pid: int) -> float:
    with suppress(OSError, IndexError):
        return int(Path(f"/proc/{pid}/status").read_text().partition("VmRSS:")[2].split()[0]) / 1024
    return 0.0


@contextmanager
def server() -> Iterator[Embedded]:
    """An embedded server in a folder of its own, stopped and removed afterwards."""
    with tempfile.TemporaryDirectory(prefix="trajlog-bench-") as folder:
        Path(folder).chmod(0o755)
        embedded = Embedded(Path(folder) / "home")
        embedded.start()
        try:
            yield embedded
        finally:
            embedded.stop()


def fresh(embedded: Embedded, name: str) -> tuple[str, str]:
    """A new database with the ledger's schema: (application's URL, owner's URL)."""
    with database.connect(embedded.url(owner=True), role=None) as connection:
        connection.execute(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')
        connection.execute(f'CREATE DATABASE "{name}"')
    app, owner = (_named(embedded.url(owner=owner), name) for owner in (False, True))
    schema.upgrade(owner)
    return app, owner


def _named(url: str, name: str) -> str:
    head, _, query = url.partition("?")
    return f"{head.rpartition('/')[0]}/{name}?{query}"


def episodes(count: int, *, seed: int = 1, body_bytes: int = 700, first: int = 0) -> Iterator[Event]:
    """`count` events of a mobile planner's episodes, 30 each, of about 650 bytes as rows; one in four
    fails; they are numbered from `first`. The same seed gives the same events."""
    chance = random.Random(seed)
    filler = "".join(chance.choice("abcdefgh ") for _ in range(body_bytes))
    for number in range((count + EVENTS_PER_EPISODE - 1) // EVENTS_PER_EPISODE):
        yield from _episode(first + number, chance, filler)[: count - number * EVENTS_PER_EPISODE]


def _episode(number: int, chance: random.Random, filler: str) -> list[Event]:
    name = f"{number:016x}"
    run = uuid7()
    failed = number % 4 == 0
    payloads: list[tuple[str, dict[str, object]]] = [
        ("EpisodeStarted", {"task": f"task-{number % 50}", "policy": "planner", "goal": "Set an alarm for seven"})
    ]
    for step in range(1, 10):
        call = f"call_{step}"
        payloads += [
            ("ModelResponded", {"step": step, "content": filler[: chance.randrange(200, len(filler))]}),
            (
                "ActionSubmitted",
                {
                    "step": step,
                    "action": {"kind": "ToolCall", "call_id": call, "tool": "set_alarm", "args": {"at": "07:00"}},
                },
            ),
            (
                "FeedbackRecorded",
                {"step": step, "call_id": call, "feedback": {"kind": "ToolResult", "value": filler}},
            ),
        ]
    payloads += [
        ("EpisodeEnded", {"end": {"kind": "finished"}, "runs": {}}),
        (
            "VerificationRecorded",
            {"verification": {"verdict": "fail" if failed else "pass", "checks": []}, "source": "machine"},
        ),
    ]
    return [
        Event(
            event_id=uuid7(),
            stream=f"episode/{name}",
            writer="bench",
            run=run,
            seq=seq,
            type=type_,
            body=json.dumps(payload).encode(),
            actor="planner",
            correlation_id=name,
            occurred_at=1_700_000_000_000_000 + number * 1_000_000 + seq,
        )
        for seq, (type_, payload) in enumerate(payloads, 1)
    ]
