"""The command tree: lazy, cheap, plain, and the options that are accepted everywhere."""

import statistics
import subprocess
import sys
import time
from pathlib import Path

import pytest

from cli import frame, tree
from cli.main import run
from tests.cli.process import environment, trajlog

HUNDRED = """
import sys
from cli import tree
from cli.main import main
for n in range(100 - len(tree.COMMANDS)):
    tree.COMMANDS[f"extra-{n}"] = tree.Entry("cli.absent", "Stands for one of a hundred commands.")
sys.argv = ["trajlog", "--help"]
main()
"""


def seconds(code: str, variables: dict[str, str]) -> float:
    start = time.perf_counter()
    subprocess.run([sys.executable, "-c", code], env=variables, stdout=subprocess.DEVNULL, check=True)
    return time.perf_counter() - start


def test_help_costs_at_most_half_more_than_importing_typer_with_a_hundred_commands(tmp_path: Path) -> None:
    variables = environment(tmp_path)
    ratios = []
    for _ in range(4):
        pairs = [(seconds(HUNDRED, variables), seconds("import typer", variables)) for _ in range(7)]
        ours, bare = (statistics.median(side) for side in zip(*pairs, strict=True))
        ratios.append(ours / bare)
        if ratios[-1] <= 1.5:
            return
    pytest.fail(f"trajlog --help / import typer: {ratios}")


def test_help_imports_no_command_and_nothing_heavy(tmp_path: Path) -> None:
    code = (
        "import sys; from cli.main import run; run(['--help']); run(['db', '--help']); print(*sys.modules, sep='\\n')"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment(tmp_path), capture_output=True, text=True, check=True
    )
    loaded = set(done.stdout.splitlines())
    assert not loaded & {"rich", "msgspec", "psycopg", "sqlalchemy", "alembic", "eventlog", "cli.db", "cli.config"}


@pytest.mark.parametrize("name", tree.COMMANDS)
def test_every_command_has_the_help_of_the_table_and_an_example(name: str) -> None:
    command = frame.load(name)
    assert command is not None
    assert (command.help or "").splitlines()[0] == tree.COMMANDS[name].help
    assert f"trajlog {name}" in (command.epilog or "")


@pytest.mark.parametrize("name", tree.GROUPS)
def test_every_group_lists_its_commands(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run([name, "--help"]) == 0
    shown = capsys.readouterr().out
    assert all(line in shown for line in tree.children(name).values())


def test_help_is_plain_text(tmp_path: Path) -> None:
    done = trajlog("config", "--help", home=tmp_path)
    assert done.stdout.isascii()
    assert b"\x1b" not in done.stdout
    assert b"Examples:\n    trajlog config\n" in done.stdout


def test_an_unknown_command_is_one_line_with_a_suggestion(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["confg"]) == 2
    assert capsys.readouterr().err == ("trajlog: no such command 'confg', did you mean config?; see 'trajlog --help'\n")
    assert run(["db", "stp"]) == 2
    assert "did you mean stop" in capsys.readouterr().err


def test_no_command_shows_the_help_and_is_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert run([]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "Commands:" in captured.err
    assert captured.err.endswith("trajlog: no command given\n")


@pytest.mark.parametrize(
    "arguments", [["--version"], ["--db", "postgresql://a@b/c", "--version"], ["--quiet", "--version"]]
)
def test_version(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    import trajlog as client

    assert run(arguments) == 0
    assert capsys.readouterr().out == f"trajlog {client.__version__}\n"


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_shell_completes_commands_and_options(shell: str, tmp_path: Path) -> None:
    def complete(line: str) -> str:
        variables = {
            "_TRAJLOG_COMPLETE": f"complete_{shell}",
            "COMP_WORDS": line,
            "COMP_CWORD": str(line.count(" ")),
            "_TYPER_COMPLETE_ARGS": line,
            "_TYPER_COMPLETE_FISH_ACTION": "get-args",
        }
        return trajlog(home=tmp_path, **variables).stdout.decode()

    assert "config" in complete("trajlog con")
    assert "upgrade" in complete("trajlog db up")
    assert "--home" in complete("trajlog config --ho")


def test_the_completion_can_be_shown_and_installed(tmp_path: Path) -> None:
    environment_of_bash = {"HOME": str(tmp_path), "_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1"}
    shown = trajlog("--show-completion", "bash", home=tmp_path, **environment_of_bash)
    assert shown.returncode == 0
    assert b"_TRAJLOG_COMPLETE=complete_bash" in shown.stdout
    installed = trajlog("--install-completion", "bash", home=tmp_path, **environment_of_bash)
    assert installed.returncode == 0
    assert any("_TRAJLOG_COMPLETE" in file.read_text() for file in tmp_path.rglob("*.sh"))
