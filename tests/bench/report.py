"""A report of 100 steps with 100 screenshots, against a loop that does nothing but write the pictures."""

import random
import tempfile
from base64 import b64encode
from collections.abc import Sequence
from pathlib import Path

from core.vocabulary import Payload
from core.vocabulary.base import BlobRef
from core.vocabulary.episode import EpisodeStarted
from eventlog.blobs import BlobStore
from eventlog.report import FIELDS, Page, Recorded
from tests.bench.harness import Row, row, seconds
from tests.eventlog import samples, screenshots

STEPS = 100
PICTURE_BYTES = 250_000
ROUNDS = 5


def run() -> list[Row]:
    """Rows `report.100` (seconds) and `report.100.size` (MB)."""
    with tempfile.TemporaryDirectory(prefix="trajlog-bench-") as name:
        folder = Path(name)
        store = BlobStore(folder / "blobs")
        pictures = _pictures(store)
        recorded = _episode([blob for blob, _ in pictures])
        ours, limit = folder / "ours.html", folder / "limit.html"
        times: tuple[list[float], list[float]] = ([], [])
        for _ in range(ROUNDS):
            times[1].append(seconds(_encode, [path for _, path in pictures], limit))
            times[0].append(seconds(_report, recorded, store, ours))
        sizes = [file.stat().st_size / 1e6 for file in (ours, limit)]
    return [row("report.100", *times, "s"), row("report.100.size", sizes[:1], sizes[1:], "MB")]


def _pictures(store: BlobStore) -> list[tuple[BlobRef, Path]]:
    """Pictures of the size of a phone's screenshots, and the files they lie in."""
    chance = random.Random(1)
    made = []
    for number in range(STEPS):
        data = screenshots.png((number, 90, 120), 1080, 2280, chance.randbytes(PICTURE_BYTES))
        blob = store.put(data)
        digest = blob.address.removeprefix("sha256:")
        made.append((blob, Path(store._shelf.where(digest))))
    return made


def _episode(blobs: Sequence[BlobRef]) -> Recorded:
    payloads: list[Payload] = [EpisodeStarted(task="alarm")]
    for step, blob in enumerate(blobs, 1):
        payloads += [
            screenshots.seen(step, blob),
            samples.turn(step, "I will tap the button at the bottom. " * 10),
            screenshots.touched(step, "tap", 54, 210),
        ]
    return Recorded("aa", dict.fromkeys(FIELDS), samples.stored(("episode/aa", payloads)))


def _report(recorded: Recorded, store: BlobStore, file: Path) -> None:
    with file.open("wb") as out:
        for piece in Page([recorded], store):
            out.write(piece.encode())


def _encode(pictures: list[Path], file: Path) -> None:
    with file.open("wb") as out:
        for picture in pictures:
            out.write(b64encode(picture.read_bytes()))
