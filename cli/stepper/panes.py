"""What the lower half of the screen can say about an event: each kind of page as lines of text.

A line is a text as it was recorded, and a style. Blobs are read here, and what is missing is said.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Final, NamedTuple

from cli.stepper.uitree import tree_lines
from cli.stepper.walk import Walk
from core.errors import TrajlogError
from core.event import StoredEvent
from eventlog.blobs import BlobStore
from eventlog.comparison import Comparison
from eventlog.comparison.rows import rows
from eventlog.overlay import Drawn
from eventlog.picture import HEAD_BYTES, Size, raster
from eventlog.screens import Screen, screen_at
from eventlog.wording import unfolded

TREE_BYTES: Final = 4_000_000
"""Bytes of a UI tree that are read."""

SKETCH: Final = 14
"""Columns of the sketch of a screen."""

_MEMORY: Final = frozenset({"core.vocabulary.memory", "core.vocabulary.recall"})


class Said(NamedTuple):
    """A line of a page."""

    text: str
    style: str = ""


class Against(NamedTuple):
    """The episode compared with: how they differ, and its events."""

    episode: str
    found: Comparison
    events: list[StoredEvent]


def event(walk: Walk, index: int) -> Iterator[Said]:
    """Everything an event says."""
    line = walk.line(index)
    for check in line.checks:
        yield Said(f"✗ {check}", "red")
    for text in unfolded(walk.payload(index)):
        yield Said(text)


def raw(walk: Walk, index: int) -> Iterator[Said]:
    """An event as it is stored."""
    found = walk.events[index]
    from core.identity import uuid_text
    from core.times import to_text

    yield Said(f"position {found.position}  event {uuid_text(found.event_id)}  schema {found.schema}", "dim")
    yield Said(f"writer {found.writer}  actor {found.actor or '-'}  committed {to_text(found.committed_at)}", "dim")
    yield Said(found.body.decode())


def screen(walk: Walk, index: int, store: BlobStore) -> Iterator[Said]:
    """The screenshot that the event is about, and what was touched on it."""
    shown = _shown(walk, index)
    if shown is None:
        yield Said("no screen was recorded up to here")
        return
    yield Said(f"screen of @{shown.version}{f'  app {shown.app}' if shown.app else ''}", "bold")
    for flag in shown.flags:
        yield Said(f"!{flag}", "yellow")
    size = shown.size
    if shown.picture is None:
        yield Said("no picture was kept")
    else:
        address = str(shown.picture["address"])
        yield Said(f"{shown.picture['media_type']}  {shown.picture.get('size', 0):,} bytes  {address}")
        try:
            with store.open(address) as file:
                found = raster(file.read(HEAD_BYTES))
            size = found[1] if found else size
            yield Said(f"trajlog blob get {address} --out screen.png", "dim")
        except (TrajlogError, OSError) as error:
            yield _missing(error)
    if size is not None:
        yield Said(f"{size.width}×{size.height} pixels")
        yield from _touched(shown.drawn(_action(walk, index), size), size)


def _missing(error: Exception) -> Said:
    return Said(f"missing: {error.what if isinstance(error, TrajlogError) else error}", "red")


def _touched(drawn: Drawn, size: Size) -> Iterator[Said]:
    for mark in drawn.marks:
        to = "" if mark.to is None else f" to {mark.to[0]:.1%}, {mark.to[1]:.1%}"
        yield Said(f"{mark.text}: at {mark.at[0]:.1%}, {mark.at[1]:.1%} of the screen{to}")
    for note in drawn.notes:
        yield Said(note, "yellow")
    if drawn.marks:
        yield from _sketch(drawn, size)


def _sketch(drawn: Drawn, size: Size) -> Iterator[Said]:
    """Where on the screen, as a picture of characters (which are twice as high as wide)."""
    height = max(min(round(SKETCH * size.height / size.width / 2), SKETCH * 2), 3)
    cells = [[" "] * SKETCH for _ in range(height)]

    def put(at: tuple[float, float], character: str) -> None:
        x, y = (min(max(part, 0.0), 1.0) for part in at)
        cells[min(int(y * height), height - 1)][min(int(x * SKETCH), SKETCH - 1)] = character

    for mark in drawn.marks:
        if mark.to is not None:
            for part in range(1, 20):
                put(
                    (
                        mark.at[0] + (mark.to[0] - mark.at[0]) * part / 20,
                        mark.at[1] + (mark.to[1] - mark.at[1]) * part / 20,
                    ),
                    "·",
                )
            put(mark.to, "+")
        put(mark.at, "o" if mark.kind != "outside" else "·")
    yield Said(f"┌{'─' * SKETCH}┐", "dim")
    for cell in cells:
        yield Said(f"│{''.join(cell)}│", "dim")
    yield Said(f"└{'─' * SKETCH}┘", "dim")


def _shown(walk: Walk, index: int) -> Screen | None:
    return screen_at(walk.events, index)


def _action(walk: Walk, index: int) -> object:
    return walk.payload(index).get("action") if walk.events[index].type == "ActionSubmitted" else None


def tree(walk: Walk, index: int, store: BlobStore) -> Iterator[Said]:
    """The UI tree when the event happened."""
    shown = _shown(walk, index)
    while shown is not None and not shown.texts and shown.version > 1:
        shown = screen_at(walk.events, walk.index(shown.version) - 1) if walk.index(shown.version) else None
    if shown is None or not shown.texts:
        yield Said("no UI tree was recorded up to here")
        return
    for blob in shown.texts:
        yield Said(f"UI tree of @{shown.version}  {blob['media_type']}  {blob.get('size', 0):,} bytes", "bold")
        try:
            with store.open(str(blob["address"])) as file:
                data = file.read(TREE_BYTES + 1)
        except (TrajlogError, OSError) as error:
            yield _missing(error)
            continue
        for text in tree_lines(data[:TREE_BYTES].decode(errors="replace")):
            yield Said(text)
        if len(data) > TREE_BYTES:
            yield Said(f"… cut after {TREE_BYTES:,} bytes: trajlog blob get {blob['address']}", "yellow")


def memory(walk: Walk, index: int) -> Iterator[Said]:
    """What was read from, written to, or shown from memory up to the event."""
    found = [at for at in range(index + 1) if _is_memory(walk, at)]
    if not found:
        yield Said("no memory events up to here")
        return
    yield Said("memory up to here, the latest first", "bold")
    for at in reversed(found):
        yield Said(f"@{walk.events[at].version} {walk.line(at).action}", "bold")
        for text in unfolded(walk.payload(at), 1):
            yield Said(text)


def _is_memory(walk: Walk, index: int) -> bool:
    found = walk.events[index]
    if found.type == "ContextAssembled":
        return bool(walk.payload(index).get("memory"))
    if found.type == "ActionSubmitted":
        action = walk.payload(index).get("action")
        return isinstance(action, dict) and action.get("kind") in ("MemoryRead", "MemoryWrite")
    from core.vocabulary import TYPES

    known = TYPES.get(found.type)
    return known is not None and known.__module__ in _MEMORY


def comparison(walk: Walk, against: Against, width: int, cut: Callable[[str, int], str]) -> Iterator[tuple[Said, int]]:
    """The comparison side by side, each line with the version of our call that it belongs to (0: none)."""
    found = against.found
    differs = f"different: {', '.join(found.differs)}" if found.differs else "the same"
    yield Said(f"against {against.episode} ({found.b.verdict or 'unverified'}): {differs}", "bold"), 0
    yield Said(f"{found.shared:,} of {found.a.calls:,} calls are made there too"), 0
    half = max((width - 5) // 2, 8)
    ours = 0
    styles = {"~": "yellow", "!": "yellow", "-": "red", "+": "green"}
    for row in rows(found, walk.events, against.events, whole=True):
        if row.wide:
            yield Said(f"> {row.a}", "bold"), ours
            continue
        ours = _version(row.a) or ours
        yield Said(f"{row.mark} {cut(row.a, half)} │ {cut(row.b, half)}", styles.get(row.mark, "")), ours


def marks(against: Against) -> dict[int, str]:
    """How each of our calls compares: its version, and the mark of the comparison's row."""
    from eventlog.comparison.rows import MARKS

    return {pair.a.version: MARKS[pair.kind] for pair in against.found.pairs if pair.a is not None}


def _version(cell: str) -> int | None:
    """The version that a cell begins with."""
    head = cell.partition(" ")[0]
    return int(head[1:]) if head[:1] == "@" and head[1:].isascii() and head[1:].isdigit() else None


HELP: Final[tuple[str, ...]] = (
    "j k  ↓ ↑      next, previous event",
    "l h  → ←      next, previous step",
    "g G           first, last event",
    "PgDn PgUp     a page of events",
    "Space b  J K  scroll the lower half: a page, a line",
    "Enter         the lower half on the whole screen, and back",
    "d             compare with the closest episode of this task that passed",
    "s             the screenshot, and where it was touched; opens it on a desktop",
    "t             the UI tree",
    "r             the event as it is stored",
    "m             memory up to here",
    "/ n N         search; next, previous match",
    "Esc           back to what the event says",
    "q             quit",
    "",
    "✗ failed · ~ asked otherwise, ! answered otherwise, - only here (after d)",
)


def help_page() -> Iterable[Said]:
    return (Said(text) for text in HELP)
