"""`trajlog import` and `trajlog retract` on a real database."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from io import BytesIO, TextIOWrapper
from pathlib import Path

import pytest

from cli.main import run
from eventlog.ledger import Ledger
from tests.cli.logs import as_json, printed, refused
from tests.cli.process import environment
from tests.databases import Database
from tests.eventlog.interchange.results import result, text

REAL = Path(__file__).parents[3] / "shared/data/tau-bench"


@pytest.fixture(autouse=True)
def place(database: Database, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A folder to work in, whose log is the database."""
    monkeypatch.setenv("TRAJLOG_DB", database.url)
    monkeypatch.setenv("TRAJLOG_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_an_import_is_listed_as_soon_as_it_is_done(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("a.json").write_bytes(text(result(0), result(1, reward=0.0)))
    report = as_json(capsys, "import", "a.json", "--split", "dev")
    assert list(report) == ["import", "format", "sources", "episodes", "events", "unmapped", "rejected"]
    assert report["episodes"] == {"new": 2, "present": 0, "rejected": 0}
    lags = {point["name"]: point["lag"] for point in as_json(capsys, "status")["projections"]}
    assert lags["episode"] == 0
    rows = as_json(capsys, "ls")
    assert [(row["verdict"], row["source"], row["split"]) for row in rows] == [
        ("fail", "tau-bench", "dev"),
        ("pass", "tau-bench", "dev"),
    ]
    assert as_json(capsys, "verify")["ok"]


def test_the_same_file_twice_adds_nothing(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("a.json").write_bytes(text(result(0), result(1)))
    first = as_json(capsys, "import", "a.json")
    position = as_json(capsys, "status")["position"]
    again = as_json(capsys, "import", "a.json")
    assert again["episodes"] == {"new": 0, "present": 2, "rejected": 0}
    assert again["import"] == first["import"]
    assert as_json(capsys, "status")["position"] == position


def test_a_rejected_record_leaves_the_others_imported(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("a.json").write_bytes(b"[" + text(result(0))[1:-1] + b', {"a": NaN}, ' + text(result(1))[1:-1] + b"]")
    shown = printed(capsys, "import", "a.json", code=1)
    assert "2 episodes imported from tau-bench" in shown
    assert "1 rejected" in shown
    assert "a.json[1]: holds NaN" in shown
    assert len(as_json(capsys, "ls")) == 2


def test_stdin_folders_and_globs(
    place: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", TextIOWrapper(BytesIO(text(result(0)))))
    assert as_json(capsys, "import", "-")["sources"] == ["stdin"]
    Path("runs/more").mkdir(parents=True)
    Path("runs/a.json").write_bytes(text(result(1)))
    Path("runs/more/b.jsonl").write_text(json.dumps(result(2)))
    assert as_json(capsys, "import", "runs")["sources"] == ["runs/a.json", "runs/more/b.jsonl"]
    assert as_json(capsys, "import", "runs/**/*.json*")["episodes"]["present"] == 2


@pytest.mark.parametrize(
    ("name", "data", "words", "code"),
    [
        ("a.json", b"", "a.json: is empty", 1),
        ("a.json", b"\0\1\2", "binary data", 1),
        ("a.json", text(result())[:-60], "cut short", 1),
        ("a.json", b'[{"a": 1}]', "in no known format", 1),
        ("a.json", text(result()).decode().encode("utf-16"), "UTF-16", 1),
        ("a.json", b"<html></html>", "HTML", 1),
        ("none.json", None, "no such file or folder", 1),
        ("", None, "an empty name names no file or folder", 1),
        (".", None, "holds no file that ends in", 1),
    ],
)
def test_bad_input_is_one_line_and_leaves_nothing(
    place: Path, capsys: pytest.CaptureFixture[str], name: str, data: bytes | None, words: str, code: int
) -> None:
    if data is not None:
        Path(name).write_bytes(data)
    assert words in refused(capsys, "import", name, code=code)
    assert as_json(capsys, "status")["position"] == 0


def test_usage_is_said(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("a.json").write_bytes(text(result()))
    assert "no format 'x'; known ones are" in refused(capsys, "import", "a.json", "--format", "x", code=2)
    assert "invalid value for '--split'" in refused(capsys, "import", "a.json", "--split", "x", code=2)


def test_an_import_is_taken_back_and_can_come_again(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("a.json").write_bytes(text(result(0), result(1)))
    first = as_json(capsys, "import", "a.json")["import"]
    done = as_json(capsys, "retract", first[:20], "--why", "wrong file")
    assert done == {"import": first, "episodes": 2, "why": "wrong file"}
    assert as_json(capsys, "ls") == []
    assert "was retracted already" in printed(capsys, "retract", first)
    assert as_json(capsys, "import", "a.json")["episodes"]["new"] == 2
    assert len(as_json(capsys, "ls")) == 2
    assert len(as_json(capsys, "ls", "--retracted")) == 4
    assert as_json(capsys, "verify")["ok"]


def test_an_unknown_or_ambiguous_import_is_said(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "no such import" in refused(capsys, "retract", "0192")
    assert "no such import" in refused(capsys, "retract", "")
    for trial in range(2):
        Path("a.json").write_bytes(text(result(trial)))
        as_json(capsys, "import", "a.json")
    assert "write more of the id" in refused(capsys, "retract", "0")


def _when(condition: Callable[[], bool], process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + 60
    while not condition() and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.005)


def test_ctrl_c_in_the_middle_leaves_whole_episodes_and_running_it_again_completes(
    place: Path, database: Database, capsys: pytest.CaptureFixture[str]
) -> None:
    trials = 4_000
    Path("a.jsonl").write_text("".join(json.dumps(result(trial)) + "\n" for trial in range(trials)))
    variables = environment(place / "home", TRAJLOG_DB=database.url)
    command = [sys.executable, "-m", "cli", "import", "a.jsonl"]
    with subprocess.Popen(command, env=variables, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL) as process:
        with Ledger(database.url) as log:
            _when(lambda: log.head().position > 0, process)
        os.kill(process.pid, signal.SIGINT)
        assert process.stderr
        assert process.stderr.read() == b"trajlog: interrupted\n"
    assert process.returncode == 130
    rows = as_json(capsys, "ls", "--limit", "0")
    assert 0 < len(rows) < trials
    assert {row["events"] for row in rows} == {10}
    again = as_json(capsys, "import", "a.jsonl")
    assert again["episodes"] == {"new": trials - len(rows), "present": len(rows), "rejected": 0}
    assert as_json(capsys, "verify")["ok"]


@pytest.mark.skipif(not REAL.exists(), reason="the real tau-bench file is not here")
def test_a_hundred_real_episodes(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    report = as_json(capsys, "import", str(REAL))
    assert report["episodes"] == {"new": 100, "present": 0, "rejected": 0}
    assert len(as_json(capsys, "ls", "--verdict", "pass", "--limit", "0")) == 49
    assert len(as_json(capsys, "ls", "--verdict", "fail", "--limit", "0")) == 51
    assert run(["verify"]) == 0
