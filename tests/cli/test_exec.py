"""`trajlog exec`: recorded episodes run again, from the command line."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from cli.main import run
from tests.backends import recordings
from tests.cli.logs import as_json, printed, refused
from tests.databases import Database, Databases


@pytest.fixture(scope="module")
def _filled(databases: Databases, tmp_path_factory: pytest.TempPathFactory) -> Database:
    """Six imported episodes of the airline and one live one of the phone."""
    found = databases.fresh("exec")
    folder = tmp_path_factory.mktemp("exec")
    (folder / "results.json").write_text(json.dumps(recordings.results(6)))
    base = ["--db", found.url, "--home", str(folder), "--quiet"]
    assert run([*base, "import", str(folder / "results.json")]) == 0
    (folder / "steps.json").write_text('[{"tool": "get_time"}, {"tool": "lock"}, {"answer": "It is two."}]')
    assert run([*base, "task", "add", "--env", "phone"]) == 0
    planner = f"script:{folder / 'steps.json'}"
    assert run([*base, "run", "--env", "phone", "--task", "phone/early-flight", "--planner", planner]) == 1
    return found


@pytest.fixture
def log(_filled: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Database]:
    """That log, with a home of the test's own: nothing is mounted in it."""
    monkeypatch.setenv("TRAJLOG_DB", _filled.url)
    monkeypatch.setenv("TRAJLOG_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("TRAJLOG_CONFIG", str(_none(tmp_path)))
    yield _filled


def _none(folder: Path) -> Path:
    file = folder / "config.toml"
    file.write_text("")
    return file


def mounted(folder: Path, *changes: tuple[str, str, str]) -> None:
    """Mount a copy of the airline, changed."""
    copy = Path(shutil.copytree(recordings.AIRLINE, folder / "airline", dirs_exist_ok=True))
    for name, old, new in changes:
        text = (copy / name).read_text()
        assert old in text
        (copy / name).write_text(text.replace(old, new))
    assert run(["env", "add", str(copy / "mount.toml"), "--quiet"]) == 0


RENAMED = ("airline_tools/data.py", '"province": "VL"', '"state": "VL"')


def test_everything_comes_again(log: Database, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    mounted(tmp_path)
    out = printed(capsys, "exec", "--source", "tau-bench")
    assert out.splitlines()[-1].startswith("6 episodes in tau-bench@")
    assert out.splitlines()[-1].endswith(": 6 the same, 0 diverged, 0 incomplete")
    told = as_json(capsys, "exec", "--all")
    assert (told["episodes"], told["same"], told["diverged"], told["incomplete"], told["by"]) == (7, 7, 0, 0, [])


def test_one_episode_says_each_divergence(log: Database, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    mounted(tmp_path, RENAMED)
    (name, *_) = [row["episode"] for row in as_json(capsys, "ls", "--source", "tau-bench")]
    line, last = printed(capsys, "exec", name, code=1).splitlines()
    assert line.startswith(f"DIVERGED ep={name} step=2 get_user_details $.address: -province +state")
    assert last.startswith("7 of 8 steps the same in tau-bench@")
    told = json.loads(printed(capsys, "exec", name[:9], "--json", code=1))
    assert [*told][:7] == ["episode", "env", "steps", "same", "masked", "diverged", "exit"]
    assert (told["episode"], told["steps"], told["same"], told["masked"], told["exit"]) == (name, 8, 7, 0, 1)
    (one,) = told["diverged"]
    assert [*one][:7] == ["version", "step", "tool", "path", "expected", "actual", "class"]
    assert (one["path"], one["expected"], one["class"]) == ("$.address.province", "VL", "environment_drift")


def test_many_episodes_are_summed_up(log: Database, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    mounted(tmp_path, RENAMED)
    out = printed(capsys, "exec", "--source", "tau-bench", code=1).splitlines()
    assert [line.split()[0] for line in out[:6]] == ["DIVERGED"] * 6
    assert out[6].split() == ["tool", "field", "class", "episodes"]
    assert out[7].split() == ["get_user_details", "$.address.province", "environment_drift", "6"]
    told = json.loads(printed(capsys, "exec", "--source", "tau-bench", "--json", code=1))
    assert told["by"] == [
        {"tool": "get_user_details", "path": "$.address.province", "class": "environment_drift", "episodes": 6}
    ]
    assert len(told["results"]) == 6


def test_an_environment_that_is_not_mounted_is_named(log: Database, capsys: pytest.CaptureFixture[str]) -> None:
    (name, *_) = [row["episode"] for row in as_json(capsys, "ls", "--source", "tau-bench")]
    said = refused(capsys, "exec", name, code=4)
    assert "it was recorded in 'tau-bench', and no environment is called so here; give --env NAME" in said
    out = printed(capsys, "exec", "--all", code=3)
    assert "and 5 more: tau-bench: no such environment" in out
    assert out.splitlines()[-1].endswith("1 the same, 0 diverged, 6 incomplete")


def test_what_was_recorded_here_runs_where_it_did(log: Database, capsys: pytest.CaptureFixture[str]) -> None:
    told = as_json(capsys, "exec", "@last")
    assert told["env"].startswith("phone@")
    assert (told["same"], told["exit"]) == (2, 0)
    drift = json.loads(printed(capsys, "exec", "@last", "--env", "phone-next", "--json"))
    assert drift["env"].startswith("phone-next@")


def test_effects_are_listed_first_and_nothing_runs(
    log: Database, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    reaching = ('name = "tau-bench"', 'name = "tau-bench"\nopen_world = { "search_*" = ["net"], think = ["host"] }')
    mounted(tmp_path, ("mount.toml", *reaching))
    capsys.readouterr()
    assert run(["exec", "--source", "tau-bench"]) == 2
    out, err = capsys.readouterr()
    assert [line.split(":")[0] for line in out.splitlines()] == ["host", "net"]
    assert "search_direct_flight" in out
    assert err.strip().endswith("nothing was run: actions would reach outside the environment; --allow host,net")
    told = json.loads(printed(capsys, "exec", "--source", "tau-bench", "--json", code=2))
    assert [one["effect"] for one in told["effects"]] == ["host", "net"]
    assert run(["exec", "--source", "tau-bench", "--allow", "net", "--quiet"]) == 2
    assert run(["exec", "--source", "tau-bench", "--allow", "net,host", "--quiet"]) == 0


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["exec"], 2, "no episode to run"),
        (["exec", "@last", "--all"], 2, "named or chosen, not both"),
        (["exec", "@last@3"], 2, "whole episodes are run"),
        (["exec", "nosuch"], 1, "no such episode"),
        (["exec", "@last", "--env", "nosuch"], 1, "no such environment; there are phone"),
        (["exec", "@last", "--mask", "colour"], 2, "'colour' cannot be masked; use time, ids, or none"),
        (["exec", "@last", "--allow", "all"], 2, "'all' is no effect; use net, device, host"),
        (["exec", "--verdict", "bad"], 2, "'bad' is not one of"),
    ],
)
def test_what_cannot_be_asked_is_one_line(
    log: Database, capsys: pytest.CaptureFixture[str], arguments: list[str], code: int, said: str
) -> None:
    assert said in refused(capsys, *arguments, code=code)


def test_the_wrong_environment_is_said_and_nothing_is_recorded(
    log: Database, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (name, *_) = [row["episode"] for row in as_json(capsys, "ls", "--source", "tau-bench")]
    with log.ledger() as ledger:
        before = ledger.head().position
    (line,) = printed(capsys, "exec", name, "--env", "phone", code=3).splitlines()
    assert line.startswith(f"INCOMPLETE ep={name}: phone@")
    assert "has none of the tools that were called, so nothing was compared" in line
    assert "get_user_details" in line
    line, last = printed(capsys, "exec", "--source", "tau-bench", "--env", "phone", code=3).splitlines()
    assert " and 5 more: phone@" in line
    assert last == "6 episodes: 0 the same, 0 diverged, 6 incomplete"
    with log.ledger() as ledger:
        assert ledger.head().position == before


def test_an_empty_log_says_what_to_do(database: Database, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    base = ["--db", database.url, "--home", str(tmp_path), "exec"]
    assert run([*base, "--all"]) == 0
    assert capsys.readouterr().err == "no episodes; trajlog import FILE brings some, trajlog run makes some\n"
    assert run([*base, "--task", "x"]) == 0
    assert capsys.readouterr().err == "no episode fits; trajlog ls says which there are\n"


def test_no_episodes_are_no_failure(log: Database, capsys: pytest.CaptureFixture[str]) -> None:
    told = as_json(capsys, "exec", "--task", "nothing/like-it")
    assert told == {"episodes": 0, "same": 0, "diverged": 0, "incomplete": 0, "by": [], "results": []}
    assert printed(capsys, "exec", "--task", "nothing/like-it") == ""


def test_an_environment_that_cannot_start_is_unavailable(
    log: Database, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    mounted(tmp_path)
    (tmp_path / "airline" / "airline_tools" / "__init__.py").write_text("import nothing_like_it")
    assert "No module named 'nothing_like_it'" in refused(capsys, "exec", "@last", "--env", "tau-bench", code=4)
