"""`trajlog diff` on a real database."""

import os
import sys
from pathlib import Path
from typing import Any

import pytest

from cli.terminal import width
from core.vocabulary.episode import EpisodeStarted
from tests.cli.logs import append, fill, printed, refused
from tests.cli.process import on_a_terminal
from tests.databases import Database
from tests.eventlog.samples import call, judged, ok

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def url(database: Database, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> str:
    fill(database.url)
    monkeypatch.setenv("TRAJLOG_DB", database.url)
    monkeypatch.setenv("TRAJLOG_HOME", str(tmp_path))
    return database.url


def as_json(capsys: Capture, *arguments: str, code: int) -> Any:
    import json

    return json.loads(printed(capsys, "diff", *arguments, "--json", code=code))


def test_two_episodes_side_by_side(url: str, capsys: Capture) -> None:
    lines = printed(capsys, "diff", "aa22", "bb33", code=1).splitlines()
    assert [" ".join(line.split()) for line in lines] == [
        "a aa22 task alarm · verdict fail · end finished · 3 calls",
        "b bb33 task timer · verdict fail · end finished · 2 calls",
        "different: calls; 2 calls in common",
        '@4 tool_1(at="07:00") | @4 tool_1(at="07:00")',
        "> first divergence: answered otherwise",
        '! @7 tool_2(at="07:00") | @7 tool_2(at="07:00")',
        '→ ok "done" @8 | → error not_found "Error: no such thing" @8',
        '- @10 tool_3(at="07:00") → error not_found "Error: no such thing" @11 |',
        "end finished | end finished",
        "verdict fail | verdict fail",
    ]
    assert len({line.index("|") for line in lines[3:] if "|" in line}) == 1


def test_against_pass_is_what_happens_when_no_second_is_named(url: str, capsys: Capture) -> None:
    found = as_json(capsys, "aa22", code=1)
    assert (found["a"]["episode"], found["b"]["episode"]) == ("aa22", "aa11")
    assert found["differs"] == ["calls", "verdict"]
    assert as_json(capsys, "aa22", "--against", "pass", code=1) == found
    assert as_json(capsys, "aa22", "--against", "aa11", code=1) == found
    assert as_json(capsys, "aa22", "aa11", code=1) == found


def test_an_episode_is_the_same_as_itself(url: str, capsys: Capture) -> None:
    lines = printed(capsys, "diff", "bb33", "@last-failed").splitlines()
    assert lines[2] == "the same: calls, answers, end and verdict"
    assert as_json(capsys, "cc44", "cc44", code=0)["first_divergence"] is None


def test_masks_are_named_and_hide(url: str, capsys: Capture) -> None:
    for name, at in (("m1", "2026-01-02T03:04:05Z"), ("m2", "2026-01-02T03:04:06Z")):
        append(url, f"episode/{name}", EpisodeStarted(), call(1, "look", at=at), ok(1))
    printed(capsys, "diff", "m1", "m2", code=1)
    lines = printed(capsys, "diff", "m1", "m2", "--mask", "time,ids").splitlines()
    assert lines[2] == "the same: calls, answers, end and verdict, time and ids masked"


def test_an_episode_without_calls_can_be_compared(url: str, capsys: Capture) -> None:
    append(url, "episode/dd55", EpisodeStarted(task="alarm"))
    assert as_json(capsys, "dd55", code=1)["a"]["calls"] == 0
    append(url, "episode/ee66", judged("pass"))
    assert as_json(capsys, "ee66", "dd55", code=1)["differs"] == ["verdict"]


@pytest.mark.parametrize(
    ("arguments", "code", "line"),
    [
        (["zz"], 1, "zz: no such episode"),
        (["bb33"], 1, "bb33: no other episode of task timer has passed; name a second one"),
        (["bb33", "aa11", "--against", "pass"], 2, "give EP2 or --against, not both"),
        (["bb33@2", "aa11"], 2, "whole episodes are compared; leave the @N out"),
        (["bb33", "aa11", "--mask", "colour"], 2, "--mask: 'colour' cannot be masked; use time, ids"),
        (["bb33", "aa11", "--mask", ""], 2, "cannot be masked"),
    ],
)
def test_what_cannot_be_compared_is_one_line(
    url: str, capsys: Capture, arguments: list[str], code: int, line: str
) -> None:
    assert line in refused(capsys, "diff", *arguments, code=code)


HOSTILE = "\x1b]0;x\x07\x1b[2Jשלום \u202e漢字 👩‍👩‍👧 " + "x" * 300


@pytest.mark.parametrize("columns", [80, 40, 200])
def test_on_a_terminal_nothing_is_wider_than_it_and_nothing_steers_it(url: str, columns: int) -> None:
    append(url, "episode/h1", EpisodeStarted(task=HOSTILE), call(1, HOSTILE, **{HOSTILE: HOSTILE}), ok(1, HOSTILE))
    append(url, "episode/h2", EpisodeStarted(task=HOSTILE), call(1, HOSTILE, **{HOSTILE: "y"}), ok(1))
    command = [sys.executable, "-m", "cli", "diff", "h1", "h2"]
    code, shown = on_a_terminal(command, {**os.environ, "TRAJLOG_DB": url, "NO_COLOR": "1"}, columns=columns)
    assert code == 1
    assert max(width(line) for line in shown.splitlines()) <= columns
    assert "\x1b" not in shown and "\u202e" not in shown and "\x07" not in shown


def test_without_a_terminal_nothing_is_cut(url: str, capsys: Capture) -> None:
    append(url, "episode/h1", call(1, "look", a="x" * 50, b="y" * 50, c="z" * 50))
    text = printed(capsys, "diff", "h1", "cc44", code=1)
    assert "z" * 50 in text and "\x1b" not in text
