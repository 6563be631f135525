"""Helps to look at what exporters write: episodes go out and come in again."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from atif import Trajectory

from core.event import StoredEvent
from core.vocabulary.contract import ToolCall
from core.vocabulary.episode import ActionSubmitted
from eventlog.interchange import EventDraft
from eventlog.interchange import find as importer
from eventlog.interchange.atif.lint import lint
from eventlog.interchange.draft import Context
from eventlog.interchange.export.exporter import Library, find
from eventlog.interchange.records import Record
from tests.eventlog.interchange.drafting import REAL, Imports, keep

Json = dict[str, Any]


def exported(format: str, events: Sequence[StoredEvent], library: Library | None = None) -> bytes:
    """The document of an episode."""
    name = events[0].stream.removeprefix("episode/")
    return find(format).document(name, list(events), library or Library())


def shelf(imports: Imports, **options: Any) -> Library:
    """What an exporter may look up in this log."""
    return Library(imports.blobs.get, events=lambda episode: list(imports.log.read(f"episode/{episode}")), **options)


def sent(imports: Imports, format: str, **options: Any) -> list[bytes]:
    """Every episode of the log, exported."""
    streams = [event.stream for event in imports.log.read_all() if event.type == "EpisodeStarted"]
    library = shelf(imports, **options)
    return [exported(format, list(imports.log.read(stream)), library) for stream in streams]


def taken(format: str, document: bytes, **context: Any) -> list[EventDraft]:
    """What the importer of a format makes of a document: the events of its first episode."""
    given = {"has": lambda _: True} | context
    record = Record("r", document, json.loads(document), len(document))
    return next(iter(importer(format).episodes(record, Context("r", "train", keep, **given)))).events


def as_told(events: Sequence[StoredEvent]) -> list[Any]:
    """Episodes' events without what their log alone gave them: types, payloads, times, actors."""
    return [_plain(event.type, json.loads(event.body), event) for event in events]


def as_drafted(events: Sequence[EventDraft]) -> list[Any]:
    from core.vocabulary import body

    return [_plain(type(event.payload).__name__, json.loads(body(event.payload)), event) for event in events]


def _plain(type_: str, body: Json, event: StoredEvent | EventDraft) -> Any:
    own = {"EpisodeStarted": "origin", "EpisodeEnded": "runs"}.get(type_)
    body = {name: value for name, value in body.items() if name != own}
    return type_, body, event.occurred_at, event.actor, event.conversation


def arguments(payloads: Sequence[Any]) -> list[bytes]:
    """The argument texts of the tool calls, to the byte."""
    actions = [payload.action for payload in payloads if isinstance(payload, ActionSubmitted)]
    return [bytes(action.args) for action in actions if isinstance(action, ToolCall)]


def sound(document: bytes) -> Json:
    """The trajectory, valid for the format's own models and without an error for our linter."""
    trajectory: Json = json.loads(document)
    Trajectory.model_validate(trajectory)
    assert [finding for finding in lint(trajectory) if finding.severity == "error"] == []
    return trajectory


def without_nulls(value: Any) -> Any:
    """JSON without the fields that are null or, of a flag, false: absent means the same."""
    if isinstance(value, dict):
        return {
            k: without_nulls(v) for k, v in value.items() if v is not None and (k, v) != ("is_copied_context", False)
        }
    return [without_nulls(item) for item in value] if isinstance(value, list) else value


def real_files(*folders: str) -> list[Any]:
    """The real files of these formats; one that skips where they are not here."""
    found: list[Any] = sorted(path for name in folders for path in REAL.glob(f"{name}/*"))
    return found or [pytest.param(None, marks=pytest.mark.skip(reason="the real files are not here"))]


def name_of(path: Path | None) -> str:
    return path.name if path else "none"


def again(folder: Path, imports: Imports, format: str) -> Imports:
    """Another log, into which every episode was imported that this one exports."""
    folder.mkdir()
    other = Imports(folder)
    report = other.take(b"\n".join(sent(imports, format)), "again.jsonl", format=format)
    assert report.rejected == []
    return other
