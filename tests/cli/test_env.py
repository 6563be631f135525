"""`trajlog env`: environments are mounted, listed, tried."""

import json
import shutil
import sys
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

from cli.main import run
from tests.backends import recordings
from tests.cli.logs import as_json, printed, refused
from tests.cli.process import trajlog

KETTLE = """
name = "kettle"
kind = "python"
path = ["."]
tools = ["kettle"]
"""


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRAJLOG_HOME", str(tmp_path / "home"))
    (tmp_path / "config.toml").write_text("")
    monkeypatch.setenv("TRAJLOG_CONFIG", str(tmp_path / "config.toml"))


def kettle(folder: Path, code: str = "def boil(litres: float): return litres\n", more: str = "") -> str:
    (folder / "kettle.py").write_text(code)
    (folder / "kettle.toml").write_text(KETTLE + more)
    return str(folder / "kettle.toml")


def test_a_mount_is_added_listed_and_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    told = as_json(capsys, "env", "add", kettle(tmp_path))
    assert (told["name"], told["kind"], told["tools"], told["determinism"]) == ("kettle", "python", ["boil"], "D0")
    assert (told["env"], told["new"]) == (f"kettle@{told['version']}", True)
    assert not as_json(capsys, "env", "add", kettle(tmp_path))["new"]
    rows = {row["name"]: row for row in as_json(capsys, "env", "ls")}
    assert rows["phone"]["kind"] == "built in"
    assert (rows["kettle"]["version"], rows["kettle"]["tools"]) == (told["version"], 1)
    (tool,) = as_json(capsys, "env", "tools", "kettle")
    assert tool["parameters"]["required"] == ["litres"]
    assert "boil  litres" in printed(capsys, "env", "tools", "kettle")


def test_changed_code_is_a_new_version_once_it_is_added(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first = as_json(capsys, "env", "add", kettle(tmp_path))["version"]
    kettle(tmp_path, "def boil(litres: float): return 2 * litres\n")
    told = as_json(capsys, "env", "check", "kettle")
    assert (told["added"], told["changed"]) == (first, True)
    assert told["version"] != first
    assert as_json(capsys, "env", "add", str(tmp_path / "kettle.toml"))["new"]
    assert next(row for row in as_json(capsys, "env", "ls") if row["name"] == "kettle")["versions"] == 2


def test_nothing_mounted_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["env", "ls"]) == 0
    out, err = capsys.readouterr()
    assert "phone" in out
    assert "none is mounted yet: trajlog env add FILE" in err


def test_a_check_names_tools_that_are_not_deterministic(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code = "import uuid\ndef draw(): return uuid.uuid4().hex\ndef look(): return 1\n"
    examples = '[[examples]]\ntool = "look"\n[[examples]]\ntool = "draw"\n'
    assert run(["env", "add", kettle(tmp_path, code, examples), "--quiet"]) == 0
    out = printed(capsys, "env", "check", "kettle", code=1)
    assert "✗ draw is not deterministic: run again it answers otherwise" in out
    told = json.loads(printed(capsys, "env", "check", "kettle", "--json", code=1))
    assert (told["nondeterministic"], told["examples"]) == (["draw"], 2)


def test_a_check_of_a_sound_environment(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    shutil.copytree(recordings.AIRLINE, tmp_path / "airline")
    assert run(["env", "add", str(tmp_path / "airline" / "mount.toml"), "--quiet"]) == 0
    out = printed(capsys, "env", "check", "tau-bench")
    assert "8 tools, D0, state sha256:" in out
    assert "1 example, each made twice" in out
    assert as_json(capsys, "env", "check", "phone")["problems"] == []


def test_tools_that_print_disturb_nothing_and_are_mentioned(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code = "print('{\"value\": 1}')\ndef boil(litres: float): return litres\n"
    assert run(["env", "add", kettle(tmp_path, code), "--quiet"]) == 0
    capsys.readouterr()
    assert run(["env", "check", "kettle"]) == 0
    assert 'its tools print; the last line: {"value": 1}' in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "code", "said"),
    [
        ("name = [", 2, "no TOML"),
        ('kind = "python"', 2, "missing required field `name`"),
        ('name = "x"', 2, 'say kind = "python", "mcp" or "bfcl"'),
        ('name = "x"\nkind = "ruby"', 2, "Invalid value 'ruby'"),
        ('name = "Kettle One"\nkind = "python"\ntools = ["a"]', 2, "Expected `str` matching regex"),
        ('name = "x"\nkind = "python"', 2, "it names no tools; give tools or objects"),
        ('name = "x"\nkind = "python"\ntools = ["a"]\ncolour = 1', 2, "unknown field `colour`"),
        ('name = "x"\nkind = "python"\ntools = ["a"]\n[state]\nlader = "a"', 2, "unknown field `lader`"),
        ('name = "x"\nkind = "python"\ntools = ["a"]\npath = ["gone"]', 2, "path: there is no folder"),
        ('name = "x"\nkind = "python"\ntools = ["a"]\n[[errors]]\nclass = "schema"', 2, "exception or pattern"),
        (
            'name = "x"\nkind = "python"\ntools = ["a"]\n[[errors]]\nclass = "bad"\npattern = "x"',
            2,
            "Invalid enum value",
        ),
        (
            'name = "x"\nkind = "python"\ntools = ["a"]\n[[errors]]\nclass = "schema"\npattern = "("',
            2,
            "regular expression",
        ),
        ('name = "x"\nkind = "mcp"', 2, "a command or a url; give one of them"),
        ('name = "x"\nkind = "mcp"\nurl = "ftp://x"', 2, "is no http:// or https:// address"),
        ('name = "phone"\nkind = "python"\npath = ["."]\ntools = ["kettle"]', 2, "an environment of trajlog's own"),
        ('name = "x"\nkind = "python"\ntools = ["gone"]', 4, "No module named 'gone'"),
        ('name = "x"\nkind = "python"\ntools = ["kettle"]\npath = ["."]\nreads = ["fry"]', 4, "reads names 'fry'"),
        ('name = "x"\nkind = "python"\ntools = ["kettle"]\npath = ["."]\nfiles = ["*.db"]', 4, "nothing matches *.db"),
        ('name = "x"\nkind = "python"\ntools = ["kettle"]\npath = ["."]\nenv = { A = "$NO_A" }', 2, "NO_A is not set"),
        ('name = "x"\nkind = "bfcl"\npython = "/usr/bin/env"', 4, "while its tools were loaded"),
        (
            'name = "x"\nkind = "python"\ntools = ["kettle"]\npath = ["."]\npython = "/no/python"',
            4,
            "mount x: python: /no/python cannot be started: No such file or directory; name one that is there",
        ),
        (
            'name = "x"\nkind = "python"\ntools = ["kettle"]\npath = ["."]\nstate = { loader = "kettle:lod" }',
            4,
            "kettle has no 'lod'",
        ),
        (
            'name = "x"\nkind = "python"\ntools = ["kettle"]\npath = ["."]\nstate = { snapshot = "kettle:se" }',
            4,
            "kettle has no 'se'",
        ),
        (
            'name = "x"\nkind = "python"\ntools = ["kettle"]\npath = ["."]\n'
            'state = { loader = "builtins:dict", parameter = "db" }',
            4,
            "state.parameter names 'db', but no tool takes it",
        ),
        (
            'name = "x"\nkind = "python"\nobjects = ["fractions:Fraction"]\nstate = { load = "begin" }',
            4,
            "state.load names 'begin', but no object has such a method",
        ),
    ],
)
def test_a_bad_mount_file_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, code: int, said: str
) -> None:
    kettle(tmp_path)
    file = tmp_path / "bad.toml"
    file.write_text(text)
    line = refused(capsys, "env", "add", str(file), code=code)
    assert said.lower() in line.lower(), line


def test_an_mcp_server_that_prints_is_told_so_in_one_line(tmp_path: Path) -> None:
    pytest.importorskip("mcp", reason="the extra mcp is not here")
    command = json.dumps([sys.executable, "-c", "print(1)"])
    (tmp_path / "caly.toml").write_text(f'name = "caly"\nkind = "mcp"\ncommand = {command}\n')
    done = trajlog("env", "add", str(tmp_path / "caly.toml"), home=tmp_path / "home")
    line = (
        "trajlog: mount caly: the server ended before it had answered, and wrote '1' to stdout, which is no MCP"
        " message; stdout is for the protocol alone: let it print to stderr\n"
    )
    assert (done.returncode, done.stdout, done.stderr.decode()) == (4, b"", line)


def test_a_folder_that_was_moved_away_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "code").mkdir()
    kettle(tmp_path / "code")
    (tmp_path / "mount.toml").write_text(KETTLE.replace('"."', '"code"'))
    assert run(["env", "add", str(tmp_path / "mount.toml"), "--quiet"]) == 0
    (tmp_path / "code").rename(tmp_path / "elsewhere")
    line = refused(capsys, "env", "check", "kettle", code=4)
    assert f"mount kettle: path: there is no folder {tmp_path / 'code'}; put it back, or add the mount again" in line


def test_a_file_or_environment_that_is_not_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "cannot be read: No such file" in refused(capsys, "env", "add", str(tmp_path / "no.toml"), code=2)
    for command in ("check", "tools"):
        assert "no such environment; there are phone" in refused(capsys, "env", command, "nosuch")


def test_the_schema_is_one_and_fits_the_documented_mounts(capsys: pytest.CaptureFixture[str]) -> None:
    import tomllib

    schema = json.loads(printed(capsys, "env", "schema"))
    Draft202012Validator.check_schema(schema)
    validator = Draft202012Validator(schema)
    validator.validate(tomllib.loads(recordings.MOUNT.read_text()))
    assert not validator.is_valid({"name": "x", "kind": "python", "colour": 1})
