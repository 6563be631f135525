"""Stores blobs in the background and many at a time, so that a disk's fsyncs overlap with the mapping
of records."""

from concurrent.futures import Future, ThreadPoolExecutor
from hashlib import sha256
from typing import Self

from core.vocabulary import BlobRef
from eventlog.blobs import BlobStore
from eventlog.blobs.media_type import sniff

CHUNK_BLOBS = 512
CHUNK_BYTES = 16_000_000
MAX_PENDING = 2
"""Chunks not yet durable before `keep` waits for them."""


class Keeper:
    """Takes bytes and answers with their reference at once. Those kept so far are durable when all
    that `begun` returns is done."""

    def __init__(self, blobs: BlobStore) -> None:
        self._blobs = blobs
        self._pool = ThreadPoolExecutor(2, thread_name_prefix="trajlog-blob")
        self._chunk: dict[str, bytes] = {}
        self._size = 0
        self._storing: list[Future[None]] = []

    def keep(self, data: bytes) -> BlobRef:
        """Begin to store a blob."""
        address = f"sha256:{sha256(data).hexdigest()}"
        self.store(address, data)
        return BlobRef(address, len(data), sniff(data))

    def store(self, address: str, data: bytes) -> None:
        """The same for bytes whose address is known."""
        if address not in self._chunk:
            self._chunk[address] = data
            self._size += len(data)
            if len(self._chunk) >= CHUNK_BLOBS or self._size >= CHUNK_BYTES:
                self._begin()

    def has(self, address: str) -> bool:
        """Whether a blob is stored; what was kept so far is, once this returns."""
        if address in self._chunk:
            return True
        self.wait()
        return self._blobs.has(address)

    def begun(self) -> list[Future[None]]:
        """Begin to store what is still waiting."""
        self._begin()
        return list(self._storing)

    def wait(self) -> None:
        """Return once everything kept so far is durable, or raise why it is not."""
        for stored in self.begun():
            stored.result()

    def _begin(self) -> None:
        self._storing = [stored for stored in self._storing if not stored.done() or stored.exception()]
        if len(self._storing) >= MAX_PENDING:
            self._storing[0].result()
        if self._chunk:
            self._storing.append(self._pool.submit(self._blobs.keep_all, self._chunk))
        self._chunk, self._size = {}, 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self._pool.shutdown(cancel_futures=True)
