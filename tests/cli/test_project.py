"""`trajlog project` on a real database, with plug-ins as they are installed."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from cli.main import run
from core.vocabulary.episode import NoteAdded
from eventlog.database import connect
from tests.cli.logs import append, as_json, fill, printed, refused
from tests.cli.process import ROOT, environment, on_a_terminal
from tests.databases import Database
from tests.eventlog.projection import plugins
from tests.eventlog.projection.plugins import install
from tests.eventlog.samples import judged

Capture = pytest.CaptureFixture[str]
OURS = [
    *("episode", "step", "verdict", "tool_use", "task", "tool", "policy"),
    *("sft_row", "rollout", "rollout_group"),
]
TALK = plugins.page("How much agents say")
ALARM = plugins.page("Tells somebody")


@pytest.fixture
def url(database: Database, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> str:
    monkeypatch.setenv("TRAJLOG_DB", database.url)
    monkeypatch.setenv("TRAJLOG_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    return database.url


@pytest.fixture
def filled(url: str) -> str:
    fill(url)
    return url


@pytest.fixture
def talk(filled: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The example of the page, installed."""
    install(tmp_path, monkeypatch, "talk", TALK, plugins.entry_points("trajlog.projections"))
    return tmp_path


def test_every_projection_is_listed_with_exactly_the_documented_fields(filled: str, capsys: Capture) -> None:
    rows = as_json(capsys, "project", "ls")
    assert [row["name"] for row in rows] == OURS
    assert rows[0] == {"name": "episode", "version": 1, "position": 0, "lag": 39, "parked": 0, "state": "new"}
    as_json(capsys, "ls")
    states = {row["name"]: (row["position"], row["lag"], row["state"]) for row in as_json(capsys, "project", "ls")}
    assert states["episode"] == (39, 0, "live")
    assert states["step"] == (0, 39, "new")


def test_an_empty_log_has_projections_that_stand_at_its_start(url: str, capsys: Capture) -> None:
    assert {row["position"] for row in as_json(capsys, "project", "ls")} == {0}
    assert {row["state"] for row in as_json(capsys, "project", "run")} == {"live"}
    assert [row["rows"] for row in as_json(capsys, "project", "verify")] == [0] * len(OURS)
    assert as_json(capsys, "project", "parked") == []
    assert run(["project", "parked"]) == 0
    assert capsys.readouterr().err == "nothing is parked\n"
    assert run(["project", "parked", "nope"]) == 1
    assert capsys.readouterr().err == "trajlog: 'nope': no such projection; trajlog project ls lists them\n"


def test_run_brings_those_named_up_to_date_with_what_they_are_made_from(filled: str, capsys: Capture) -> None:
    rows = as_json(capsys, "project", "run", "task")
    assert [(row["name"], row["lag"], row["state"]) for row in rows] == [("episode", 0, "live"), ("task", 0, "live")]
    assert len(as_json(capsys, "project", "run")) == len(OURS)
    assert "live" in printed(capsys, "project", "ls")


@pytest.mark.parametrize("command", ["run", "verify", "rebuild", "shadow", "retry"])
def test_an_unknown_projection_is_one_clear_line(filled: str, capsys: Capture, command: str) -> None:
    line = refused(capsys, "project", command, "nobody")
    assert line == "trajlog: 'nobody': no such projection; trajlog project ls lists them"


def test_rebuild_and_what_is_kept(filled: str, capsys: Capture) -> None:
    assert refused(capsys, "project", "rebuild", code=2).startswith("trajlog: project rebuild: which projections?")
    (row,) = as_json(capsys, "project", "rebuild", "task")
    assert (row["name"], row["state"], row["lag"]) == ("task", "live", 0)
    assert len(as_json(capsys, "project", "rebuild", "--all")) == len(OURS)
    listed = [(row["name"], row["state"]) for row in as_json(capsys, "project", "ls")]
    assert ("episode", "kept") in listed and ("episode", "live") in listed
    assert as_json(capsys, "tasks")[0]["task"] == "alarm"


def test_what_the_page_says_is_a_projection_like_ours(talk: Path, filled: str, capsys: Capture) -> None:
    rows = as_json(capsys, "project", "ls")
    assert [row["name"] for row in rows] == [*OURS, "talk", "talk_by_policy"]
    rows = as_json(capsys, "project", "run", "talk_by_policy")
    assert [(row["name"], row["lag"], row["state"]) for row in rows] == [
        ("talk", 0, "live"),
        ("talk_by_policy", 0, "live"),
    ]
    with connect(filled) as connection:
        assert connection.execute("SELECT * FROM trajlog_view.talk_by_policy").fetchall() == [("planner-1", 4, 12.0)]
        assert connection.execute("SELECT sum(turns) FROM trajlog_view.talk").fetchone() == (8,)
    append(filled, "episode/aa11", NoteAdded("late"))
    as_json(capsys, "project", "run")
    assert all(row["streams"] == 0 for row in as_json(capsys, "project", "verify"))
    as_json(capsys, "project", "rebuild", "talk", "talk_by_policy")
    assert "as its fold gives them" in printed(capsys, "project", "verify", "talk")


def test_the_command_as_a_process_finds_it_too(talk: Path, filled: str) -> None:
    variables = environment(talk / "home", TRAJLOG_DB=filled)
    variables["PYTHONPATH"] += os.pathsep + str(talk)
    code, shown = on_a_terminal([sys.executable, "-m", "cli", "project", "run"], variables)
    assert code == 0
    assert "talk_by_policy" in shown


def test_what_a_plug_in_prints_is_not_in_the_answer(
    filled: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    install(tmp_path, monkeypatch, "loud", "print('hello')\nVIEW = 5", "[trajlog.projections]\nloud = loud:VIEW\n")
    assert run(["project", "ls", "--json"]) == 1
    shown = capsys.readouterr()
    assert [row["name"] for row in json.loads(shown.out)] and "hello" in shown.err


def test_reading_commands_do_not_load_plug_ins(
    filled: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    install(tmp_path, monkeypatch, "bad", "raise SystemError('loaded')", "[trajlog.projections]\nbad = bad\n")
    for command in (["ls"], ["tasks"], ["show", "@last"], ["status"]):
        as_json(capsys, *command)


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("raise ValueError('broken\\nfile')", "cannot be loaded: ValueError: broken"),
        ("raise SystemExit(3)", "cannot be loaded: SystemExit: 3"),
        ("VIEW = 5", "needs a name"),
        ("class VIEW: name = 'episode'", "the name 'episode' is trajlog's own"),
        ("class VIEW: name = 'Big'", "needs a name of at most 32 small letters"),
        ("class VIEW: name = 'small'", "needs a version"),
        ("class VIEW: name, version = 'small', 1", "it has no columns, key, indexes"),
        (
            TALK.replace('Column("policy"), Column("turns"', 'Column("po licy"), Column("turns"') + "VIEW = Talk()",
            "po licy",
        ),
        (TALK.replace('"double precision"', '"jsonb"') + "VIEW = TalkByPolicy()", "letters_a_turn jsonb"),
        (TALK.replace('"episode/"', '"it\'s/"') + "VIEW = Talk()", "its prefix cannot be"),
    ],
)
def test_a_plug_in_that_cannot_be_used_is_said_and_passed_over(
    filled: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture, code: str, said: str
) -> None:
    install(tmp_path, monkeypatch, "bad", code, "[trajlog.projections]\nbad = bad:VIEW\n")
    assert run(["project", "run", "--json"]) == 1
    captured = capsys.readouterr()
    (line,) = captured.err.splitlines()
    assert line.startswith("plug-in bad of bad (bad:VIEW): ") and said in line
    assert '"episode","version":1,"position":39' in captured.out


def test_two_of_one_name_are_said(talk: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    install(talk, monkeypatch, "zwei", TALK, "[trajlog.projections]\nzwei = zwei:PROJECTIONS\n")
    assert run(["project", "ls"]) == 1
    assert "the name 'talk' is taken by another plug-in" in capsys.readouterr().err


def test_a_fold_that_raises_parks_the_stream_and_is_tried_again_once_mended(
    talk: Path, filled: str, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    points = plugins.entry_points("trajlog.projections")
    broken = TALK.replace("state.turns += 1", "state.turns += 1 if state.episode != 'bb33' else 1 / 0")
    install(talk, monkeypatch, "talk", broken, points)
    (row, _) = as_json(capsys, "project", "run", "talk", "talk_by_policy")
    assert (row["parked"], row["lag"]) == (1, 0)
    (parked,) = as_json(capsys, "project", "parked", "talk")
    assert parked == {
        "name": "talk",
        "version": 1,
        "stream": "episode/bb33",
        "position": 23,
        "reason": "ZeroDivisionError in ModelResponded at version 3",
    }
    assert "ZeroDivisionError" in printed(capsys, "project", "parked")
    assert as_json(capsys, "project", "parked", "episode") == []
    assert run(["project", "retry", "talk"]) == 1
    assert capsys.readouterr().out == "talk: 1 tried, 1 parked now\n"
    install(talk, monkeypatch, "talk", TALK, points)
    assert as_json(capsys, "project", "retry", "talk") == {"name": "talk", "tried": 1, "parked": 0}
    as_json(capsys, "project", "run", "talk_by_policy")
    with connect(filled) as connection:
        assert connection.execute("SELECT episodes FROM trajlog_view.talk_by_policy").fetchone() == (4,)


def test_a_fold_that_asks_chance_is_named_with_stream_and_column(
    talk: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    chance = "import random\n" + TALK.replace("state.turns, state.letters\n", "state.turns, random.randrange(10**9)\n")
    install(talk, monkeypatch, "talk", chance, plugins.entry_points("trajlog.projections"))
    as_json(capsys, "project", "run", "talk")
    assert run(["project", "verify", "talk"]) == 1
    shown = capsys.readouterr().out
    assert "the fold is not deterministic: letters" in shown
    assert "episode/aa11" in shown
    assert run(["project", "verify", "talk", "--json"]) == 1
    assert '"unstable":4' in capsys.readouterr().out


def test_another_shape_under_the_same_version_is_refused_and_a_new_version_is_not(
    talk: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    points = plugins.entry_points("trajlog.projections")
    as_json(capsys, "project", "run", "talk")
    wider = TALK.replace('Column("letters", "bigint"))', 'Column("letters", "bigint"), Column("x"))').replace(
        "state.turns, state.letters\n", "2 * state.turns, state.letters, 'x'\n"
    )
    install(talk, monkeypatch, "talk", wider, points)
    assert run(["project", "run", "--json"]) == 1
    captured = capsys.readouterr()
    (line,) = captured.err.splitlines()
    assert line == (
        "projection talk v1: its table has other columns, or another key, than this fold; "
        "a fold that changes its table takes a new version"
    )
    assert '"policy","version":1,"position":39' in captured.out

    newer = wider.replace('"talk", 1, "episode/"', '"talk", 2, "episode/"')
    install(talk, monkeypatch, "talk", newer, points)
    found = as_json(capsys, "project", "shadow", "talk")
    assert (found["table"], found["fold"], found["changed"], found["columns"]) == (1, 2, 4, {"turns": 4})
    assert found["new_columns"] == ["x"]
    assert "talk v1 → v2 at 39: of 4 rows" in printed(capsys, "project", "shadow", "talk")
    as_json(capsys, "project", "run", "talk")
    states = [(r["version"], r["state"]) for r in as_json(capsys, "project", "ls") if r["name"] == "talk"]
    assert states == [(2, "live"), (1, "kept")]


def test_what_has_no_code_any_more_is_left(talk: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    as_json(capsys, "project", "run")
    install(talk, monkeypatch, "talk", "", "")
    rows = {row["name"]: row["state"] for row in as_json(capsys, "project", "ls")}
    assert (rows["talk"], rows["talk_by_policy"], rows["episode"]) == ("left", "left", "live")


def test_a_log_that_failed_over_is_refused_and_mended_by_a_rebuild(
    filled: str, database: Database, capsys: Capture
) -> None:
    as_json(capsys, "project", "run")
    with database.tampering() as owner:
        owner.execute("UPDATE trajlog.segment SET seal = sha256('other') WHERE last_position = 39")
    line = refused(capsys, "ls")
    assert "restored or failed over; rebuild it: trajlog project rebuild episode" in line
    assert run(["project", "run"]) == 1
    assert "trajlog project rebuild step" in capsys.readouterr().err
    assert {row["state"] for row in as_json(capsys, "project", "ls")} == {"refused"}
    assert "trajlog project rebuild task" in _err(capsys, "project", "ls")
    as_json(capsys, "project", "rebuild", "--all")
    assert len(as_json(capsys, "ls")) == 4
    assert {row["lag"] for row in as_json(capsys, "project", "run")} == {0}


def _err(capsys: Capture, *arguments: str) -> str:
    run(arguments)
    return capsys.readouterr().err


# -- reactors ------------------------------------------------------------------------------------------


@pytest.fixture
def alarm(filled: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    install(tmp_path, monkeypatch, "alarm", ALARM, plugins.entry_points("trajlog.reactors"))
    return tmp_path / "failed.txt"


def test_a_reactor_begins_at_the_head_and_reacts_to_each_event(alarm: Path, filled: str, capsys: Capture) -> None:
    row = as_json(capsys, "project", "ls")[-1]
    assert row == {"name": "alarm", "version": 1, "position": 0, "lag": 39, "parked": 0, "state": "new"}
    (row,) = as_json(capsys, "project", "run", "alarm")
    assert (row["position"], row["lag"], row["state"]) == (39, 0, "reactor")
    assert not alarm.exists()
    append(filled, "episode/cc44", judged("fail"), judged("pass"))
    append(filled, "episode/aa11", judged("fail"))
    as_json(capsys, "project", "run")
    as_json(capsys, "project", "run")
    assert alarm.read_text().splitlines() == ["episode/cc44@10", "episode/aa11@8"]


def test_a_reactor_is_never_rebuilt_and_reading_does_not_run_it(alarm: Path, filled: str, capsys: Capture) -> None:
    as_json(capsys, "project", "run", "alarm")
    append(filled, "episode/cc44", judged("fail"))
    as_json(capsys, "ls")
    as_json(capsys, "project", "rebuild", "--all")
    line = refused(capsys, "project", "rebuild", "alarm", code=2)
    assert line == "trajlog: alarm: a reactor has effects: it is never rebuilt"
    assert not alarm.exists()
    assert refused(capsys, "project", "retry", "episode", "--from", "3", code=2).startswith("trajlog: episode: only a")


def test_a_reactor_goes_on_from_where_it_is_told(alarm: Path, filled: str, capsys: Capture) -> None:
    as_json(capsys, "project", "run", "alarm")
    assert as_json(capsys, "project", "retry", "alarm", "--from", "20") == {"name": "alarm", "tried": 0, "parked": 0}
    assert alarm.read_text().splitlines() == ["episode/aa22@13", "episode/bb33@10"]


def test_an_event_that_a_reactor_cannot_take_parks_its_stream(
    alarm: Path, filled: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    points = plugins.entry_points("trajlog.reactors")
    raising = ALARM.replace(
        "        said =", "        if event.stream.endswith('aa11'):\n            1 / 0\n        said ="
    )
    as_json(capsys, "project", "run", "alarm")
    append(filled, "episode/aa11", judged("fail"), judged("fail"))
    append(filled, "episode/bb33", judged("fail"))
    install(tmp_path, monkeypatch, "alarm", raising, points)
    (row,) = as_json(capsys, "project", "run", "alarm")
    assert (row["parked"], row["lag"]) == (1, 0)
    assert alarm.read_text().splitlines() == ["episode/bb33@11"]
    assert run(["project", "retry", "alarm"]) == 1
    install(tmp_path, monkeypatch, "alarm", ALARM, points)
    (row,) = as_json(capsys, "project", "run", "alarm")
    assert row["parked"] == 0
    assert alarm.read_text().splitlines() == ["episode/bb33@11", "episode/aa11@8", "episode/aa11@9"]


def test_a_reactor_after_a_failover_is_told_where_to_go_on(
    alarm: Path, filled: str, database: Database, capsys: Capture
) -> None:
    as_json(capsys, "project", "run", "alarm")
    with database.tampering() as owner:
        owner.execute("UPDATE trajlog.segment SET seal = sha256('other') WHERE last_position = 39")
    assert run(["project", "run", "alarm"]) == 1
    assert "trajlog project retry alarm --from POSITION" in capsys.readouterr().err
    assert as_json(capsys, "project", "retry", "alarm", "--from", "40") == {"name": "alarm", "tried": 0, "parked": 0}


def test_a_reactor_killed_while_it_reacts_reacts_again_and_misses_nothing(
    alarm: Path, filled: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    dying = ALARM.replace(
        "                file.write", "                if event.version == 9:\n                    import os, signal\n"
        "                    file.write('half\\n'); file.flush(); os.kill(os.getpid(), signal.SIGKILL)\n"
        "                file.write",
    )  # fmt: skip
    as_json(capsys, "project", "run", "alarm")
    append(filled, "episode/aa11", judged("fail"), judged("fail"), judged("fail"))
    install(tmp_path, monkeypatch, "alarm", dying, plugins.entry_points("trajlog.reactors"))
    variables = environment(tmp_path / "home", TRAJLOG_DB=filled)
    variables["PYTHONPATH"] += os.pathsep + str(tmp_path)
    command = [sys.executable, "-m", "cli", "project", "run", "alarm"]
    done = subprocess.run(command, env=variables, cwd=tmp_path, check=False, capture_output=True)
    assert done.returncode == -signal.SIGKILL
    install(tmp_path, monkeypatch, "alarm", ALARM, plugins.entry_points("trajlog.reactors"))
    as_json(capsys, "project", "run", "alarm")
    assert alarm.read_text().splitlines() == ["episode/aa11@8", "half", "episode/aa11@9", "episode/aa11@10"]


def test_following_folds_what_comes_until_it_is_interrupted(talk: Path, filled: str, capsys: Capture) -> None:
    variables = environment(talk / "home", TRAJLOG_DB=filled)
    variables["PYTHONPATH"] += os.pathsep + str(talk)
    command = [sys.executable, "-m", "cli", "project", "run", "--follow", "--json"]
    with subprocess.Popen(command, env=variables, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == '{"position":39}\n'
        append(filled, "episode/aa11", judged("fail"))
        assert process.stdout.readline() == '{"position":40}\n'
        append(filled, "episode/aa11", judged("fail"), judged("pass"))
        began = time.monotonic()
        assert process.stdout.readline() == '{"position":42}\n'
        assert time.monotonic() - began < 10
        with connect(filled) as connection:
            mine = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() "
            connection.execute(f"{mine} AND pid <> pg_backend_pid()")
        append(filled, "episode/bb33", judged("fail"))
        assert process.stdout.readline() == '{"position":43}\n'
        process.send_signal(signal.SIGINT)
    assert process.returncode == 130
    assert {row["lag"] for row in as_json(capsys, "project", "ls")} == {0}
    found: Any = as_json(capsys, "ls", "--verdict", "pass")
    assert [row["episode"] for row in found] == ["aa11"]
