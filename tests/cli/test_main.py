"""Every ending is an exit code and at most one line."""

import errno
import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import typer

from cli import config as config_module
from cli.main import run
from core.errors import Incomplete, NotFound, Unavailable
from tests.cli.process import environment, trajlog


def failing(monkeypatch: pytest.MonkeyPatch, error: BaseException) -> None:
    def explain() -> None:
        raise error

    monkeypatch.setattr(config_module, "explain", explain)


@pytest.mark.parametrize(
    ("error", "code", "line"),
    [
        (NotFound("no such episode", where="0123", mend="trajlog ls"), 1, "0123: no such episode; trajlog ls"),
        (Incomplete("events are missing"), 3, "events are missing"),
        (Unavailable("the database is away"), 4, "the database is away"),
        (KeyboardInterrupt(), 130, "interrupted"),
        (typer.Exit(3), 3, None),
        (PermissionError(errno.EACCES, "Permission denied", "/x"), 1, "/x: Permission denied"),
        (OSError(errno.ENOSPC, "No space left on device", "/x"), 4, "/x: No space left on device"),
        (
            KeyError("x"),
            1,
            "this is a bug in trajlog (KeyError: 'x'); run it again with --debug and report what it prints",
        ),
    ],
)
def test_an_ending_is_a_code_and_a_line(
    error: BaseException,
    code: int,
    line: str | None,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    failing(monkeypatch, error)
    assert run(["config"]) == code
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err == (f"trajlog: {line}\n" if line else "")


def test_debug_shows_the_traceback_and_the_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    failing(monkeypatch, NotFound("gone"))
    assert run(["config", "--debug"]) == 1
    error = capsys.readouterr().err
    assert error.startswith("Traceback")
    assert error.endswith("\ntrajlog: gone\n")


def test_an_error_cannot_steer_the_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    failing(monkeypatch, NotFound("\x1b[2Jgone\nforged: line\u202e\x9b1m"))
    assert run(["config"]) == 1
    assert capsys.readouterr().err == "trajlog: \\x1b[2Jgone\\nforged: line\\u202e\\x9b1m\n"


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["config", "--xyzzy"], "no such option: --xyzzy; see 'trajlog config --help'"),
        (["config", "extra\x1b[1m"], None),
        (["config", "--db"], "option '--db' requires an argument; see 'trajlog config --help'"),
        (["--xyzzy"], "no such option: --xyzzy; see 'trajlog --help'"),
    ],
)
def test_a_wrong_command_line_is_one_line_and_2(
    arguments: list[str], line: str | None, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(arguments) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert "\x1b" not in error
    assert line is None or error.lower() == f"trajlog: {line}\n".lower()


def test_a_pipe_closed_early_ends_it_like_any_other_tool(tmp_path: Path) -> None:
    code = "from cli.output import print_text\nfor n in range(1_000_000): print_text('line')"
    program = f"import cli.config, sys\ndef explain():\n  exec({code!r})\ncli.config.explain = explain\n"
    program += "from cli.main import main; sys.argv = ['trajlog', 'config']; main()"
    with subprocess.Popen(
        [sys.executable, "-c", program],
        env=environment(tmp_path),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None and process.stderr is not None
        assert process.stdout.readline() == b"line\n"
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == -signal.SIGPIPE


def test_a_closed_stdout_is_one_line(tmp_path: Path) -> None:
    program = [sys.executable, "-c", "from cli.main import main; main()", "--version"]
    shell = ["sh", "-c", '"$@" >&-', "sh", *program]
    ended = subprocess.run(shell, env=environment(tmp_path), capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stdout) == (1, "")
    assert ended.stderr == "trajlog: stdout is closed; give what is printed somewhere to go\n"


def test_ctrl_c_is_130_and_one_line(tmp_path: Path) -> None:
    program = "import cli.config, sys, time\ndef explain():\n  print('ready', flush=True); time.sleep(60)\n"
    program += "cli.config.explain = explain\nfrom cli.main import main; sys.argv = ['trajlog', 'config']; main()"
    with subprocess.Popen(
        [sys.executable, "-c", program],
        env=environment(tmp_path),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None and process.stderr is not None
        process.stdout.readline()
        process.send_signal(signal.SIGINT)
        assert process.stderr.read() == b"trajlog: interrupted\n"
    assert process.returncode == 130


@pytest.mark.parametrize(
    "variables",
    [{"LANG": "C"}, {"LC_ALL": "POSIX", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"}, {"PYTHONIOENCODING": "ascii"}],
)
def test_texts_that_the_encoding_lacks_are_spelt_out(variables: dict[str, str], tmp_path: Path) -> None:
    done = trajlog("--home", "/tmp/naïve 轨迹", "config", home=tmp_path, **variables)
    assert done.returncode == 0, done.stderr
    assert b"/tmp/na" in done.stdout
    as_json = trajlog("--home", "/tmp/轨迹", "config", "--json", home=tmp_path, **variables)
    homes = [s["value"] for s in json.loads(as_json.stdout)["settings"] if s["name"] == "home"]
    assert homes == ["/tmp/轨迹"]


def test_a_foreign_module_of_our_name_is_named(tmp_path: Path) -> None:
    (tmp_path / "core").mkdir()
    (tmp_path / "core" / "__init__.py").touch()
    variables = environment(tmp_path)
    variables["PYTHONPATH"] = f"{tmp_path}:{variables['PYTHONPATH']}"
    done = subprocess.run(
        [sys.executable, "-c", "from cli.main import main; main()"],
        env=variables,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert done.stderr.startswith(f"trajlog: core comes from {tmp_path}/core/__init__.py, not from ")
    assert done.stderr.count("\n") == 1
