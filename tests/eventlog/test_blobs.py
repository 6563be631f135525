"""The blob store: whole or absent, named by its bytes, removed only by hand."""

import errno
import os
import signal
import subprocess
import time
import tracemalloc
from collections.abc import Iterator
from datetime import timedelta
from hashlib import sha256
from io import BytesIO
from pathlib import Path

import pytest

from core.errors import Corrupt, DiskFull, NotFound, Unavailable, UsageError
from eventlog.blobs import BlobStore
from tests.eventlog.mounts import tmpfs
from tests.eventlog.processes import python

ABSENT = "sha256:" + "0" * 64


@pytest.fixture(params=["folder", "objects"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> BlobStore:
    return BlobStore(tmp_path / "blobs" if request.param == "folder" else f"memory://{tmp_path}/bucket")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "blobs"


def _file(folder: Path, address: str) -> Path:
    digest = address.removeprefix("sha256:")
    return folder / "sha256" / digest[:2] / digest


def _age(folder: Path, address: str, by: timedelta) -> None:
    at = time.time() - by.total_seconds()
    os.utime(_file(folder, address), (at, at))


def _everything(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file() and path.name != ".lock"]


class _Endless:
    """So many bytes, never in memory at once."""

    def __init__(self, size: int) -> None:
        self._left = size

    def read(self, size: int, /) -> bytes:
        size = min(size, self._left)
        self._left -= size
        return b"\x07" * size


def test_what_is_put_comes_back_under_the_digest_of_its_bytes(store: BlobStore) -> None:
    blob = store.put(b'{"a": 1}')
    assert blob.address == "sha256:" + sha256(b'{"a": 1}').hexdigest()
    assert (blob.size, blob.media_type) == (8, "application/json")
    assert store.get(blob.address) == b'{"a": 1}'
    assert store.has(blob.address)
    assert not store.has(ABSENT)


def test_putting_twice_stores_once(store: BlobStore) -> None:
    first = store.put(b"same")
    assert store.put(b"same") == store.put_stream(BytesIO(b"same")) == first
    assert list(store.addresses()) == [first.address]


def test_many_put_together_are_all_there_under_their_addresses(store: BlobStore) -> None:
    present = store.put(b"3" * 1000).address
    data = [str(i).encode() * 1000 for i in [*range(40), 3, 3]]
    addresses = store.put_all(data)
    assert [store.get(address) for address in addresses] == data
    assert len(list(store.addresses())) == 40
    assert present in addresses
    assert store.put_all([]) == []
    store.keep_all({addresses[0]: data[0], f"sha256:{sha256(b'new').hexdigest()}": b"new"})
    assert len(list(store.addresses())) == 41


def test_a_disk_that_fills_under_many_leaves_whole_blobs_only() -> None:
    with tmpfs("1m") as mount:
        store = BlobStore(mount / "blobs")
        with pytest.raises(DiskFull):
            store.put_all(os.urandom(200_000) for _ in range(20))
        for address in store.addresses():
            store.check(address)
        assert len(_everything(mount)) == len(list(store.addresses()))


def test_an_empty_blob_is_a_blob(store: BlobStore) -> None:
    assert store.get(store.put(b"").address) == b""


def test_a_stream_is_stored_and_read_in_constant_memory(folder: Path) -> None:
    size = 64 << 20
    tracemalloc.start()
    blob = BlobStore(folder).put_stream(_Endless(size))
    BlobStore(folder).check(blob.address)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert (blob.size, blob.media_type) == (size, "application/octet-stream")
    assert peak < 8 << 20


def test_a_large_blob_passes_through_an_object_store(tmp_path: Path) -> None:
    store = BlobStore(f"memory://{tmp_path}/large")
    blob = store.put_stream(_Endless(20 << 20))
    assert store.get(blob.address) == b"\x07" * (20 << 20)
    store.check(blob.address)


def test_an_absent_blob_is_not_found(store: BlobStore) -> None:
    for read in (store.get, store.open, store.check):
        with pytest.raises(NotFound, match="no such blob"):
            read(ABSENT)


@pytest.mark.parametrize(
    "address", ["", "sha256:", "0" * 64, "sha256:" + "G" * 64, "sha256:../../etc/passwd", "md5:" + "0" * 64]
)
def test_what_is_no_address_is_refused(store: BlobStore, address: str) -> None:
    for call in (store.get, store.has, store.open):
        with pytest.raises(UsageError, match="not a blob's address"):
            call(address)


def test_changed_bytes_are_found_by_get_open_and_check(folder: Path) -> None:
    store = BlobStore(folder)
    address = store.put(b"as it was").address
    path = _file(folder, address)
    path.chmod(0o600)
    path.write_bytes(b"as it wax")
    for read in (store.get, store.check, lambda address: store.open(address).read()):
        with pytest.raises(Corrupt, match="not those its address names"):
            read(address)


def test_a_truncated_blob_is_corrupt_and_is_mended_by_putting_it_again(folder: Path) -> None:
    store = BlobStore(folder)
    address = store.put(b"whole").address
    path = _file(folder, address)
    path.chmod(0o600)
    path.write_bytes(b"who")
    with pytest.raises(Corrupt):
        store.get(address)
    store.put(b"whole")
    assert store.get(address) == b"whole"


def test_a_source_that_fails_leaves_nothing(folder: Path) -> None:
    class Broken(_Endless):
        def read(self, size: int, /) -> bytes:
            if self._left < 1 << 20:
                raise ConnectionResetError("peer went away")
            return super().read(size)

    with pytest.raises(ConnectionResetError):
        BlobStore(folder).put_stream(Broken(3 << 20))
    assert _everything(folder) == []


def test_a_full_disk_leaves_nothing_half_written() -> None:
    with tmpfs("1m") as mount:
        store = BlobStore(mount / "blobs")
        small = store.put(b"small")
        with pytest.raises(DiskFull, match="no space left"):
            store.put_stream(_Endless(4 << 20))
        assert _everything(mount) == [_file(mount / "blobs", small.address)]
        assert store.get(small.address) == b"small"
        assert store.put(b"still works").size == 11


def test_a_disk_that_fills_at_the_very_end_leaves_nothing(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(DiskFull):
        BlobStore(folder).put(b"x" * 100)
    assert _everything(folder) == []


def test_a_read_only_disk_is_one_clear_line() -> None:
    with tmpfs("1m") as mount:
        address = BlobStore(mount).put(b"here").address
        subprocess.run(["mount", "-o", "remount,ro", str(mount)], check=True)
        assert BlobStore(mount).get(address) == b"here"
        with pytest.raises(Unavailable, match="read-only"):
            BlobStore(mount).put(b"more")


def test_a_writer_killed_in_the_middle_leaves_no_blob_and_gc_sweeps_its_draft(folder: Path) -> None:
    code = f"""
        import time
        from eventlog.blobs import BlobStore
        class Slow:
            left = 2
            def read(self, size):
                self.left -= 1
                if self.left: return b"x" * 100
                print("writing", flush=True)
                time.sleep(60)
        BlobStore({str(folder)!r}).put_stream(Slow())
    """
    writer = python(code, stdout=subprocess.PIPE)
    assert writer.stdout is not None
    assert writer.stdout.readline() == b"writing\n"
    writer.send_signal(signal.SIGKILL)
    writer.communicate()
    store = BlobStore(folder)
    assert list(store.addresses()) == []
    assert len(_everything(folder)) == 1
    store.gc([])
    assert len(_everything(folder)) == 1, "a draft younger than an hour may still have its writer"
    store.gc([], older_than=timedelta(0))
    assert _everything(folder) == []


def test_many_writers_of_the_same_blob_do_not_disturb_each_other(folder: Path) -> None:
    code = f"""
        from eventlog.blobs import BlobStore
        for i in range(50):
            store = BlobStore({str(folder)!r})
            assert store.get(store.put(str(i).encode() * 1000).address) == str(i).encode() * 1000
    """
    writers = [python(code) for _ in range(4)]
    assert [writer.wait() for writer in writers] == [0] * 4
    store = BlobStore(folder)
    assert len(list(store.addresses())) == 50
    for address in store.addresses():
        store.check(address)


def test_gc_removes_only_what_is_old_and_not_referenced(folder: Path) -> None:
    store = BlobStore(folder)
    kept, garbage, young = (store.put(data).address for data in (b"kept", b"garbage", b"young"))
    for address in (kept, garbage):
        _age(folder, address, timedelta(hours=2))
    assert store.gc([kept], dry_run=True) == ([garbage], 7)
    assert store.has(garbage)
    assert store.gc([kept]) == ([garbage], 7)
    assert sorted(store.addresses()) == sorted([kept, young])


def test_a_blob_put_again_is_young_again(folder: Path) -> None:
    store = BlobStore(folder)
    address = store.put(b"returns").address
    _age(folder, address, timedelta(days=9))
    store.put(b"returns")
    assert store.gc([]).addresses == []


def test_a_blob_put_again_while_it_is_collected_stays(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = BlobStore(folder)
    address = store.put(b"returns").address
    _age(folder, address, timedelta(days=9))
    names = store._shelf.names

    def put_meanwhile() -> Iterator[tuple[str, int, float]]:
        for name in list(names()):
            store.put(b"returns")
            yield name

    monkeypatch.setattr(store._shelf, "names", put_meanwhile)
    assert store.gc([]).addresses == []
    assert store.has(address)


def test_gc_refuses_references_it_cannot_read(folder: Path) -> None:
    store = BlobStore(folder)
    address = store.put(b"x").address
    with pytest.raises(UsageError):
        store.gc(["not an address"], older_than=timedelta(0))
    assert store.has(address)


def test_gc_of_an_object_store(tmp_path: Path) -> None:
    store = BlobStore(f"memory://{tmp_path}/gc")
    kept, garbage = store.put(b"kept").address, store.put(b"garbage").address
    assert store.gc([kept]).addresses == []
    assert store.gc([kept], older_than=timedelta(0)).addresses == [garbage]
    assert list(store.addresses()) == [kept]


def test_foreign_files_are_neither_listed_nor_collected(folder: Path) -> None:
    store = BlobStore(folder)
    shard = _file(folder, store.put(b"x").address).parent
    (shard / "README").write_text("mine")
    assert len(list(store.addresses())) == 1
    store.gc([], older_than=timedelta(0))
    assert (shard / "README").exists()


def test_blobs_are_readable_by_their_owner_alone(folder: Path) -> None:
    path = _file(folder, BlobStore(folder).put(b"private").address)
    assert path.stat().st_mode & 0o777 == 0o400
    assert path.parent.stat().st_mode & 0o077 == 0


def test_a_store_that_does_not_exist_yet_is_empty(folder: Path) -> None:
    store = BlobStore(folder)
    assert list(store.addresses()) == []
    assert store.gc([]).size == 0
    assert not folder.exists()


def test_a_file_url_is_a_folder(tmp_path: Path) -> None:
    address = BlobStore(f"file://{tmp_path}/with%20space").put(b"x").address
    assert _file(tmp_path / "with space", address).exists()


@pytest.mark.parametrize(("url", "words"), [("nosuch://bucket", "Protocol not known"), ("dropbox://bucket", "install")])
def test_an_object_store_that_cannot_be_used_is_one_clear_line(url: str, words: str) -> None:
    with pytest.raises((UsageError, Unavailable), match=words) as caught:
        BlobStore(url).put(b"x")
    assert "\n" not in str(caught.value)


def test_fsspec_is_imported_for_object_stores_only(tmp_path: Path) -> None:
    code = f"""
        import sys
        from eventlog.blobs import BlobStore
        BlobStore({str(tmp_path)!r}).put(b"x")
        assert "fsspec" not in sys.modules
        BlobStore("memory://x").put(b"x")
        assert "fsspec" in sys.modules
    """
    assert python(code).wait() == 0
