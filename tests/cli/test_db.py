"""`trajlog init`, `db` and `doctor` on a real server."""

import json
from pathlib import Path
from typing import Any

import pytest

from cli import checks
from cli.main import run
from eventlog.schema import SCHEMA
from tests.cli.process import trajlog
from tests.databases import Database


@pytest.fixture
def here(home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("TRAJLOG_DB", "TRAJLOG_LOG", "TRAJLOG_CONFIG"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TRAJLOG_HOME", str(home))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(home / "config"))
    return home


def said(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> Any:
    found = run([*arguments, "--json"])
    captured = capsys.readouterr()
    assert found == code, captured.err
    return json.loads(captured.out)


def findings(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> dict[str, Any]:
    found = said(capsys, "doctor", *arguments, code=code)
    assert found["ok"] is (code == 0)
    return {check["name"]: check for check in found["checks"]}


def test_the_embedded_database_from_nothing_to_stopped(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert findings(capsys)["database"]["mend"] == "trajlog init makes one"

    made = said(capsys, "init")
    assert (made["schema"], made["previous"], made["db"]) == (SCHEMA, None, str(here))
    again = said(capsys, "init")
    assert (again["log"], again["previous"]) == (made["log"], SCHEMA)
    assert said(capsys, "db", "upgrade") == {"schema": SCHEMA, "previous": SCHEMA}

    assert {check["status"] for check in findings(capsys).values()} == {"ok"}

    sizes = said(capsys, "db", "size")
    assert sizes["disk"] > sizes["bytes"] > 0
    assert "trajlog.event" in {table["table"] for table in sizes["tables"]}

    url = said(capsys, "db", "url")["url"]
    asked = ("db", "psql", "--", "-Atc", "SELECT current_user")
    assert trajlog(*asked, home=here).stdout == b"trajlog_app\n"
    assert trajlog("--db", url, *asked, home=here / "elsewhere").stdout == b"trajlog_app\n"
    owner = said(capsys, "db", "url", "--owner")["url"]
    roles = findings(capsys, "--db", owner)["roles"]
    assert roles["status"] == "warn"
    assert "owns the tables it writes to" in roles["detail"]

    assert run(["db", "stop"]) == 0
    assert "has stopped" in capsys.readouterr().err
    assert run(["db", "stop"]) == 0
    assert "was not running" in capsys.readouterr().err
    assert run(["db", "start", "--quiet"]) == 0
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize("verb", ["start", "stop"])
def test_a_database_of_the_users_own_is_not_ours_to_run(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["db", verb, "--db", "postgresql://u:SECRET@nowhere.invalid/x"]) == 2
    error = capsys.readouterr().err
    assert f"cannot {verb}" in error
    assert "SECRET" not in error


def test_doctor_names_a_database_that_is_away(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    url = "postgresql://u:SECRET@127.0.0.1:1/x"
    found = findings(capsys, "--db", url, code=1)["database"]
    assert found["status"] == "fail"
    assert found["mend"]
    assert "SECRET" not in found["detail"]
    assert run(["db", "size", "--db", url]) == 4
    assert capsys.readouterr().err.count("\n") == 1


def test_doctor_names_a_bad_config_file(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TRAJLOG_CONFIG", str(here / "absent.toml"))
    assert findings(capsys, code=1)["config"]["status"] == "fail"


def test_doctor_names_a_home_that_is_a_file(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    here.write_text("")
    found = findings(capsys, code=1)["home"]
    assert "is a file" in found["detail"]
    assert found["mend"]


def test_doctor_names_a_full_disk(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(checks, "NO_SPACE", 10**18)
    assert findings(capsys, code=1)["disk"]["status"] == "fail"
    monkeypatch.setattr(checks, "NO_SPACE", 0)
    monkeypatch.setattr(checks, "LITTLE_SPACE", 10**18)
    assert findings(capsys)["disk"]["status"] == "warn"


def test_doctor_names_a_module_of_somebody_else(
    here: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "backends.py").touch()
    monkeypatch.syspath_prepend(str(tmp_path))
    found = findings(capsys, code=1)["imports"]
    assert str(tmp_path / "backends.py") in found["detail"]


def test_doctor_says_what_it_found_in_words(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["doctor"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("ok    python     3.")
    assert any(line.strip() == "trajlog init makes one" for line in lines)


def test_a_restored_copy_is_told_so(database: Database, capsys: pytest.CaptureFixture[str]) -> None:
    kept = said(capsys, "db", "restored", "--replace", "--db", database.owner)
    assert list(kept) == ["log", "instance", "previous"]
    assert kept["instance"] == kept["previous"]
    renewed = said(capsys, "db", "restored", "--db", database.owner)
    assert (renewed["log"], renewed["previous"]) == (kept["log"], kept["instance"])
    assert renewed["instance"] != renewed["previous"]
    assert run(["db", "restored", "--db", database.owner]) == 0
    assert capsys.readouterr().out.endswith(f", a copy of {renewed['instance']}\n")
    assert run(["db", "restored", "--db", database.url]) == 4
    assert "this login does not own the tables" in capsys.readouterr().err
