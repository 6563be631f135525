"""`trajlog tasks`, `tools` and `policies` on a real database."""

from pathlib import Path

import pytest

from cli.main import run
from tests.cli.logs import as_json, fill, printed, refused
from tests.databases import Database

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def url(database: Database, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> str:
    monkeypatch.setenv("TRAJLOG_DB", database.url)
    monkeypatch.setenv("TRAJLOG_HOME", str(tmp_path))
    return database.url


@pytest.fixture
def filled(url: str) -> str:
    fill(url)
    return url


def test_tasks_are_exactly_the_documented_rows(filled: str, capsys: Capture) -> None:
    assert as_json(capsys, "tasks")[0] == {
        "task": "alarm",
        "episodes": 2,
        "policies": 1,
        "groups": 0,
        "mixed": 0,
        "passed": 1,
        "failed": 1,
        "undecided": 0,
        "unverified": 0,
        "pass_rate": 0.5,
        "trials": 2,
        "pass_k": [0.5, 0.0],
        "steps": 2.0,
        "tokens": 220.0,
        "last_position": 20,
    }


def test_tools_and_policies_are_exactly_the_documented_rows(filled: str, capsys: Capture) -> None:
    assert as_json(capsys, "tools")[1] == {
        "tool": "tool_2",
        "episodes": 3,
        "calls": 3,
        "answers": 3,
        "errors": 2,
        "error_rate": 2 / 3,
        "classes": {"not_found": 2},
        "mean_ms": 5.0,
        "p50_ms": 4.992,
        "p95_ms": 4.992,
        "max_ms": 5.0,
    }
    (policy,) = as_json(capsys, "policies")
    assert list(policy) == [
        "policy", "episodes", "tasks", "passed", "failed", "undecided", "unverified", "pass_rate", "trials", "pass_k",
        "steps", "tokens", "last_position",
    ]  # fmt: skip
    assert (policy["policy"], policy["pass_rate"], policy["pass_k"]) == ("planner-1", 1 / 3, [0.25, 0.0])


def test_as_a_table(filled: str, capsys: Capture) -> None:
    assert printed(capsys, "tasks").splitlines()[1].split() == [
        "alarm", "2", "0", "0", "1", "1", "0", "0", "50.0%", "0.50", "0.00", "2.0", "220"
    ]  # fmt: skip
    assert "66.7%" in printed(capsys, "tools") and "not_found 2" in printed(capsys, "tools")
    assert "planner-1" in printed(capsys, "policies")


@pytest.mark.parametrize(("command", "empty"), [("tasks", "tasks"), ("tools", "tools"), ("policies", "policies")])
def test_an_empty_log_has_none(url: str, capsys: Capture, command: str, empty: str) -> None:
    assert as_json(capsys, command) == []
    assert run([command]) == 0
    assert capsys.readouterr().err.startswith(f"no {empty}: the log is empty; trajlog import FILE")


def test_filters_sorts_and_limits(filled: str, capsys: Capture) -> None:
    def tasks(*options: str) -> list[str]:
        return [row["task"] for row in as_json(capsys, "tasks", *options)]

    assert tasks("--sort", "rate") == ["timer", "alarm"]
    assert tasks("--reverse") == ["timer", "alarm"]
    assert tasks("--split", "dev") == ["timer"]
    assert tasks("--source", "tau-bench") == ["alarm"]
    assert tasks("--since", "2026-01-04") == ["timer"]
    assert tasks("--policy", "nobody") == []
    assert run(["tasks", "--limit", "1"]) == 0
    assert "there are more: --limit 4" in capsys.readouterr().err
    assert len(as_json(capsys, "tools", "--import", "i1")) == 3
    assert refused(capsys, "tools", "--sort", "size", code=2) == (
        "trajlog: --sort: cannot sort by 'size'; use tool, calls, errors, rate, mean, p95"
    )
    assert refused(capsys, "policies", "--split", "odd", code=2).startswith("trajlog: --split: 'odd' is not one of")


def test_only_what_is_read_is_folded(filled: str, capsys: Capture) -> None:
    as_json(capsys, "tools")
    made = {row["name"] for row in as_json(capsys, "project", "ls") if row["state"] == "live"}
    assert made == {"tool_use", "tool"}
    as_json(capsys, "tasks")
    made = {row["name"] for row in as_json(capsys, "project", "ls") if row["state"] == "live"}
    assert made == {"tool_use", "tool", "episode", "task"}
