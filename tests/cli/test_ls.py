"""`trajlog ls` on a real database."""

from pathlib import Path

import pytest

from cli.main import run
from core.vocabulary.episode import EpisodeRetracted, EpisodeStarted
from tests.cli.logs import append, as_json, fill, printed, refused
from tests.databases import Database
from tests.eventlog.samples import judged

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def url(database: Database, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> str:
    url = database.url
    monkeypatch.setenv("TRAJLOG_DB", url)
    monkeypatch.setenv("TRAJLOG_HOME", str(tmp_path))
    return url


@pytest.fixture
def filled(url: str) -> str:
    fill(url)
    return url


def names(capsys: Capture, *options: str) -> list[str]:
    return [row["episode"] for row in as_json(capsys, "ls", *options)]


def test_the_json_is_one_array_of_exactly_the_documented_rows(filled: str, capsys: Capture) -> None:
    rows = as_json(capsys, "ls")
    assert rows[1:3] == [
        {
            "episode": "bb33",
            "task": "timer",
            "source": "live",
            "policy": "planner-1",
            "split": "dev",
            "started_at": "2026-01-04T03:04:05.000006Z",
            "ended_at": "2026-01-04T03:04:13.000006Z",
            "end": "finished",
            "verdict": "fail",
            "reward": 0.0,
            "steps": 2,
            "events": 10,
            "tokens": 220,
            "failing_tool": "tool_2",
        },
        {
            "episode": "aa22",
            "task": "alarm",
            "source": "tau-bench",
            "policy": "planner-1",
            "split": "train",
            "started_at": "2026-01-03T03:04:05.000006Z",
            "ended_at": "2026-01-03T03:04:16.000006Z",
            "end": "finished",
            "verdict": "fail",
            "reward": 0.0,
            "steps": 3,
            "events": 13,
            "tokens": 330,
            "failing_tool": "tool_3",
        },
    ]
    assert (rows[0]["episode"], rows[0]["started_at"], rows[0]["verdict"]) == ("cc44", None, "unverified")


def test_an_empty_log_lists_nothing(url: str, capsys: Capture) -> None:
    assert as_json(capsys, "ls") == []
    assert run(["ls"]) == 0
    assert capsys.readouterr().err.startswith("no episodes: the log is empty; trajlog import FILE")


@pytest.mark.parametrize(
    ("options", "found"),
    [
        ([], ["cc44", "bb33", "aa22", "aa11"]),
        (["--task", "timer"], ["cc44", "bb33"]),
        (["--verdict", "fail"], ["bb33", "aa22"]),
        (["--verdict", "unverified"], ["cc44"]),
        (["--source", "tau-bench"], ["aa22"]),
        (["--source", "live", "--verdict", "pass"], ["aa11"]),
        (["--policy", "planner-1"], ["cc44", "bb33", "aa22", "aa11"]),
        (["--policy", "planner-2"], []),
        (["--policy", "\udcff\0"], []),
        (["--tool", "tool_2"], ["cc44", "bb33"]),
        (["--split", "dev"], ["bb33"]),
        (["--import", "i1"], ["aa22"]),
        (["--import", "i"], ["aa22"]),
        (["--since", "2026-01-03"], ["cc44", "bb33", "aa22"]),
        (["--since", "2026-01-03T03:04:06Z"], ["cc44", "bb33"]),
        (["--since", "1h"], ["cc44"]),
        (["--until", "2026-01-04"], ["aa22", "aa11"]),
        (["--since", "2026-01-03", "--until", "1h"], ["bb33", "aa22"]),
        (["--reverse"], ["aa11", "aa22", "bb33", "cc44"]),
        (["--sort", "steps"], ["aa22", "cc44", "bb33", "aa11"]),
        (["--sort", "steps", "--reverse"], ["aa11", "bb33", "cc44", "aa22"]),
        (["--sort", "task"], ["aa22", "aa11", "cc44", "bb33"]),
        (["--sort", "started"], ["bb33", "aa22", "aa11", "cc44"]),
        (["--sort", "reward"], ["aa11", "bb33", "aa22", "cc44"]),
    ],
)
def test_filters_and_orders(filled: str, capsys: Capture, options: list[str], found: list[str]) -> None:
    assert names(capsys, *options) == found


@pytest.mark.parametrize("order", [[], ["--sort", "reward"], ["--sort", "started", "--reverse"], ["--sort", "tool"]])
@pytest.mark.parametrize("reverse", [[], ["--reverse"]])
def test_pages_follow_each_other_without_a_gap(
    filled: str, capsys: Capture, order: list[str], reverse: list[str]
) -> None:
    options = [*order, *reverse]
    whole = names(capsys, *options)
    paged: list[str] = []
    while page := names(capsys, *options, "--limit", "1", *(["--after", paged[-1]] if paged else [])):
        paged += page
    assert paged == whole
    assert len(whole) == 4


def test_a_note_says_how_to_see_the_next_page(filled: str, capsys: Capture) -> None:
    assert run(["ls", "--limit", "2"]) == 0
    assert capsys.readouterr().err == "there are more; the next page: --after bb33\n"
    assert run(["ls", "--limit", "4"]) == 0
    assert capsys.readouterr().err == ""
    assert len(names(capsys, "--limit", "0")) == 4


def test_a_later_verdict_and_a_new_episode_are_seen_at_once(filled: str, capsys: Capture) -> None:
    assert names(capsys, "--verdict", "pass") == ["aa11"]
    append(filled, "episode/bb33", judged("pass", source="human"))
    append(filled, "episode/dd55", EpisodeStarted(task="new"))
    assert names(capsys, "--verdict", "pass") == ["bb33", "aa11"]
    assert names(capsys)[0] == "dd55"


def test_retracted_episodes_are_hidden_unless_asked_for(filled: str, capsys: Capture) -> None:
    append(filled, "episode/aa22", EpisodeRetracted(import_id="i1"))
    assert names(capsys) == ["cc44", "bb33", "aa11"]
    assert names(capsys, "--retracted") == ["cc44", "bb33", "aa22", "aa11"]
    assert names(capsys, "--retracted", "--import", "i1") == ["aa22"]


def test_the_text_is_a_table(filled: str, capsys: Capture) -> None:
    heads, _, second, *_ = printed(capsys, "ls").splitlines()
    assert heads.split() == [
        "episode", "verdict", "reward", "steps", "tokens", "task", "failing_tool", "policy", "source", "started_at",
    ]  # fmt: skip
    assert second.split() == [
        "bb33", "fail", "0", "2", "220", "timer", "tool_2", "planner-1", "live", "2026-01-04T03:04:05Z",
    ]  # fmt: skip


def test_control_characters_of_a_task_do_not_reach_the_terminal(url: str, capsys: Capture) -> None:
    append(url, "episode/e1", EpisodeStarted(task="\x1b[2J\nx"))
    assert "\\x1b[2J\\nx" in printed(capsys, "ls")


@pytest.mark.parametrize(
    ("options", "code", "line"),
    [
        (["--verdict", "good"], 2, "--verdict: 'good' is not one of pass, fail"),
        (["--split", "test"], 2, "--split: 'test' is not one of train"),
        (["--sort", "colour"], 2, "--sort: cannot sort by 'colour'"),
        (["--since", "yesterday"], 2, "yesterday"),
        (["--limit", "-1"], 2, "limit"),
        (["--after", "zz"], 1, "zz: no such episode"),
        (["--after", "aa"], 1, "aa: more than one episode starts with it: aa11, aa22"),
    ],
)
def test_a_wrong_option_is_one_line(filled: str, capsys: Capture, options: list[str], code: int, line: str) -> None:
    assert line in refused(capsys, "ls", *options, code=code)


def test_a_log_in_memory_has_no_lists(monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    monkeypatch.setenv("TRAJLOG_DB", "memory://")
    assert "a log in memory has no lists" in refused(capsys, "ls", code=2)
