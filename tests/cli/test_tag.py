"""`trajlog tag`, `key` and `verify --receipt` on a real database."""

import json
from pathlib import Path

import pytest

from cli.main import run
from tests.cli.logs import append, as_json, fill, printed, refused
from tests.databases import Database
from tests.eventlog.samples import judged
from tests.eventlog.versions.test_tags import cut_off

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def url(plain: str) -> str:
    """The log of the reading commands' tests; a blob that it names is missing."""
    fill(plain)
    return plain


@pytest.fixture
def plain(database: Database, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> str:
    """A log that is whole."""
    append(database.url, "episode/aa11", judged("pass"))
    append(database.url, "episode/aa11", *[judged("fail")] * 3)
    monkeypatch.setenv("TRAJLOG_DB", database.url)
    monkeypatch.setenv("TRAJLOG_HOME", str(tmp_path))
    monkeypatch.delenv("TRAJLOG_KEYS", raising=False)
    return database.url


def test_a_tag_from_first_to_last(url: str, capsys: Capture, tmp_path: Path) -> None:
    status = as_json(capsys, "status")
    made = as_json(capsys, "tag", "create", "gold", "--why", "for the audit")
    assert made == {"name": "gold", "log": status["log"], "position": status["position"], "root": status["root"]}
    append(url, "episode/bb33", judged("pass"))
    later = printed(capsys, "tag", "create", "silver", "--at", "7")
    assert later.startswith("silver: position 7, root ")
    listed = as_json(capsys, "tag", "ls")
    assert [list(row) for row in listed] == [["name", "position", "root", "created_at", "why"]] * 2
    assert [(row["name"], row["why"]) for row in listed] == [("silver", None), ("gold", "for the audit")]
    assert printed(capsys, "tag", "ls").splitlines()[0].split() == ["tag", "position", "created", "root", "why"]
    shown = as_json(capsys, "tag", "show", "gold")
    assert (shown["position"], shown["root"], shown["offsets"]) == (made["position"], made["root"], [])
    assert f"root       {made['root']}" in printed(capsys, "tag", "show", "gold").splitlines()
    assert as_json(capsys, "tag", "verify") == [
        {"name": "silver", "position": 7, "ok": True, "anchored": True, "detail": None},
        {"name": "gold", "position": made["position"], "ok": True, "anchored": True, "detail": None},
    ]
    assert "holds" in printed(capsys, "tag", "verify", "gold")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["keys"]


def test_what_came_in_between(url: str, capsys: Capture) -> None:
    printed(capsys, "tag", "create", "a", "--at", "7")
    printed(capsys, "tag", "create", "b")
    found = as_json(capsys, "tag", "diff", "a", "b")
    assert list(found) == ["from", "to", "events", "episodes", "proof"]
    assert found["from"]["position"] == 7
    assert sum(found["events"].values()) == found["to"]["position"] - 7
    assert [one["episode"] for one in found["episodes"]["new"]][-1] == "cc44"
    assert all(len(node) == 64 for node in found["proof"])
    text = printed(capsys, "tag", "diff", "7", "b")
    assert text.splitlines()[0] == f"positions 7 to {found['to']['position']}: {sum(found['events'].values())} events"
    assert "cc44" in text
    assert "0 events" in printed(capsys, "tag", "diff", "b", "b")


@pytest.mark.parametrize("arguments", [("tag", "ls"), ("tag", "verify")])
def test_without_tags_it_says_how_to_make_one(url: str, capsys: Capture, arguments: tuple[str, ...]) -> None:
    assert as_json(capsys, *arguments) == []
    assert run(arguments) == 0
    assert capsys.readouterr().err == "no tags yet; trajlog tag create NAME makes one\n"


@pytest.mark.parametrize(
    ("arguments", "code", "line"),
    [
        (("tag", "create", "gold"), 1, "trajlog: gold: this tag stands at position 5, for ever; give the new one"),
        (("tag", "create", "7d"), 2, "trajlog: '7d': a tag's name is a letter"),
        (("tag", "create", "new", "--at", "9999"), 1, "trajlog: position 9999: the log ends at position"),
        (("tag", "create", "new", "--at", "2999-01-01"), 2, "trajlog: 2999-01-01: the time is in the future"),
        (
            ("tag", "create", "new", "--at", "2001-01-01"),
            1,
            "trajlog: 2001-01-01: 2001-01-01T00:00:00.000000Z is before",
        ),
        (("tag", "create", "new", "--at", "lead"), 1, "trajlog: 'lead': no such tag; trajlog tag ls lists them"),
        (("tag", "create", "new", "--at", "2026-99-01"), 2, "trajlog: '2026-99-01': not a tag, a position or a time"),
        (("tag", "show", "lead"), 1, "trajlog: 'lead': no such tag; trajlog tag ls lists them"),
        (("tag", "verify", "lead"), 1, "trajlog: 'lead': no such tag"),
        (("tag", "receipt", "lead"), 1, "trajlog: 'lead': no such tag"),
        (("tag", "diff", "gold", "lead"), 1, "trajlog: 'lead': no such tag"),
        (("tag", "verify", "--key", "abc"), 2, "trajlog: 'abc': not a public key, and no such file"),
        (("verify", "--receipt", "no/such"), 1, "trajlog: no/such: no such receipt"),
        (("verify", "aa11", "--receipt", "kept"), 2, "trajlog: --receipt: a receipt is about the whole log"),
        (("key", "rotate", "--lost"), 2, "trajlog: "),
    ],
)
def test_bad_input_is_one_line(url: str, capsys: Capture, arguments: tuple[str, ...], code: int, line: str) -> None:
    printed(capsys, "tag", "create", "gold", "--at", "5")
    assert refused(capsys, *arguments, code=code).startswith(line)
    assert [row["name"] for row in as_json(capsys, "tag", "ls")] == ["gold"]


def test_a_broken_tag_and_one_that_nobody_vouches_for(
    url: str, capsys: Capture, database: Database, tmp_path: Path
) -> None:
    printed(capsys, "tag", "create", "gold", "--at", "5")
    key = printed(capsys, "key", "show").strip()
    (tmp_path / "keys").rename(tmp_path / "away")
    rows = json.loads(printed(capsys, "tag", "verify", "--json", code=3))
    assert [(row["ok"], row["anchored"]) for row in rows] == [(True, False)]
    assert key in printed(capsys, "tag", "verify", code=3)
    printed(capsys, "tag", "verify", "--key", key)
    with database.tampering() as connection:
        connection.execute("UPDATE trajlog.tag SET why = 'other'")
    (row,) = json.loads(printed(capsys, "tag", "verify", "--json", "--key", key, code=1))
    assert (row["ok"], row["anchored"]) == (False, False)
    assert row["detail"] == "the signature is not that of what the tag says"


def test_a_lost_key_and_the_way_on(url: str, capsys: Capture, tmp_path: Path) -> None:
    assert refused(capsys, "key", "show").endswith("there is no key yet; the first tag makes one")
    printed(capsys, "tag", "create", "gold")
    key = printed(capsys, "key", "show").strip()
    assert as_json(capsys, "key", "show")["key"] == key
    assert list(as_json(capsys, "key", "rotate")) == ["key", "instance"]
    rotated = printed(capsys, "key", "show").strip()
    assert rotated != key
    printed(capsys, "tag", "verify")
    for file in (tmp_path / "keys").glob("*.key"):
        file.unlink()
    for command in (("tag", "create", "next"), ("key", "show"), ("key", "rotate"), ("proof", "make", "aa11")):
        assert f"the key {rotated[:16]}… that signs for this log is not here" in refused(capsys, *command, code=4)
    printed(capsys, "key", "rotate", "--lost")
    printed(capsys, "tag", "create", "next")
    printed(capsys, "tag", "verify", "next")
    printed(capsys, "tag", "verify", code=3)
    printed(capsys, "tag", "verify", "--key", rotated)


def test_keys_are_where_the_setting_says(
    url: str, capsys: Capture, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("TRAJLOG_KEYS", str(tmp_path / "elsewhere"))
    printed(capsys, "tag", "create", "gold")
    assert [path.name for path in tmp_path.iterdir()] == ["elsewhere"]
    monkeypatch.setenv("TRAJLOG_KEYS", "kms://region/key")
    line = refused(capsys, "tag", "create", "silver", code=2)
    assert line == "trajlog: TRAJLOG_KEYS: keys in a key service are not supported yet; name a folder instead"


def test_a_receipt_and_what_it_shows(plain: str, capsys: Capture, database: Database, tmp_path: Path) -> None:
    printed(capsys, "tag", "create", "gold")
    file = tmp_path / "gold.receipt"
    assert run(["tag", "receipt", "gold", "-o", str(file)]) == 0
    assert capsys.readouterr() == ("", f"{file}: the receipt of gold\n")
    assert printed(capsys, "tag", "receipt", "gold") == file.read_text()
    assert "is there already" in refused(capsys, "tag", "receipt", "gold", "-o", str(file), code=2)
    append(plain, "episode/aa11", judged("fail"))
    report = as_json(capsys, "verify", "--receipt", str(file))
    assert report["ok"] and report["problems"] == []
    assert "where the receipt ends" in report["unknowable"][0]
    cut_off(database, 1)
    report = json.loads(printed(capsys, "verify", "--receipt", str(file), "--json", code=1))
    assert [problem["kind"] for problem in report["problems"]] == ["receipt"]
    assert "were lost" in printed(capsys, "verify", "--receipt", str(file), code=1)
    printed(capsys, "verify", code=0)


def test_a_receipt_that_is_altered_or_of_another_log_stops_before_the_scan(
    plain: str, capsys: Capture, database: Database, tmp_path: Path
) -> None:
    printed(capsys, "tag", "create", "gold")
    file = tmp_path / "kept"
    file.write_text(printed(capsys, "tag", "receipt", "gold").replace('"name":"gold"', '"name":"g0ld"'))
    assert "the receipt was altered: the signature is not that" in refused(capsys, "verify", "--receipt", str(file))
    log_id = as_json(capsys, "status")["log"]
    assert log_id in printed(capsys, "tag", "receipt", "gold")
    with database.tampering() as connection:
        connection.execute("UPDATE trajlog.log SET log_id = gen_random_uuid()")
    printed(capsys, "tag", "create", "silver")
    file.write_text(printed(capsys, "tag", "receipt", "silver"))
    with database.tampering() as connection:
        connection.execute("UPDATE trajlog.log SET log_id = %s", (log_id,))
    assert "a receipt of another log" in refused(capsys, "verify", "--receipt", str(file))


def test_a_receipt_by_an_unknown_key_is_said(plain: str, capsys: Capture, tmp_path: Path) -> None:
    printed(capsys, "tag", "create", "gold")
    file = tmp_path / "kept"
    file.write_text(printed(capsys, "tag", "receipt", "gold"))
    (tmp_path / "keys").rename(tmp_path / "away")
    report = as_json(capsys, "verify", "--receipt", str(file))
    assert report["ok"]
    assert report["unknowable"][-1].startswith("whether this log signed the receipt: nobody here vouches")
