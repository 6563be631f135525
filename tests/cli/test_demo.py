"""`trajlog demo`, with the server that it starts for itself."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from eventlog.embedded import Embedded
from tests.cli.process import environment, trajlog


@pytest.fixture
def user(home: Path) -> Iterator[Path]:
    """A user's home, with a folder for temporary files beside it."""
    folder = home.parent / "temporary"
    folder.mkdir()
    folder.chmod(0o1777)
    yield home
    assert list(folder.iterdir()) == []


def variables(user: Path) -> dict[str, str]:
    return {"TMPDIR": str(user.parent / "temporary"), "TRAJLOG_DB": "postgresql://nobody@nowhere.invalid/none"}


def test_the_demo_shows_the_main_job_and_leaves_the_users_log_alone(user: Path) -> None:
    done = trajlog("demo", home=user, **variables(user))
    assert done.returncode == 0, done.stderr.decode()
    shown = done.stdout.decode()
    for words in (
        "$ trajlog task add --env phone",
        "1 of 1 passed",
        "0 of 1 passed",
        "$ trajlog ls --verdict fail",
        "phone/quiet-meeting",
        "$ trajlog show @last-failed",
        "fault clock-app-busy injected",
        "$ trajlog diff @last-failed",
        "first divergence: answered otherwise",
        "$ trajlog exec @last-failed",
        "2 of 2 steps the same in phone@",
        "there is no tool 'set_ala",
        "3 the same, 1 diverged",
        "$ trajlog verify",
        "whole",
        "trajlog import FILE",
    ):
        assert words in shown
    assert shown.rindex("$ trajlog ls") == shown.rindex("$ trajlog")  # ends with what there is
    assert not user.exists()


def test_what_is_kept_can_be_used(user: Path) -> None:
    kept = user.parent / "kept here"
    done = trajlog("demo", "--keep", str(kept), home=user, **variables(user))
    assert f"trajlog ls --home '{kept}'" in done.stdout.decode()
    assert not Embedded(kept).running()
    listed = trajlog("ls", "--json", "--home", str(kept), home=user)
    assert [row["verdict"] for row in json.loads(listed.stdout)] == ["fail", "pass"] * 2
    again = trajlog("demo", "--keep", str(kept), home=user, **variables(user))
    assert (again.returncode, again.stdout) == (2, b"")
    assert b"is there already" in again.stderr


@pytest.mark.parametrize("option", [["--home", "x"], ["--db", "postgresql://x/y"]])
def test_it_takes_no_other_log(user: Path, option: list[str]) -> None:
    done = trajlog("demo", *option, home=user)
    assert done.returncode == 2
    assert b"has a log of its own" in done.stderr


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_its_server_is_stopped_when_it_is_interrupted(user: Path, number: signal.Signals) -> None:
    command = [sys.executable, "-m", "cli", "demo"]
    with subprocess.Popen(command, env=environment(user, **variables(user)), stdout=subprocess.PIPE) as process:
        temporary = user.parent / "temporary"
        deadline = time.monotonic() + 60
        while not list(temporary.glob("*/home/postgres/server.lock")) and time.monotonic() < deadline:
            time.sleep(0.01)
        os.kill(process.pid, number)
        process.communicate(timeout=60)
    assert process.returncode == 130


def test_a_reader_that_stops_early_stops_its_server_too(user: Path) -> None:
    command = f"{sys.executable} -m cli demo | head -n 1"
    done = subprocess.run(
        ["bash", "-c", command], env=environment(user, **variables(user)), capture_output=True, timeout=60, check=False
    )
    assert done.stdout.startswith(b"$ trajlog task add")
