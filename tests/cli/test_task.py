"""`trajlog task`: tasks go in through the gate, and what does not is named in one line."""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from backends.phone import TASKS
from backends.tasks import read
from cli.main import run
from tests.databases import Database

FLIGHT = next(task for task in read(TASKS) if task.id == "phone/early-flight")


@pytest.fixture(autouse=True)
def _here(database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRAJLOG_DB", database.url)
    monkeypatch.setenv("TRAJLOG_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)


def printed(capsys: pytest.CaptureFixture[str]) -> Any:
    return json.loads(capsys.readouterr().out)


def written(**changes: Any) -> str:
    """A file with the flight task, some of its specification changed."""
    value = msgspec.to_builtins(msgspec.json.decode(msgspec.json.encode(FLIGHT)))
    value["spec"] |= changes
    Path("task.json").write_text(json.dumps(value))
    return "task.json"


def test_an_environments_tasks_are_added_listed_shown_and_tried_again(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["task", "add", "--env", "phone", "--json"]) == 0
    added = printed(capsys)
    assert len(added) == 5
    assert {row["admitted"] for row in added} == {True}
    assert added[0]["probes"][0] == {"name": "gold", "expected": "pass", "verdict": "pass"}
    assert run(["task", "ls", "--json"]) == 0
    listed = printed(capsys)
    assert [row["task"] for row in listed] == sorted(row["task"] for row in added)
    assert run(["task", "ls"]) == 0
    assert "Wake me at 05:45" in capsys.readouterr().out
    assert run(["task", "show", "phone/early-flight", "--json"]) == 0
    shown = printed(capsys)
    assert shown["digest"] == FLIGHT.digest
    assert shown["plans"]["gold"][0] == {"tool": "list_alarms"}
    assert run(["task", "show", "phone/early-flight"]) == 0
    assert "admitted in phone@" in capsys.readouterr().out
    assert run(["task", "gate", "phone/early-flight", "phone/which-gate"]) == 0
    assert capsys.readouterr().out.count(" yes ") == 2
    assert run(["task", "add", "--env", "phone"]) == 0


def test_an_empty_log_says_how_to_begin(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["task", "ls"]) == 0
    said = capsys.readouterr()
    assert said.out == ""
    assert "trajlog task add --env phone" in said.err
    assert run(["task", "ls", "--json"]) == 0
    assert printed(capsys) == []


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"criteria": []}, "phone/early-flight: refused: it has no criteria"),
        ({"criteria": [{"id": "a", "policy": "state"}]}, "criterion a asks nothing"),
        ({"goal": None}, "task.json: no task"),
        ({"split": "test"}, "task.json: no task"),
    ],
)
def test_a_task_that_can_never_be_judged_leaves_nothing_behind(
    capsys: pytest.CaptureFixture[str], change: dict[str, Any], why: str
) -> None:
    assert run(["task", "add", written(**change)]) == 1
    said = capsys.readouterr()
    assert why in said.err and said.err.count("\n") == 1
    assert run(["task", "ls", "--json"]) == 0
    assert printed(capsys) == []


def test_a_gold_plan_that_fails_keeps_its_task_out(capsys: pytest.CaptureFixture[str]) -> None:
    criteria = [{"id": "a", "policy": "state", "rule": {"path": "$.alarms[*]", "like": {"time": "04:00"}}}]
    assert run(["task", "add", written(criteria=criteria)]) == 1
    said = capsys.readouterr()
    assert said.err.startswith("trajlog: phone/early-flight: not admitted: the gold plan fails: check a is fail")
    assert said.err.count("\n") == 1
    assert " no " in said.out
    assert run(["run", "--task", "phone/early-flight", "--planner", "script:x.json"]) == 2
    capsys.readouterr()
    Path("x.json").write_text('[{"answer": "Done."}]')
    assert run(["run", "--task", "phone/early-flight", "--planner", "script:x.json"]) == 1
    said = capsys.readouterr()
    assert "was not admitted (the gold plan fails" in said.err
    assert "trajlog task gate phone/early-flight" in said.err
    assert run(["task", "add", written()]) == 0
    capsys.readouterr()
    assert run(["run", "--task", "phone/early-flight", "--planner", "script:x.json", "--json"]) == 1
    assert printed(capsys)["episodes"][0]["verdict"] == "fail"


@pytest.mark.parametrize(
    ("name", "text", "why"),
    [
        (
            "bad.json",
            '{"id": "tea", "spec": {',
            "it is cut short: the JSON in it does not end; get the whole file again",
        ),
        ("bad.json", "id: tea", "it is no JSON: JSON is malformed: invalid character (byte 0); a task file ends in"),
        ("bad.jsonl", '{"id": "tea"}\n{"id"', "it is cut short: the JSON in it does not end"),
        ("bad.toml", "id = ", "it is no TOML: Invalid value (at end of document)"),
        ("bad.json", "", "it is empty; write a task in it"),
    ],
)
def test_a_file_that_holds_no_task_is_one_line(
    capsys: pytest.CaptureFixture[str], name: str, text: str, why: str
) -> None:
    Path(name).write_text(text)
    assert run(["task", "add", name]) == 1
    said = capsys.readouterr().err
    assert said.startswith(f"trajlog: {name}: {why}") and said.count("\n") == 1, said


@pytest.mark.parametrize(
    ("arguments", "code", "why"),
    [
        (["task", "add"], 2, "nothing to add"),
        (["task", "add", "none.json"], 2, "none.json: cannot be read: No such file"),
        (["task", "add", "--env", "tablet"], 1, "tablet: no such environment; there are phone"),
        (["task", "show", "x"], 1, "x: no such task"),
        (["task", "gate", "x"], 1, "x: no such task"),
    ],
)
def test_what_is_not_there_is_said_in_one_line(
    capsys: pytest.CaptureFixture[str], arguments: list[str], code: int, why: str
) -> None:
    assert run(arguments) == code
    said = capsys.readouterr().err
    assert why in said and said.count("\n") == 1
