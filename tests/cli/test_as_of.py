"""`--as-of` on every command that reads: what the log's first events give, whatever came later."""

import json
from pathlib import Path
from typing import Any

import pytest

from cli import tree
from cli.frame import load
from cli.main import run
from core.times import to_text
from eventlog.ledger import Ledger
from tests.cli.logs import append, as_json, fill, printed, refused
from tests.databases import Database
from tests.eventlog.samples import judged

Capture = pytest.CaptureFixture[str]
READING = (
    "ls", "show", "grep", "diff", "step", "report", "export", "verdict", "status", "tasks", "tools", "policies"
)  # fmt: skip


@pytest.fixture
def url(database: Database, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> str:
    """Four episodes end at position 39; then the one that passed is judged otherwise."""
    monkeypatch.setenv("TRAJLOG_DB", database.url)
    monkeypatch.setenv("TRAJLOG_HOME", str(tmp_path / "home"))
    fill(database.url)
    append(database.url, "episode/aa11", judged("fail", source="human"))
    return database.url


def test_every_reading_command_takes_it() -> None:
    for name in READING:
        command = load(name)
        assert command is not None
        assert "as_of" in {param.name for param in command.params}, name
    assert set(READING) <= set(tree.COMMANDS)


def names(capsys: Capture, *options: str) -> list[str]:
    return [row["episode"] for row in as_json(capsys, "ls", *options)]


def test_lists_are_as_they_were(url: str, capsys: Capture) -> None:
    assert names(capsys, "--verdict", "pass") == []
    assert names(capsys, "--verdict", "pass", "--as-of", "39") == ["aa11"]
    assert names(capsys, "--as-of", "20") == ["aa22", "aa11"]
    assert names(capsys, "--as-of", "15", "--verdict", "unverified") == ["aa22"]
    assert names(capsys, "--as-of", "20", "--after", "aa22") == ["aa11"]
    assert names(capsys, "--as-of", "0") == []


def test_a_time_and_a_tag_name_the_same_cut(url: str, capsys: Capture) -> None:
    with Ledger(url) as log:
        stamps = [event.committed_at for event in log.read_all()]
    assert names(capsys, "--as-of", to_text(stamps[19])) == ["aa22", "aa11"]
    assert run(["tag", "create", "then", "--at", "20"]) == 0
    assert names(capsys, "--as-of", "then") == ["aa22", "aa11"]


def test_what_names_no_cut_is_one_clear_line(url: str, capsys: Capture) -> None:
    assert refused(capsys, "ls", "--as-of", "41") == (
        "trajlog: position 41: the log ends at position 40; give a position from 1 to 40"
    )
    assert refused(capsys, "ls", "--as-of", "nobody") == "trajlog: 'nobody': no such tag; trajlog tag ls lists them"
    assert "before the first event" in refused(capsys, "ls", "--as-of", "2001-01-01")
    assert "in the future" in refused(capsys, "ls", "--as-of", "2900-01-01", code=2)


def test_an_episode_is_shown_as_it_was(url: str, capsys: Capture) -> None:
    found = as_json(capsys, "show", "aa11", "--as-of", "5")
    assert (found["verdict"], len(found["events"])) == ("unverified", 5)
    assert as_json(capsys, "show", "@last", "--as-of", "20")["episode"] == "aa22"
    assert as_json(capsys, "show", "@last-failed", "--as-of", "39")["episode"] == "bb33"
    assert "no such episode" in refused(capsys, "show", "bb33", "--as-of", "20")
    assert refused(capsys, "show", "aa11", "--follow", "--as-of", "5", code=2).endswith("leave --as-of out")
    assert "there is no event 6" in refused(capsys, "show", "aa11@6", "--as-of", "5")


def test_a_search_finds_what_was_there(url: str, capsys: Capture) -> None:
    def found(*options: str) -> set[str]:
        return {row["episode"] for row in as_json(capsys, "grep", *options)}

    for pattern in ("timer", "tim", "human|fail"):
        more = ("-E",) if "|" in pattern else ()
        assert found(pattern, *more, "--as-of", "20") <= {"aa11", "aa22"}
        assert found(pattern, *more) - {"aa11", "aa22"}
    assert found("alarm", "--as-of", "5") == {"aa11"}
    assert found("alarm", "--as-of", "20", "--episode", "aa22") == {"aa22"}
    assert found("alarm", "--as-of", "39", "--verdict", "pass") == {"aa11"}


def test_a_search_by_the_index_finds_what_was_there(url: str, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    from eventlog.search import index

    monkeypatch.setattr(index, "BLOCK_EVENTS", 4)
    monkeypatch.setattr(index, "TAIL", 4)
    assert {row["position"] for row in as_json(capsys, "grep", "please", "--as-of", "20")} == {2, 9}
    assert {row["position"] for row in as_json(capsys, "grep", "please", "--as-of", "8")} == {2}
    assert len(as_json(capsys, "grep", "please")) == 4


def test_a_comparison_is_as_it_was(url: str, capsys: Capture) -> None:
    assert "no other episode of task alarm has passed" in refused(capsys, "diff", "aa22")
    assert run(["diff", "aa22", "--as-of", "39", "--json"]) == 1
    whole = json.loads(capsys.readouterr().out)
    assert (whole["b"]["episode"], whole["b"]["verdict"], whole["a"]["calls"]) == ("aa11", "pass", 3)
    assert run(["diff", "aa22", "aa11", "--as-of", "14", "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["a"]["calls"] == 2


def test_an_export_and_a_report_are_as_they_were(url: str, tmp_path: Path, capsys: Capture) -> None:
    whole = printed(capsys, "export", "--all", "--as-of", "39").splitlines()
    assert len(whole) == 4
    assert len(printed(capsys, "export", "--all", "--as-of", "20").splitlines()) == 2
    assert len(printed(capsys, "export", "--verdict", "pass", "--as-of", "39").splitlines()) == 1
    out = tmp_path / "page.html"
    found = as_json(capsys, "report", "aa11", "-o", str(out), "--as-of", "5")
    assert found["events"] == 5
    assert "no such episode" in refused(capsys, "report", "bb33", "-o", str(out), "--force", "--as-of", "20")


def test_verdicts_and_their_history_are_as_they_were(url: str, capsys: Capture) -> None:
    assert len(as_json(capsys, "verdict", "aa11", "--history")) == 2
    assert len(as_json(capsys, "verdict", "aa11", "--history", "--as-of", "39")) == 1
    assert "made now" in refused(capsys, "verdict", "aa11", "fail", "--as-of", "39", code=2)


def test_the_status_is_that_of_the_cut(url: str, capsys: Capture) -> None:
    as_json(capsys, "ls")
    found = as_json(capsys, "status", "--as-of", "20")
    with Ledger(url) as log:
        assert (found["position"], found["root"]) == (20, log.root(20).hex())
    assert (found["projections"][0]["position"], found["projections"][0]["lag"]) == (20, 0)


def test_rates_are_as_they_were(url: str, capsys: Capture) -> None:
    def passed(*options: str) -> dict[str, Any]:
        return {row["task"]: row["passed"] for row in as_json(capsys, "tasks", *options)}

    assert passed() == {"alarm": 0, "timer": 0}
    assert passed("--as-of", "39") == {"alarm": 1, "timer": 0}
    assert passed("--as-of", "20") == {"alarm": 1}
    assert passed("--as-of", "20", "--policy", "planner-1") == {"alarm": 1}
    assert passed("--as-of", "39", "--split", "dev") == {"timer": 0}
    assert [row["calls"] for row in as_json(capsys, "tools", "--as-of", "20")] == [2, 1, 1]
    assert [row["failed"] for row in as_json(capsys, "policies", "--as-of", "20")] == [1]
    assert as_json(capsys, "policies", "--as-of", "0") == []
