"""Small blobs that come many at a time: one file, each blob as good as one of its own."""

import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from datetime import timedelta
from pathlib import Path

import pytest

from core.errors import Corrupt, DiskFull, NotFound, Unavailable
from eventlog.blobs import BlobStore
from eventlog.blobs.files import SMALL_BYTES
from tests.eventlog.mounts import tmpfs

DATA = [str(number).encode() * 100 for number in range(50)]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "blobs"


@pytest.fixture
def store(folder: Path) -> BlobStore:
    return BlobStore(folder)


def _age(folder: Path, by: timedelta) -> None:
    with sqlite3.connect(folder / "small.sqlite") as connection:
        connection.execute("UPDATE blob SET stored_at = stored_at - ?", (by.total_seconds(),))


def test_they_lie_in_one_file_of_the_owner_alone(store: BlobStore, folder: Path) -> None:
    addresses = store.put_all([*DATA, b"x" * SMALL_BYTES, b"y" * (SMALL_BYTES + 1)])
    assert {path.name for path in folder.rglob("*") if path.is_file()} == {
        "small.sqlite",
        "small.sqlite-journal",
        ".lock",
        addresses[-1].removeprefix("sha256:"),
    }
    assert (folder / "small.sqlite").stat().st_mode & 0o777 == 0o600
    assert [BlobStore(folder).get(address) for address in addresses[:-2]] == DATA
    assert list(store.addresses()) == sorted(addresses)


def test_a_blob_in_both_places_is_one(store: BlobStore) -> None:
    alone = store.put(DATA[7])
    assert alone.address in store.put_all(DATA)
    assert len(list(store.addresses())) == len(DATA)
    assert store.put(DATA[8]).address in set(store.addresses())
    assert len(list(store.addresses())) == len(DATA)


def test_gc_removes_old_ones_and_their_bytes(store: BlobStore, folder: Path) -> None:
    secret = b"a very private text" * 10
    kept, gone = store.put_all([DATA[3], secret])
    assert store.gc([], timedelta(hours=1)).addresses == []
    _age(folder, timedelta(hours=2))
    assert store.gc([kept], dry_run=True).addresses == [gone]
    assert store.gc([kept]) == ([gone], len(secret))
    assert store.has(kept) and not store.has(gone)
    with pytest.raises(NotFound):
        store.get(gone)
    assert secret[:19] not in (folder / "small.sqlite").read_bytes()


@pytest.mark.parametrize("again", ["put", "put_all"])
def test_one_that_is_stored_again_is_young_again(store: BlobStore, folder: Path, again: str) -> None:
    store.put_all(DATA)
    _age(folder, timedelta(hours=2))
    address = store.put(DATA[5]).address if again == "put" else store.put_all([DATA[5], DATA[6]])[0]
    assert address not in store.gc([]).addresses
    assert store.get(address) == DATA[5]


def test_gc_removes_a_blob_from_both_places(store: BlobStore, folder: Path) -> None:
    address = store.put(DATA[1]).address
    store.put_all([DATA[1]])
    _age(folder, timedelta(hours=2))
    digest = address.removeprefix("sha256:")
    before = time.time() - 7200
    os.utime(folder / "sha256" / digest[:2] / digest, (before, before))
    assert store.gc([]).addresses == [address]
    assert not store.has(address)


def test_changed_bytes_are_found_and_storing_again_mends_them(store: BlobStore, folder: Path) -> None:
    address = store.put_all(DATA)[4]
    with sqlite3.connect(folder / "small.sqlite") as connection:
        connection.execute("UPDATE blob SET data = ? WHERE digest = ?", (b"other", bytes.fromhex(address[7:])))
    with pytest.raises(Corrupt, match=r"small\.sqlite"):
        store.get(address)
    store.put_all(DATA)
    assert store.get(address) == DATA[4]


def test_a_damaged_file_is_one_line(store: BlobStore, folder: Path) -> None:
    address = store.put_all(DATA)[0]
    store.close()
    (folder / "small.sqlite").write_bytes(b"no database" * 1000)
    with pytest.raises(Corrupt, match=r"small\.sqlite"):
        store.get(address)
    with pytest.raises(Corrupt, match="damaged"):
        store.put_all(DATA)


def test_a_killed_writer_leaves_all_or_none(folder: Path) -> None:
    count = 400
    program = f"""
import os, sys
from eventlog.blobs import BlobStore
store = BlobStore({str(folder)!r})
while True:
    store.put_all([os.urandom(8) + bytes([i % 256]) * 2000 for i in range({count})])
    print(flush=True)
"""
    for turn in range(4):
        process = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE)
        assert process.stdout is not None
        process.stdout.readline()
        time.sleep(0.007 * turn)
        process.send_signal(signal.SIGKILL)
        process.wait()
        process.stdout.close()
        store = BlobStore(folder)
        addresses = list(store.addresses())
        assert addresses and len(addresses) % count == 0
        for address in addresses:
            store.check(address)
        store.close()


def test_writers_take_turns(folder: Path) -> None:
    program = "import sys\nfrom eventlog.blobs import BlobStore\nfor n in range(20):\n" + (
        f"    BlobStore({str(folder)!r}).put_all([(sys.argv[1] + str(n * 9 + i)).encode() for i in range(9)])"
    )
    writers = [subprocess.Popen([sys.executable, "-c", program, name]) for name in "ab"]
    assert [writer.wait(60) for writer in writers] == [0, 0]
    assert len(list(BlobStore(folder).addresses())) == 2 * 20 * 9


def test_a_forked_process_opens_the_file_itself(store: BlobStore) -> None:
    address = store.put_all(DATA)[0]
    child = os.fork()
    if child == 0:
        try:
            store.put_all([b"of the child"])
            os._exit(0 if store.get(address) == DATA[0] else 1)
        except BaseException:
            os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert len(list(store.addresses())) == len(DATA) + 1


def test_a_full_disk_is_said_and_keeps_what_was_there() -> None:
    with tmpfs("1m") as mount:
        store = BlobStore(mount / "blobs")
        kept = store.put_all(DATA)
        with pytest.raises(DiskFull):
            store.put_all(os.urandom(100_000) for _ in range(20))
        assert list(store.addresses()) == sorted(kept)
        store.close()


def test_a_read_only_disk_is_read(folder: Path) -> None:
    with tmpfs("4m") as mount:
        store = BlobStore(mount / "blobs")
        address = store.put_all(DATA)[9]
        store.close()
        subprocess.run(["mount", "-o", "remount,ro", str(mount)], check=True)
        assert store.get(address) == DATA[9]
        with pytest.raises(Unavailable, match="read"):
            store.put_all([b"new"])
        store.close()


def test_a_copy_of_the_folder_is_a_store(store: BlobStore, folder: Path, tmp_path: Path) -> None:
    addresses = store.put_all(DATA)
    shutil.copytree(folder, tmp_path / "copy")
    assert [BlobStore(tmp_path / "copy").get(address) for address in addresses] == DATA
