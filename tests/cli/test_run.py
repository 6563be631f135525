"""`trajlog run`: planners on tasks, recorded; killed ones are gone on with."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest

from backends.phone import TASKS, Phone
from backends.planners import PlannerSpec
from backends.running import Episode
from backends.tasks import read
from cli.main import run
from core.vocabulary.episode import EpisodeEnded, EpisodeStarted
from tests.backends.plays import Killed, Mortal, job, of_type
from tests.backends.server import serving
from tests.cli.process import environment
from tests.databases import Database

ALL = {task.id: task for task in read(TASKS)}
FLIGHT = ALL["phone/early-flight"]


@pytest.fixture(autouse=True)
def _here(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TRAJLOG_DB", database.url)
    monkeypatch.setenv("TRAJLOG_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    for task in ALL.values():
        (tmp_path / f"{task.id.removeprefix('phone/')}.json").write_bytes(msgspec.json.encode(task.plans.gold))
    assert run(["task", "add", "--env", "phone"]) == 0
    capsys.readouterr()


def printed(capsys: pytest.CaptureFixture[str]) -> Any:
    return json.loads(capsys.readouterr().out)


def flight(*options: str) -> list[str]:
    return ["run", "--task", "phone/early-flight", "--planner", "script:early-flight.json", *options]


def test_a_script_runs_and_is_recorded(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(flight("--env", "phone")) == 0
    said = capsys.readouterr().out
    assert "finished" in said and said.endswith("1 of 1 passed\n")
    assert run(["ls", "--json"]) == 0
    [row] = printed(capsys)
    assert (row["task"], row["verdict"], row["policy"], row["source"]) == (
        "phone/early-flight",
        "pass",
        "script:early-flight.json",
        "live",
    )
    assert run(["show", "@last"]) == 0
    assert "set_alarm" in capsys.readouterr().out


def test_a_fault_makes_it_fail_and_the_exit_code_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    Path("faults.json").write_text('[{"fault":"busy","tool":"set_alarm","class":"transient","message":"busy"}]')
    assert run(flight("--faults", "faults.json", "--json")) == 1
    said = printed(capsys)
    assert (said["passed"], said["exit"]) == (0, 1)
    [episode] = said["episodes"]
    assert (episode["verdict"], episode["failed"], episode["steps"]) == ("fail", ["alarm_set"], 3)
    assert run(["show", "@last-failed"]) == 0
    assert "fault busy injected" in capsys.readouterr().out


def test_a_group_of_a_model_is_run_at_once(capsys: pytest.CaptureFixture[str], database: Database) -> None:
    with serving(FLIGHT.plans.gold) as server:
        planner = f"openai:{server.url.replace('//', '//user:secret@')}#planner-27b"
        arguments = ["run", "--task", "phone/early-flight", "--planner", planner]
        assert run([*arguments, "--group", "4", "--parallel", "2", "--json"]) == 0
    said = printed(capsys)
    assert said["passed"] == 4
    assert [row["rollout"] for row in said["episodes"]] == [0, 1, 2, 3]
    assert "secret" not in said["planner"]
    [group] = said["groups"]
    with database.ledger() as log:
        started = of_type(list(log.read_all()), EpisodeStarted)
        assert {one.group for one in started} == {group}
        assert {one.policy for one in started} == {"planner-27b"}
        assert not any(b"secret" in event.body for event in log.read_all())


def test_several_tasks_run_in_turn(capsys: pytest.CaptureFixture[str]) -> None:
    tasks = ["--task", "phone/early-flight", "--task", "phone/move-alarm"]
    assert run(["run", *tasks, "--planner", "script:early-flight.json", "--json"]) == 1
    assert [row["verdict"] for row in printed(capsys)["episodes"]] == ["pass", "fail"]


@pytest.mark.parametrize(
    ("arguments", "code", "why"),
    [
        (["run"], 2, "--task is missing; trajlog task ls lists them, trajlog task add --env phone adds some"),
        (["run", "--task", "phone/early-flight"], 2, "--planner is missing"),
        (["run", "--end"], 2, "--resume is missing"),
        (["run", "--task", "x", "--planner", "script:early-flight.json"], 1, "x: no such task; trajlog task ls"),
        (flight("--sampling", "{"), 2, "--sampling: no JSON object"),
        (flight("--sampling", "[1]"), 2, "--sampling: no JSON object"),
        (["run", "--resume", "x", "--sampling", ""], 2, "what it goes on with is settled"),
        (flight("--env", "tablet"), 1, "it may run in phone only, not in tablet"),
        (flight("--env", "phone-next"), 1, "it may run in phone only"),
        (flight("--faults", "early-flight.json"), 2, "early-flight.json: "),
        (flight("--faults", "none.json"), 2, "none.json: cannot be read"),
        (["run", "--task", "phone/early-flight", "--planner", "gold"], 2, "'gold' is no planner"),
        (["run", "--task", "phone/early-flight", "--planner", "script:none.json"], 2, "none.json: cannot be read"),
        (["run", "--task", "phone/early-flight", "--planner", "openai:x#m"], 2, "openai: takes an http URL"),
        (flight("--group", "0"), 2, "group"),
        (["run", "--resume", "x"], 1, "x: no such episode"),
        (flight("--resume", "x"), 2, "what it goes on with is settled"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(
    capsys: pytest.CaptureFixture[str], arguments: list[str], code: int, why: str
) -> None:
    assert run(arguments) == code
    said = capsys.readouterr().err
    assert why in said and said.count("\n") == 1


@pytest.mark.parametrize("text", ["", "[]", "\n"])
def test_a_script_without_a_step_records_nothing(
    capsys: pytest.CaptureFixture[str], database: Database, text: str
) -> None:
    Path("empty.json").write_text(text)
    with database.ledger() as log:
        before = log.head().position
        assert run(["run", "--task", "phone/early-flight", "--planner", "script:empty.json", "--group", "2"]) == 2
        assert log.head().position == before
    assert capsys.readouterr().err == "trajlog: empty.json: there is no step in it; see docs/environments.md\n"


def test_a_group_is_named_when_it_begins(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(flight("--group", "2", "--json")) == 0
    said = capsys.readouterr()
    [group] = json.loads(said.out)["groups"]
    assert said.err == f"group {group}; if it is interrupted: trajlog run --resume {group}\n"
    assert run(flight("--group", "2", "--quiet")) == 0
    assert capsys.readouterr().err == ""


def test_a_model_server_that_is_away_is_no_verdict_on_the_planner(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("backends.model.WAIT_S", 0.01)
    with serving(FLIGHT.plans.gold) as server:
        url = server.url
    assert run(["run", "--task", "phone/early-flight", "--planner", f"openai:{url}#m"]) == 4
    said = capsys.readouterr()
    assert "error" in said.out
    assert "ConnectError" in said.err


def start(database: Database, home: Path, *arguments: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "cli", "run", "--task", "phone/early-flight", *arguments]
    variables = environment(home, TRAJLOG_DB=database.url)
    return subprocess.Popen(command, env=variables, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def test_an_episode_whose_process_was_killed_is_gone_on_with(
    capsys: pytest.CaptureFixture[str], database: Database, tmp_path: Path
) -> None:
    with serving(FLIGHT.plans.gold) as server:
        real = server.answer

        def late(request: dict[str, Any]) -> Any:
            if len(server.asked) == 3:
                server.released.wait(60)  # the third turn never comes
            return real(request)

        server.answer = late
        with start(database, tmp_path / "home", "--planner", f"openai:{server.url}#m") as process:
            assert server.asked_within(3, 60)
            assert run(["run", "--resume", "@last"]) == 2
            assert "another process is running it" in capsys.readouterr().err
            process.kill()
        deadline = time.monotonic() + 20
        while (code := run(["run", "--resume", "@last", "--json"])) == 2 and time.monotonic() < deadline:
            time.sleep(0.05)  # until the database has noticed that it is gone
        assert code == 0
        said = [line for line in capsys.readouterr().out.splitlines() if line]
        assert json.loads(said[-1])["episodes"][0]["verdict"] == "pass"
        assert len(server.asked) == 4  # no turn was asked for twice but the one that never came
        assert run(["run", "--resume", "@last"]) == 2
        assert "has ended" in capsys.readouterr().err
    assert run(["verify"]) == 0


def test_a_script_that_was_changed_since_is_not_gone_on_with(
    capsys: pytest.CaptureFixture[str], database: Database
) -> None:
    spec = PlannerSpec("script:early-flight.json")
    versions = {"planner": spec.shown, "script": spec.script_digest() or ""}
    with database.ledger() as log, pytest.raises(Killed):
        mortal: Any = Mortal(log, 9, stored=True)
        Episode(mortal, Phone(), spec.make(), job(FLIGHT, versions=versions)).run()
    recorded = Path("early-flight.json").read_bytes()
    Path("early-flight.json").write_text('[{"answer":"No."}]')
    assert run(["run", "--resume", "@last"]) == 2
    assert "its script was changed since" in capsys.readouterr().err
    Path("early-flight.json").write_bytes(recorded)
    assert run(["run", "--resume", "@last"]) == 0
    assert "1 of 1 passed" in capsys.readouterr().out


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_leaves_whole_records_and_the_group_can_be_completed(
    capsys: pytest.CaptureFixture[str], database: Database, tmp_path: Path, number: signal.Signals
) -> None:
    with serving(FLIGHT.plans.gold) as server:
        server.hang.set()
        options = ("--planner", f"openai:{server.url}#m", "--group", "3", "--parallel", "2")
        with start(database, tmp_path / "home", *options) as process:
            assert server.asked_within(2, 60)
            os.kill(process.pid, number)
            _, errors = process.communicate(timeout=60)
        named, interrupted = errors.decode().splitlines()
        assert (process.returncode, interrupted) == (130, "trajlog: interrupted")
        with database.ledger() as log:
            events = list(log.read_all())
        assert [one.end.kind for one in of_type(events, EpisodeEnded)] == ["cancelled"] * 2
        group = of_type(events, EpisodeStarted)[0].group
        assert named.endswith(f": trajlog run --resume {group}")
        server.hang.clear()
        server.released.set()
        assert run(["run", "--resume", group, "--json"]) == 0
        assert sorted(row["rollout"] for row in printed(capsys)["episodes"]) == [0, 1, 2]
        assert run(["run", "--resume", group]) == 0
        assert "nothing is left to be done" in capsys.readouterr().err


def test_what_was_left_open_can_be_ended_instead(
    capsys: pytest.CaptureFixture[str], database: Database, tmp_path: Path
) -> None:
    with serving(FLIGHT.plans.gold) as server:
        server.hang.set()
        with start(database, tmp_path / "home", "--planner", f"openai:{server.url}#m") as process:
            assert server.asked_within(1, 60)
            process.kill()
    deadline = time.monotonic() + 20
    while run(["run", "--resume", "@last", "--end", "--json"]) == 2 and time.monotonic() < deadline:
        time.sleep(0.05)
    said = [line for line in capsys.readouterr().out.splitlines() if line]
    assert json.loads(said[-1])["episodes"][0]["end"] == "cancelled"
