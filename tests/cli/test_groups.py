"""`trajlog groups` on a real database."""

from pathlib import Path
from typing import Any

import pytest

from core.vocabulary.contract import Verification
from core.vocabulary.episode import EpisodeStarted, ModelResponded, Usage, VerificationRecorded
from tests.cli.logs import append, as_json, printed, refused
from tests.databases import Database

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def url(database: Database, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> str:
    monkeypatch.setenv("TRAJLOG_DB", database.url)
    monkeypatch.setenv("TRAJLOG_HOME", str(tmp_path))
    return database.url


def rollout(url: str, group: str, number: int, verdict: str | None, **fields: Any) -> None:
    begun = EpisodeStarted(**{"task": "alarm", "group": group, "rollout": number, "policy": "p1", **fields})
    payloads: list[Any] = [begun, ModelResponded(1, usage=Usage(50, 10 * (number + 1)))]
    if verdict is not None:
        payloads.append(VerificationRecorded(Verification(verdict, progress=0.5), "machine"))  # type: ignore[arg-type]
    append(url, f"episode/{group}{number}", *payloads)


@pytest.fixture
def filled(url: str) -> str:
    for number, verdict in enumerate(["pass", "fail", "pass", None]):
        rollout(url, "aa", number, verdict)
    rollout(url, "bb", 0, "pass", task="timer", split="dev")
    rollout(url, "bb", 1, "pass", task="timer", split="dev")
    append(url, "episode/lonely", EpisodeStarted(task="alarm"))
    return url


def test_the_json_is_one_array_of_exactly_the_documented_rows(filled: str, capsys: Capture) -> None:
    first, second = as_json(capsys, "groups")
    episodes = first.pop("episodes")
    assert first == {
        "group": "aa",
        "task": "alarm",
        "policy": "p1",
        "split": "train",
        "source": "live",
        "environment": None,
        "rollouts": 4,
        "passed": 2,
        "failed": 1,
        "undecided": 1,
        "pass_rate": 2 / 3,
        "mixed": True,
        "steps": 1.0,
        "tokens": 25.0,
        "cost": None,
        "last_position": 11,
    }
    assert [one["success"] for one in episodes] == [1, 0, 1, None]
    assert episodes[1] == {
        "episode": "aa1",
        "rollout": 1,
        "attempt": 1,
        "counts": True,
        "verdict": "fail",
        "success": 0,
        "reward": None,
        "progress": 0.5,
        "steps": 1,
        "calls": 0,
        "errors": 0,
        "prompt_tokens": 50,
        "completion_tokens": 20,
        "cost": None,
        "latency_ms": None,
        "sampled_turns": 0,
    }
    assert (second["group"], second["pass_rate"], second["mixed"]) == ("bb", 1.0, False)


def test_an_attempt_that_was_made_again_counts_once(url: str, capsys: Capture) -> None:
    rollout(url, "aa", 0, "fail")
    begun = EpisodeStarted(task="alarm", group="aa", rollout=0, attempt=2)
    append(url, "episode/again", begun, VerificationRecorded(Verification("pass"), "machine"))
    (group,) = as_json(capsys, "groups")
    assert (group["rollouts"], group["passed"], group["failed"]) == (1, 1, 0)
    assert [one["counts"] for one in group["episodes"]] == [False, True]


@pytest.mark.parametrize(
    ("options", "groups"),
    [
        (("--task", "timer"), ["bb"]),
        (("--split", "train"), ["aa"]),
        (("--policy", "p1"), ["aa", "bb"]),
        (("--policy", "no\ud800ne"), []),
        (("--source", "live"), ["aa", "bb"]),
        (("--mixed",), ["aa"]),
        (("--sort", "rate", "--reverse"), ["bb", "aa"]),
        (("--sort", "latest"), ["bb", "aa"]),
        (("--limit", "1"), ["aa"]),
    ],
)
def test_filters_and_order(filled: str, capsys: Capture, options: tuple[str, ...], groups: list[str]) -> None:
    assert [row["group"] for row in as_json(capsys, "groups", *options)] == groups


def test_as_of_before_a_verdict_it_is_undecided(filled: str, capsys: Capture) -> None:
    (group,) = as_json(capsys, "groups", "--as-of", "5")
    assert [group[name] for name in ("rollouts", "passed", "undecided")] == [2, 1, 1]
    assert as_json(capsys, "groups", "--as-of", "0") == []


def test_the_table_and_the_empty_state(url: str, capsys: Capture) -> None:
    assert printed(capsys, "groups") == ""
    capsys.readouterr()
    assert as_json(capsys, "groups") == []
    rollout(url, "a\x1b[31mred", 0, "pass")
    table = printed(capsys, "groups")
    assert "100%" in table
    assert "\x1b" not in table


def test_a_bad_sort_or_split_is_one_line(filled: str, capsys: Capture) -> None:
    assert "use group, task, rate" in refused(capsys, "groups", "--sort", "size", code=2)
    assert "--split" in refused(capsys, "groups", "--split", "all", code=2)
