"""`trajlog grep` on a real database."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from cli.main import run
from cli.terminal import width
from core.vocabulary import BlobRef
from core.vocabulary.episode import EpisodeStarted, NoteAdded
from eventlog.blobs import BlobStore
from tests.cli.logs import append, as_json, fill, printed, refused
from tests.cli.process import on_a_terminal
from tests.databases import Database
from tests.eventlog.samples import ok, turn

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def url(database: Database, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> str:
    fill(database.url)
    monkeypatch.setenv("TRAJLOG_DB", database.url)
    monkeypatch.setenv("TRAJLOG_HOME", str(tmp_path))
    return database.url


def test_a_line_names_its_event_and_marks_the_match(url: str, capsys: Capture) -> None:
    lines = printed(capsys, "grep", "such thing").splitlines()
    assert [line.split(maxsplit=4) for line in lines] == [
        ["cc44@8", "step", "2", "feedback", "Error: no »such thing«"],
        ["bb33@8", "step", "2", "feedback", "Error: no »such thing«"],
        ["aa22@11", "step", "3", "feedback", "Error: no »such thing«"],
    ]
    assert printed(capsys, "grep", "set the").splitlines()[0].split(maxsplit=2) == [
        "cc44@1",
        "other",
        "goal: »set the« timer",
    ]


def test_the_json_is_an_array_of_what_is_documented(url: str, capsys: Capture) -> None:
    found = as_json(capsys, "grep", "SUCH", "-i", "--verdict", "fail", "--task", "timer", "--in", "feedback")
    position = found[0].pop("position")
    assert position > 0
    assert found == [
        {
            "episode": "bb33",
            "version": 8,
            "step": 2,
            "type": "FeedbackRecorded",
            "in": "feedback",
            "occurred_at": "2026-01-04T03:04:12.000006Z",
            "line": "Error: no such thing",
            "spans": [[10, 14]],
        }
    ]


def test_filters_narrow_what_is_searched(url: str, capsys: Capture) -> None:
    def episodes(*arguments: str) -> set[str]:
        return {hit["episode"] for hit in as_json(capsys, "grep", "please", *arguments)}

    assert episodes() == {"aa11", "aa22", "bb33", "cc44"}
    assert episodes("--split", "dev") == {"bb33"}
    assert episodes("--source", "tau-bench") == {"aa22"}
    assert episodes("--since", "2026-01-04") == {"bb33", "cc44"}
    assert episodes("--episode", "@last-failed") == {"bb33"}
    assert episodes("--in", "message", "--in", "note") == episodes()
    assert episodes("--in", "thought") == set()


def test_expressions_are_python_s(url: str, capsys: Capture) -> None:
    hits = as_json(capsys, "grep", "-E", "tool_[23]", "--in", "action")
    assert [(hit["episode"], hit["version"]) for hit in hits] == [("cc44", 7), ("bb33", 7), ("aa22", 10), ("aa22", 7)]
    assert as_json(capsys, "grep", "tool_[23]") == []


def test_more_than_the_limit_is_said(url: str, capsys: Capture) -> None:
    assert run(["grep", "please", "--limit", "2"]) == 0
    captured = capsys.readouterr()
    assert len(captured.out.splitlines()) == 2
    assert captured.err == "there are more: --limit 8, or 0 for all\n"
    assert run(["grep", "please", "--limit", "4"]) == 0
    assert capsys.readouterr().err == ""
    assert len(printed(capsys, "grep", "please", "--limit", "0").splitlines()) == 4


def test_nothing_found_is_no_failure(url: str, capsys: Capture) -> None:
    assert run(["grep", "zebra"]) == 0
    assert capsys.readouterr() == ("", "nothing found\n")
    assert as_json(capsys, "grep", "zebra") == []


def test_large_texts_that_are_missing_are_said(url: str, capsys: Capture, tmp_path: Path) -> None:
    blob = BlobStore(tmp_path / "blobs").put(b"far away: a needle")
    append(url, "episode/dd", ok(1, blob), ok(1, BlobRef("sha256:" + "0" * 64, 5, "text/plain")))
    assert run(["grep", "needle"]) == 0
    captured = capsys.readouterr()
    assert "far away: a »needle«" in captured.out
    assert captured.err == "not searched: 1 large text is not in the blob store\n"


@pytest.mark.parametrize(
    ("arguments", "code", "line"),
    [
        ([""], 2, "PATTERN: the pattern is empty"),
        (["a", "--verdict", "good"], 2, "--verdict: 'good' is not one of"),
        (["a", "--in", "dreams"], 2, "--in: 'dreams' is not one of action, feedback, message, thought, note"),
        (["a", "--since", "soon"], 2, "soon"),
        (["(", "-E"], 2, "not a regular expression"),
        (["a", "--episode", "zz"], 1, "zz: no such episode"),
    ],
)
def test_what_cannot_be_searched_is_one_line(
    url: str, capsys: Capture, arguments: list[str], code: int, line: str
) -> None:
    assert line in refused(capsys, "grep", *arguments, code=code)


HOSTILE = "\x1b]0;x\x07\x1b[2Jשלום \u202eneedle 漢字 👩‍👩‍👧 " + "xy" * 30_000 + " needle"


@pytest.mark.parametrize("columns", [80, 40, 200])
def test_on_a_terminal_nothing_is_wider_than_it_and_nothing_steers_it(url: str, columns: int) -> None:
    append(url, "episode/h1", EpisodeStarted(task=HOSTILE[:80]), turn(1, HOSTILE), NoteAdded("漢字" * 99 + "needle"))
    command = [sys.executable, "-m", "cli", "grep", "needle"]
    code, shown = on_a_terminal(command, {**os.environ, "TRAJLOG_DB": url, "NO_COLOR": "1"}, columns=columns)
    lines = shown.splitlines()
    assert code == 0
    assert lines[0] == "h1"
    assert len(lines) == 4
    assert max(width(line) for line in lines) <= max(columns, 48)
    assert all("»needle«" in line for line in lines[1:])
    assert not {"\x1b", "\u202e", "\x07"} & set(shown)


def test_colours_mark_where_there_are_some(url: str) -> None:
    variables = {name: value for name, value in os.environ.items() if name != "NO_COLOR"}
    variables |= {"TRAJLOG_DB": url, "TERM": "xterm"}
    _, shown = on_a_terminal([sys.executable, "-m", "cli", "grep", "such thing", "--limit", "1"], variables)
    assert "\x1b[31;1msuch thing\x1b[0m" in shown


def test_a_pipe_that_closes_early_ends_it_quietly(url: str) -> None:
    append(url, "episode/many", *[NoteAdded(f"needle {i} {'x' * 500}") for i in range(3_000)])
    command = f"{sys.executable} -m cli grep needle --limit 0 | head -1"
    done = subprocess.run(
        ["sh", "-c", command], capture_output=True, text=True, env={**os.environ, "TRAJLOG_DB": url}, check=False
    )
    assert done.stdout.startswith("many@")
    assert (done.stdout.count("\n"), done.stderr) == (1, "")
