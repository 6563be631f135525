"""`trajlog show` on a real database."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from cli.terminal import width
from core.vocabulary.contract import Finished, Verification
from core.vocabulary.episode import (
    EpisodeEnded,
    EpisodeRetracted,
    EpisodeStarted,
    ModelResponded,
    NoteAdded,
    VerificationRecorded,
)
from eventlog.ledger import Ledger
from eventlog.writer import Writer
from tests.cli.logs import append, as_json, fill, printed, refused
from tests.cli.process import on_a_terminal
from tests.databases import Database
from tests.eventlog.samples import judged

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def url(database: Database, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> str:
    url = database.url
    fill(url)
    monkeypatch.setenv("TRAJLOG_DB", url)
    monkeypatch.setenv("TRAJLOG_HOME", str(tmp_path))
    return url


def versions(capsys: Capture, *arguments: str) -> list[int]:
    return [event["version"] for event in as_json(capsys, "show", *arguments)["events"]]


def test_the_timeline_reads_from_start_to_verdict(url: str, capsys: Capture) -> None:
    lines = printed(capsys, "show", "bb33").splitlines()
    assert lines[0] == (
        "episode bb33  task timer · verdict fail · reward 0 · end finished · steps 2 · tokens 220 · source live · "
        "policy planner-1 · split dev"
    )
    texts = [line.rstrip() for line in lines]
    assert any(text.startswith('      4     1  tool_1(at="07:00") → ok "done" @5') for text in texts)
    assert any(
        text.startswith('✗     7     2  tool_2(at="07:00") → error not_found "Error: no such thing" @8')
        for text in texts
    )
    assert texts[-2].startswith("✗    10        judged by machine, 0 of 1 checks pass, reward 0")
    assert texts[-2].endswith("fail")
    assert texts[-1] == '✗             check goal (state): fail {"expected":1,"actual":0}'


def test_the_json_is_one_object_with_the_row_and_every_event(url: str, capsys: Capture) -> None:
    found = as_json(capsys, "show", "bb33")
    events = found.pop("events")
    assert (found["episode"], found["verdict"], found["tokens"], found["retracted"]) == ("bb33", "fail", 220, False)
    assert [event["version"] for event in events] == list(range(1, 11))
    first = events[0]
    assert len(first.pop("event_id")) == 36
    assert first == {
        "position": 21,
        "stream": "episode/bb33",
        "version": 1,
        "type": "EpisodeStarted",
        "occurred_at": "2026-01-04T03:04:05.000006Z",
        "actor": None,
        "step": None,
        "payload": {"task": "timer", "goal": "set the timer", "policy": "planner-1", "split": "dev"},
    }
    assert events[2]["step"] == 1


def test_an_episode_answers_to_every_way_of_naming_it(url: str, capsys: Capture) -> None:
    def shown(name: str) -> Any:
        return as_json(capsys, "show", name)["episode"]

    assert [shown(name) for name in ("bb33", "bb", "episode/bb33", "@last-failed")] == ["bb33"] * 4
    assert shown("@last") == "cc44"
    append(url, "episode/aa11", judged("fail", source="human"))
    assert shown("@last-failed") == "bb33"


def test_an_exact_id_wins_over_longer_ones(url: str, capsys: Capture) -> None:
    append(url, "episode/aa", NoteAdded(text="x"))
    assert as_json(capsys, "show", "aa")["episode"] == "aa"


def test_dashes_of_a_uuid_may_stay(url: str, capsys: Capture) -> None:
    append(url, "episode/01a22991040d74ee8e0c9039820a8a42", NoteAdded(text="x"))
    assert versions(capsys, "01a22991-040d-74ee-8e0c-9039820a8a42") == [1]


def test_retracted_episodes_are_found_by_id_but_are_not_the_last(url: str, capsys: Capture) -> None:
    append(url, "episode/cc44", EpisodeRetracted(import_id="i1"))
    assert as_json(capsys, "show", "cc44")["retracted"] is True
    assert as_json(capsys, "show", "@last")["episode"] == "bb33"


def test_from_an_event_one_event_and_one_step(url: str, capsys: Capture) -> None:
    assert versions(capsys, "bb33", "--from", "9") == [9, 10]
    assert versions(capsys, "bb33@7") == [7]
    assert versions(capsys, "@last-failed@2") == [2]
    assert versions(capsys, "bb33", "--step", "2") == [6, 7, 8]
    assert printed(capsys, "show", "bb33@7").splitlines()[1:5] == [
        "  step: 2",
        "  action:",
        "    kind: ToolCall",
        "    tool: tool_2",
    ]


def test_raw_is_every_event_as_it_is_stored(url: str, capsys: Capture) -> None:
    with Ledger(url) as log:
        log.append(Writer("w").raw("episode/bb33", "HologramShown", b'{"beam":  "\xc2\x9b1m"}'))
    lines = printed(capsys, "show", "bb33", "--raw", "--from", "10").splitlines()
    assert lines[0].startswith('   10  VerificationRecorded  {"verification":')
    assert lines[1] == '   11  HologramShown  {"beam":  "\\x9b1m"}'


def test_an_unknown_type_is_shown_and_control_characters_are_not(url: str, capsys: Capture) -> None:
    with Ledger(url) as log:
        log.append(Writer("w").raw("episode/bb33", "HologramShown", '{"beam":"\u202e"}'.encode()))
    append(url, "episode/bb33", ModelResponded(step=3, content="a\x1b]0;x\x07b\nc"))
    lines = printed(capsys, "show", "bb33").splitlines()
    assert any('HologramShown {"beam":"\\u202e"}' in line for line in lines)
    assert any('model: "a\\x1b]0;x\\x07b\\nc"' in line for line in lines)


@pytest.mark.parametrize(
    ("arguments", "code", "line"),
    [
        (["zz"], 1, "trajlog: zz: no such episode; trajlog ls lists them; @last and @last-failed name one"),
        (["aa"], 1, "trajlog: aa: more than one episode starts with it: aa11, aa22; write more of the id"),
        (["@first"], 1, "trajlog: @first: no such episode; trajlog ls lists them; @last and @last-failed name one"),
        (["bb33@99"], 1, "trajlog: bb33: there is no event 99: the episode has 10"),
        (["bb33@0"], 1, "trajlog: bb33: no such event: @0; they are numbered from 1: EP@1"),
        (["@last@x"], 1, "no such event: @x; they are numbered from 1: EP@1"),
        (["bb33", "--from", "99"], 1, "trajlog: bb33: there is no event 99: the episode has 10"),
        (["bb33@2", "--step", "1"], 2, "trajlog: an event and a step are two things to show; leave @N or --step out"),
        (["bb33", "--step", "9"], 1, "trajlog: bb33: there is no step 9: the last is 2"),
        (["bb33@2", "--follow"], 2, "--follow"),
        ([""], 1, "no such episode"),
        (["a\0b"], 1, "a\\x00b: no such episode"),
        (["\udcff"], 1, "no such episode"),
        (["b" * 600], 1, "no such episode"),
    ],
)
def test_what_is_not_there_is_one_line(url: str, capsys: Capture, arguments: list[str], code: int, line: str) -> None:
    assert line in refused(capsys, "show", *arguments, code=code)


def test_in_an_empty_log_there_is_no_last(database: Database, monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    monkeypatch.setenv("TRAJLOG_DB", database.url)
    assert "there are no episodes yet" in refused(capsys, "show", "@last")
    assert "no episode has failed" in refused(capsys, "show", "@last-failed")


@contextmanager
def following(url: str, *arguments: str) -> Iterator[tuple["subprocess.Popen[str]", Callable[[], str]]]:
    """`show --follow` in a process of its own, and what reads its next line."""
    command = [sys.executable, "-m", "cli", "show", *arguments, "--follow"]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ, "TRAJLOG_DB": url}
    )
    assert process.stdout is not None and process.stderr is not None
    timer = threading.Timer(60, process.kill)
    timer.start()
    try:
        yield process, process.stdout.readline
    finally:
        timer.cancel()
        process.kill()
        process.wait()
        process.stdout.close()
        process.stderr.close()


@pytest.mark.parametrize("json_lines", [True, False])
def test_following_prints_events_as_they_come_until_interrupted(url: str, json_lines: bool) -> None:
    append(url, "episode/dd55", EpisodeStarted(task="timer"))
    with following(url, "dd55", *(["--json"] if json_lines else [])) as (process, line):
        first = [line() for _ in range(1 if json_lines else 3)]
        append(url, "episode/aa11", NoteAdded(text="elsewhere"))
        append(url, "episode/dd55", NoteAdded(text="now"))
        begun = time.monotonic()
        late = line()
        assert time.monotonic() - begun < 0.25
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 130
        assert process.stderr is not None and "Traceback" not in process.stderr.read()
    if json_lines:
        assert [json.loads(text)["version"] for text in (*first, late)] == [1, 2]
    else:
        assert late.split() == ["2", "note:", '"now"']


def test_following_ends_by_itself_after_the_episode_and_its_verdict(url: str) -> None:
    append(url, "episode/dd55", EpisodeStarted(task="timer"))
    with following(url, "dd55", "--raw") as (process, line):
        assert "EpisodeStarted" in line()
        append(url, "episode/dd55", EpisodeEnded(Finished(), {}))
        assert "EpisodeEnded" in line()
        time.sleep(1)
        append(url, "episode/dd55", VerificationRecorded(Verification("fail"), "human"))
        assert "VerificationRecorded" in line()
        assert process.wait(10) == 0
        assert process.stderr is not None and process.stderr.read() == "the episode has ended\n"
    with following(url, "bb33") as (process, line):
        assert process.wait(20) == 0, "an episode that ended before is no reason to wait"


def test_on_a_terminal_no_line_is_wider_than_it(url: str) -> None:
    append(url, "episode/bb33", ModelResponded(step=3, content="漢字 and " * 100, thought="hm " * 50))
    command = [sys.executable, "-m", "cli", "show", "bb33"]
    code, shown = on_a_terminal(command, {**os.environ, "TRAJLOG_DB": url, "NO_COLOR": "1"}, columns=90)
    lines = shown.splitlines()
    assert code == 0
    assert max(width(line) for line in lines[1:]) <= 90
    assert len(lines) == 12
