"""A log with a few episodes, for commands that read."""

import json
from typing import Any

import pytest

from cli.main import run
from eventlog.ledger import Ledger
from eventlog.writer import Writer
from tests.eventlog import samples

EPISODES = {
    "aa11": {"task": "alarm", "verdict": "pass", "steps": 1},
    "aa22": {"task": "alarm", "verdict": "fail", "steps": 3, "origin": samples.origin("i1")},
    "bb33": {"task": "timer", "verdict": "fail", "steps": 2, "split": "dev"},
    "cc44": {"task": "timer", "verdict": None, "steps": 2},
}


def fill(url: str) -> None:
    """Append the episodes, in this order."""
    writer = Writer("test")
    with Ledger(url) as log:
        for i, (name, options) in enumerate(EPISODES.items()):
            at = None if name == "cc44" else samples.START + i * 86_400_000_000
            log.append_many(samples.events(f"episode/{name}", samples.episode(**options), writer, at))  # type: ignore[arg-type]


def append(url: str, stream: str, *payloads: Any) -> None:
    with Ledger(url) as log:
        log.append_many(samples.events(stream, payloads))


def printed(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> str:
    """What a command prints to stdout."""
    capsys.readouterr()
    assert run(arguments) == code
    return capsys.readouterr().out


def as_json(capsys: pytest.CaptureFixture[str], *arguments: str) -> Any:
    return json.loads(printed(capsys, *arguments, "--json"))


def refused(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 1) -> str:
    """The one line on stderr of a command that fails."""
    capsys.readouterr()
    assert run(arguments) == code
    captured = capsys.readouterr()
    assert captured.out == ""
    (line,) = captured.err.splitlines()
    return line
