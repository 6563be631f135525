"""`trajlog mark` on a real database."""

from pathlib import Path

import pytest

from core.vocabulary.episode import EpisodeStarted
from tests.cli.logs import append, as_json, printed, refused
from tests.databases import Database
from tests.eventlog import samples

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def url(database: Database, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> str:
    monkeypatch.setenv("TRAJLOG_DB", database.url)
    monkeypatch.setenv("TRAJLOG_HOME", str(tmp_path))
    made = (("aa11", "schema", "pass"), ("bb22", "timeout", "pass"), ("cc33", "unknown_tool", "fail"))
    for name, class_, verdict in made:
        payloads = [EpisodeStarted(task="alarm"), samples.turn(1), samples.call(1, "send", "c1", to=3)]
        append(database.url, f"episode/{name}", *payloads, samples.failed(1, class_), samples.judged(verdict))
    append(database.url, "episode/dd44", *samples.episode(verdict="pass"))
    return database.url


def test_all_then_again(url: str, capsys: Capture) -> None:
    rows = as_json(capsys, "mark", "--all")
    assert [(row["episode"], row["version"], row["step"], row["rule"], row["new"]) for row in rows] == [
        ("aa11", 3, 1, "schema_violation@1", True),
        ("cc33", 3, 1, "unknown_tool@1", True),
    ]
    again = as_json(capsys, "mark", "--all")
    assert again == [row | {"new": False} for row in rows]
    events = as_json(capsys, "show", "aa11")
    assert "TurnMarked" in str(events)


def test_a_dry_run_says_the_same_and_marks_nothing(url: str, capsys: Capture) -> None:
    dry = as_json(capsys, "mark", "--all", "--dry-run")
    assert as_json(capsys, "mark", "--all", "--dry-run") == dry
    assert as_json(capsys, "mark", "--all") == dry


@pytest.mark.parametrize(
    ("chosen", "episodes"),
    [
        (("aa", "@last"), ["aa11"]),
        (("--verdict", "fail"), ["cc33"]),
        (("--task", "alarm", "--verdict", "pass"), ["aa11"]),
        (("--policy", "nobody"), []),
        (("bb22",), []),
    ],
)
def test_which_episodes(url: str, capsys: Capture, chosen: tuple[str, ...], episodes: list[str]) -> None:
    assert [row["episode"] for row in as_json(capsys, "mark", *chosen)] == episodes


def test_the_table_and_the_note(url: str, capsys: Capture) -> None:
    capsys.readouterr()
    table = printed(capsys, "mark", "aa11")
    assert table.splitlines()[1].split()[:3] == ["aa11@3", "1", "schema_violation@1"]
    capsys.readouterr()
    assert printed(capsys, "mark", "bb22") == ""


@pytest.mark.parametrize("chosen", [(), ("aa11", "--all"), ("--all", "--task", "alarm"), ("aa11", "--verdict", "pass")])
def test_the_choice_is_one(url: str, capsys: Capture, chosen: tuple[str, ...]) -> None:
    assert "which episodes?" in refused(capsys, "mark", *chosen, code=2)


def test_an_unknown_episode_is_one_line(url: str, capsys: Capture) -> None:
    assert "no such episode" in refused(capsys, "mark", "zz99")
