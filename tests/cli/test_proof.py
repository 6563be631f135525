"""`trajlog proof`: made from a real database, checked without one."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from cli.main import run
from tests.cli.logs import append, as_json, fill, printed, refused
from tests.databases import Database
from tests.eventlog.samples import judged

ROOT = Path(__file__).parents[2]

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def url(database: Database, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> str:
    fill(database.url)
    monkeypatch.setenv("TRAJLOG_DB", database.url)
    monkeypatch.setenv("TRAJLOG_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("TRAJLOG_KEYS", raising=False)
    return database.url


@pytest.fixture
def elsewhere(monkeypatch: pytest.MonkeyPatch) -> Any:
    """No database and no key folder any more."""

    def move() -> None:
        monkeypatch.setenv("TRAJLOG_DB", "postgresql://nobody@127.0.0.1:1/none")
        monkeypatch.setenv("TRAJLOG_HOME", "/nonexistent")

    return move


def test_an_episode_is_proven_without_a_database(url: str, capsys: Capture, tmp_path: Path, elsewhere: Any) -> None:
    pack = str(tmp_path / "p.pack")
    assert run(["proof", "make", "bb33", "-o", pack]) == 0
    said = capsys.readouterr()
    assert said.out == "" and said.err.startswith(f"{pack}: ") and "events under the root at position" in said.err
    events = len(Path(pack).read_text().splitlines()) - 1
    key = printed(capsys, "key", "show").strip()
    elsewhere()
    assert as_json(capsys, "proof", "check", pack) == {"ok": True, "events": events, "tag": None, "anchored": False}
    assert as_json(capsys, "proof", "check", pack, "--key", key)["anchored"] is True
    lines = printed(capsys, "proof", "check", pack).splitlines()
    assert lines[0] == f"whole: events 1 to {events}, none between them left out, of episode/bb33"
    assert lines[-1].startswith("anchored: false; a pack that vouches for itself proves nothing")
    assert printed(capsys, "proof", "check", pack, "--key", key).splitlines()[-1] == "anchored: true"


def test_one_event_under_a_tag_and_its_receipt(url: str, capsys: Capture, tmp_path: Path, elsewhere: Any) -> None:
    printed(capsys, "tag", "create", "gold")
    append(url, "episode/bb33", judged("pass"))
    pack, receipt = tmp_path / "p.pack", tmp_path / "gold.receipt"
    pack.write_text(printed(capsys, "proof", "make", "bb33@7", "--tag", "gold"))
    receipt.write_text(printed(capsys, "tag", "receipt", "gold"))
    elsewhere()
    found = as_json(capsys, "proof", "check", str(pack), "--receipt", str(receipt))
    assert found == {"ok": True, "events": 1, "tag": "gold", "anchored": True}
    assert "event 7 of episode/bb33" in printed(capsys, "proof", "check", str(pack))
    line = json.loads(pack.read_text().splitlines()[1])
    assert line["version"] == 7 and line["event"]["stream"] == "episode/bb33"


@pytest.mark.parametrize("name", ["@last", "episode/cc44", "cc4"])
def test_an_episode_is_named_as_everywhere(url: str, capsys: Capture, name: str) -> None:
    lines = printed(capsys, "proof", "make", name).splitlines()
    assert json.loads(lines[1])["event"]["stream"] == "episode/cc44"


def test_any_stream_is_proven(url: str, capsys: Capture) -> None:
    append(url, "policy/p1", judged("pass"))
    _, line = printed(capsys, "proof", "make", "policy/p1@1").splitlines()
    assert json.loads(line)["event"]["stream"] == "policy/p1"


def test_one_byte_changed_is_found(url: str, capsys: Capture, tmp_path: Path) -> None:
    pack = tmp_path / "p.pack"
    text = printed(capsys, "proof", "make", "bb33")
    key = printed(capsys, "key", "show").strip()
    pack.write_text(text.replace('"seq":5', '"seq":6', 1))
    assert run(["proof", "check", str(pack), "--key", key, "--json"]) == 1
    said = capsys.readouterr()
    assert json.loads(said.out) == {"ok": False, "events": 4, "tag": None, "anchored": False}
    line = refused(capsys, "proof", "check", str(pack))
    assert line.startswith(f"trajlog: {pack}: line 6: no such event stands at position ")
    assert line.endswith("; do not rely on it")
    assert said.err == line + "\n"


@pytest.mark.parametrize(
    ("arguments", "code", "line"),
    [
        (("make", "no-such"), 1, "trajlog: no-such: no such episode"),
        (("make", "bb33@999"), 1, "trajlog: episode/bb33: there is no event 999: the stream has 10"),
        (("make", "bb33", "--tag", "lead"), 1, "trajlog: 'lead': no such tag"),
        (("make", "a"), 1, "trajlog: a: more than one episode starts with it"),
        (("make", "bb33", "-o", "no/such/folder/x"), 1, "trajlog: "),
        (("check", "no-such"), 1, "trajlog: no-such: no such file"),
        (("check", "/"), 2, "trajlog: /: cannot be read"),
        (("check", "/dev/null"), 1, "trajlog: /dev/null: line 1: not the head of a proof pack"),
        (("check", "/dev/null", "--key", "abc"), 2, "trajlog: 'abc': not a public key, and no such file"),
        (("check", "/dev/null", "--receipt", "/dev/null"), 1, "trajlog: /dev/null: not a receipt"),
    ],
)
def test_bad_input_is_one_line(url: str, capsys: Capture, arguments: tuple[str, ...], code: int, line: str) -> None:
    assert refused(capsys, "proof", *arguments, code=code).startswith(line)


def test_a_pack_appears_when_it_is_whole(url: str, capsys: Capture, database: Database, tmp_path: Path) -> None:
    with database.tampering() as connection:
        connection.execute("UPDATE trajlog.event SET seq = seq + 1 WHERE stream = 'episode/bb33' AND version = 4")
    line = refused(capsys, "proof", "make", "bb33", "-o", str(tmp_path / "p.pack"))
    assert "event 4 is not what was committed at position" in line and line.endswith("run: trajlog verify")
    assert [path.name for path in tmp_path.iterdir()] == ["home"]


def test_checking_loads_nothing_of_a_database(url: str, capsys: Capture, tmp_path: Path) -> None:
    pack = tmp_path / "p.pack"
    pack.write_text(printed(capsys, "proof", "make", "bb33"))
    code = "import sys; from cli.main import run; sys.exit(run(sys.argv[1:]) or 'psycopg' in sys.modules)"
    subprocess.run([sys.executable, "-c", code, "proof", "check", pack], cwd=ROOT, check=True)
