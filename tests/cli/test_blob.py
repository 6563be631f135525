"""`trajlog blob`: bytes out, and only what nothing names removed."""

import json
import os
import time
from pathlib import Path

import pytest

from cli.main import run
from core.vocabulary.episode import ImportStarted
from eventlog.blobs import BlobStore
from eventlog.ledger import Ledger
from eventlog.writer import Writer
from tests.databases import Databases


@pytest.fixture
def store(databases: Databases, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> BlobStore:
    """A log of its own whose only event names one of two old blobs."""
    url = databases.fresh().url
    monkeypatch.setenv("TRAJLOG_DB", url)
    monkeypatch.setenv("TRAJLOG_HOME", str(tmp_path))
    store = BlobStore(tmp_path / "blobs")
    named, stray = store.put(b"named"), store.put(b"stray")
    body = json.dumps({"format": "x", "mapping": 1, "kept": {"address": named.address, "size": 5, "media_type": "t"}})
    with Ledger(url) as log:
        log.append(Writer("test").raw("import/1", ImportStarted.__name__, body.encode()))
    for path in (tmp_path / "blobs").rglob("*"):
        if path.is_file():
            os.utime(path, (time.time() - 7_200,) * 2)
    assert stray.address != named.address
    return store


def test_gc_names_what_no_event_names_and_removes_nothing(store: BlobStore, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["blob", "gc", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found == {"deleted": False, "blobs": [store.put(b"stray").address], "bytes": 5}


def test_gc_with_delete_removes_only_that(store: BlobStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRAJLOG_BLOBS", str(tmp_path / "blobs"))
    addresses = set(store.addresses())
    assert run(["blob", "gc", "--delete"]) == 0
    (gone,) = addresses - set(store.addresses())
    assert not store.has(gone)
    assert len(list(store.addresses())) == 1


def test_gc_keeps_young_blobs(store: BlobStore, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["blob", "gc", "--older-than", "1d", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["blobs"] == []


def test_gc_does_not_collect_the_default_store_for_another_database(
    store: BlobStore, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["blob", "gc", "--delete"]) == 2
    assert "TRAJLOG_BLOBS" in capsys.readouterr().err
    assert len(list(store.addresses())) == 2


def test_get_writes_the_bytes(store: BlobStore, tmp_path: Path) -> None:
    address = store.put(b"named").address
    assert run(["blob", "get", address, "--out", str(tmp_path / "out.bin")]) == 0
    assert (tmp_path / "out.bin").read_bytes() == b"named"


@pytest.mark.parametrize(("address", "code"), [("sha256:" + "0" * 64, 1), ("nonsense", 2)])
def test_get_of_what_is_not_there_is_one_line(
    store: BlobStore, capsys: pytest.CaptureFixture[str], address: str, code: int
) -> None:
    assert run(["blob", "get", address]) == code
    assert len(capsys.readouterr().err.strip().splitlines()) == 1


@pytest.mark.parametrize("age", ["", "7", "7y", "-1d"])
def test_a_bad_age_is_one_line(store: BlobStore, capsys: pytest.CaptureFixture[str], age: str) -> None:
    assert run(["blob", "gc", f"--older-than={age}"]) == 2
    assert "90m, 6h, 7d" in capsys.readouterr().err
