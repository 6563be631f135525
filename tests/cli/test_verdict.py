"""`trajlog note` and `trajlog verdict` on a real database."""

from pathlib import Path

import pytest

from cli.main import run
from tests.cli.logs import append, as_json, fill, printed, refused
from tests.databases import Database
from tests.eventlog.samples import judged

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def url(database: Database, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> str:
    fill(database.url)
    monkeypatch.setenv("TRAJLOG_DB", database.url)
    monkeypatch.setenv("TRAJLOG_HOME", str(tmp_path))
    return database.url


def test_a_note_is_shown_and_found(url: str, capsys: Capture) -> None:
    assert printed(capsys, "note", "bb33@7", "It never looked.") == "noted: bb33@11\n"
    answer = as_json(capsys, "note", "@last-failed", "again")
    assert list(answer) == ["event_id", "stream", "version", "position"]
    assert (answer["stream"], answer["version"]) == ("episode/bb33", 12)
    lines = printed(capsys, "show", "bb33", "--from", "11").splitlines()
    assert [line.split() for line in lines[2:]] == [
        ["11", "note", "on", "@7:", '"It', "never", 'looked."'],
        ["12", "note:", '"again"'],
    ]
    assert [hit["version"] for hit in as_json(capsys, "grep", "never looked", "--in", "note")] == [11]
    assert as_json(capsys, "ls", "--limit", "2")[1]["events"] == 12


def test_a_persons_verdict_outranks_a_later_machines(url: str, capsys: Capture) -> None:
    assert printed(capsys, "verdict", "bb33", "pass", "--why", "It was done.") == "judged pass: bb33@11\n"
    append(url, "episode/bb33", judged("fail"))
    assert as_json(capsys, "show", "bb33")["verdict"] == "pass"
    assert [row["episode"] for row in as_json(capsys, "ls", "--verdict", "fail")] == ["aa22"]
    found = as_json(capsys, "verdict", "bb33", "--history")
    assert [(one["version"], one["source"], one["verdict"], one["rules"]) for one in found] == [
        (10, "machine", "fail", False),
        (11, "human", "pass", True),
        (12, "machine", "fail", False),
    ]
    assert list(found[1]) == [
        "version",
        "occurred_at",
        "committed_at",
        "source",
        "writer",
        "verdict",
        "reward",
        "progress",
        "why",
        "supersedes",
        "rules",
    ]
    assert (found[1]["why"], found[1]["supersedes"], found[0]["occurred_at"]) == (
        "It was done.",
        10,
        "2026-01-04T03:04:14.000006Z",
    )


def test_the_history_is_a_table(url: str, capsys: Capture) -> None:
    printed(capsys, "verdict", "bb33", "inconclusive", "--why", "\x1b[2Jodd")
    lines = [line.split() for line in printed(capsys, "verdict", "bb33", "--history").splitlines()]
    assert lines[0] == ["version", "when", "source", "verdict", "reward", "rules", "why"]
    assert lines[1] == ["@10", "2026-01-04T03:04:14Z", "machine", "fail", "0", "-"]
    assert lines[2][2:] == ["human", "inconclusive", "-", "rules", "\\x1b[2Jodd"]


def test_nobody_has_judged_yet(url: str, capsys: Capture) -> None:
    assert as_json(capsys, "verdict", "cc44", "--history") == []
    assert run(["verdict", "cc44", "--history"]) == 0
    assert capsys.readouterr() == ("", "nobody has judged it\n")


@pytest.mark.parametrize(
    ("arguments", "code", "line"),
    [
        (["note", "zz", "x"], 1, "zz: no such episode"),
        (["note", "bb33@99", "x"], 1, "bb33: there is no event 99: the episode has 10"),
        (["note", "bb33", ""], 2, "bb33: the note is empty"),
        (["note", "bb33", "\udcff"], 1, "NoteAdded: payload cannot be written as JSON"),
        (["note", "bb33", "x" * 1_000_001], 1, "more than 1,000,000"),
        (["verdict", "bb33"], 2, "give pass, fail or inconclusive, or --history"),
        (["verdict", "bb33", "pass", "--history"], 2, "give pass, fail or inconclusive, or --history"),
        (["verdict", "bb33", "--history", "--why", "x"], 2, "either judge or look"),
        (["verdict", "bb33", "good"], 2, "good"),
        (["verdict", "bb33@2", "pass"], 2, "leave the @N out"),
        (["verdict", "zz", "pass"], 1, "zz: no such episode"),
    ],
)
def test_what_is_wrong_is_one_line_and_nothing_is_written(
    url: str, capsys: Capture, arguments: list[str], code: int, line: str
) -> None:
    assert line in refused(capsys, *arguments, code=code)
    assert len(as_json(capsys, "show", "bb33")["events"]) == 10
