"""The example of an environment of one's own, as docs/environments.md shows it, runs as it is printed."""

import re
import shlex
from pathlib import Path

import pytest

from cli.main import run
from tests.databases import Database

PAGE = (Path(__file__).parents[2] / "docs" / "environments.md").read_text(encoding="utf-8")
SECTION = PAGE.partition("## Mount an environment of your own\n")[2].partition("Tools are **functions**")[0]
FILE = re.compile(r"^`([\w./-]+)`[^\n]*:\n\n```\w+\n(.*?)^```", re.DOTALL | re.MULTILINE)
VERSION = re.compile(r"@[0-9a-f]{12}")


def test_the_shop_runs_line_by_line_as_it_is_printed(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TRAJLOG_DB", database.url)
    monkeypatch.setenv("TRAJLOG_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    for name, text in FILE.findall(SECTION):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    (console,) = re.findall(r"```console\n(.*?)```", SECTION, re.DOTALL)
    commands = [part.partition("\n") for part in console.split("$ trajlog ")[1:]]
    assert len(commands) == 5
    for line, _, shown in commands:
        code = run(shlex.split(line))
        out, err = capsys.readouterr()
        assert (code, err) == (0, ""), line
        assert VERSION.sub("", out).startswith(VERSION.sub("", shown)), line
    assert out.endswith("1 of 1 passed\n")
