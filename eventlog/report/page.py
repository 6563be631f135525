"""The page of a report: the template filled in, piece by piece, so that no more than a picture is in memory."""

from base64 import b64encode
from collections.abc import Iterator, Sequence
from functools import cache
from hashlib import sha256
from importlib.resources import files
from typing import Any, Final

import msgspec
from jinja2 import Environment, StrictUndefined, Template
from markupsafe import Markup

from core.visible import short, visible
from eventlog.comparison import Comparison, Side, compare
from eventlog.comparison.rows import Row
from eventlog.comparison.rows import rows as side_by_side
from eventlog.report.model import Recorded, episode
from eventlog.report.shots import Blobs, Shots

CHUNK: Final = 65_536
"""Characters of the page that are handed over at once, if no picture makes them more."""


class Compared(msgspec.Struct, frozen=True):
    """How two episodes differ, as rows of the page."""

    found: Comparison
    rows: list[Row]


class Page:
    """The page of one episode, or of two and how they differ. Iterate to get its text, once; afterwards
    `pictures`, `picture_bytes` and `missing` (blobs) say what is in it."""

    def __init__(
        self, episodes: Sequence[Recorded], blobs: Blobs, *, images: bool = True, position: int | None = None
    ) -> None:
        self._shots = Shots(blobs, images=images)
        self._position = position
        self._compared = _compared(*episodes) if len(episodes) == 2 else None
        keys = ("a", "b")[: len(episodes)]
        parted = _parted(self._compared)
        self._episodes = [
            episode(recorded, key, self._shots, parted.get(key)) for key, recorded in zip(keys, episodes, strict=True)
        ]

    def __iter__(self) -> Iterator[str]:
        style, script = _source("style.css"), _source("script.js")
        pieces = _template().generate(
            episodes=self._episodes,
            compared=self._compared,
            position=self._position,
            uri=lambda shot: Markup(self._shots.uri(shot)),
            blob_text=self._shots.text,
            style=Markup(style),
            script=Markup(script),
            policy=_policy(style, script),
        )
        return _chunks(pieces)

    @property
    def pictures(self) -> int:
        return self._shots.pictures

    @property
    def picture_bytes(self) -> int:
        return self._shots.size

    @property
    def missing(self) -> list[str]:
        return sorted(self._shots.missing)


def _compared(a: Recorded, b: Recorded) -> Compared:
    sides = [Side(one.episode, one.row.get("task"), one.row.get("end"), one.row.get("verdict")) for one in (a, b)]
    found = compare((sides[0], a.events), (sides[1], b.events))
    return Compared(found, list(side_by_side(found, a.events, b.events)))


def _parted(compared: Compared | None) -> dict[str, int]:
    """Where each of the two left the other."""
    if compared is None or compared.found.first_divergence is None:
        return {}
    pair = compared.found.pairs[compared.found.first_divergence]
    return {key: place.version for key, place in (("a", pair.a), ("b", pair.b)) if place is not None}


@cache
def _template() -> Template:
    environment = Environment(
        autoescape=True, finalize=_finalize, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters["quoted"] = _quoted
    environment.filters["short"] = short
    return environment.from_string(_source("page.html"))


def _finalize(value: Any) -> Any:
    if value is None:
        return ""
    return visible(value, lines=True) if type(value) is str else value


def _quoted(text: str) -> tuple[int | None, str]:
    """The version that a comparison's cell begins with, and the rest of it."""
    head, _, rest = text.partition(" ")
    return (int(head[1:]), rest) if head[:1] == "@" and head[1:].isascii() and head[1:].isdigit() else (None, text)


def _policy(style: str, script: str) -> str:
    def digest(text: str) -> str:
        return f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'"

    return (
        f"default-src 'none'; img-src data:; style-src {digest(style)}; script-src {digest(script)}; "
        "base-uri 'none'; form-action 'none'"
    )


def _source(name: str) -> str:
    return files("eventlog.report").joinpath(name).read_text("utf-8")


def _chunks(pieces: Iterator[str]) -> Iterator[str]:
    """Few large pieces out of many small ones."""
    waiting: list[str] = []
    size = 0
    for piece in pieces:
        waiting.append(piece)
        size += len(piece)
        if size >= CHUNK:
            yield "".join(waiting)
            waiting, size = [], 0
    yield "".join(waiting)
