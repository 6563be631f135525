"""Images that an ATIF file names by path: those that lie beside it come into the blob store with it.

A path counts only if it leads to a file in the trajectory's own folder or under it, and only if that
is an image: an imported file must not pull in whatever else its reader may read.
"""

from collections.abc import Iterator
from typing import Any

import msgspec
from msgspec import Raw
from msgspec.structs import replace

from core.errors import BadRecord
from core.vocabulary import BlobRef
from core.vocabulary.contract import Observation
from core.vocabulary.episode import FeedbackRecorded, MessageRecorded
from eventlog.interchange.atif.lint import beside, is_local
from eventlog.interchange.draft import Context, EventDraft
from eventlog.interchange.mapping.extras import extended
from eventlog.interchange.mapping.images import fault_of

_IMAGE = b'"image"'

_encode = msgspec.json.encode


def dressed(event: EventDraft, context: Context) -> tuple[EventDraft, list[str]]:
    """The event with the images it names stored as blobs, and what was not found."""
    payload = event.payload
    if isinstance(payload, MessageRecorded) and _IMAGE in bytes(payload.content):
        found, lost = _found(_paths(payload.content), context)
        if found:
            payload = replace(payload, extra=extended(payload.extra, images=Raw(_encode(found))))
        return replace(event, payload=payload), lost
    if isinstance(payload, FeedbackRecorded) and isinstance(payload.feedback, Observation):
        extra = payload.extra
        if isinstance(extra, Raw) and _IMAGE in bytes(extra):
            content = msgspec.json.decode(extra, type=dict[str, Raw]).get("content")
            found, lost = _found(_paths(content) if content is not None else (), context)
            seen = replace(payload.feedback, blobs=[*payload.feedback.blobs, *found.values()])
            return replace(event, payload=replace(payload, feedback=seen) if found else payload), lost
    return event, []


def _found(paths: Iterator[str] | tuple[()], context: Context) -> tuple[dict[str, BlobRef], list[str]]:
    found: dict[str, BlobRef] = {}
    lost: list[str] = []
    for path in paths:
        if not is_local(path) or context.folder is None:
            continue
        file = beside(context.folder, path)
        data = file.read_bytes() if file else None
        fault = "there is no such file" if data is None else fault_of(data)
        if data is not None and fault is None:
            found[path] = context.keep(data)
        elif data is not None and context.strict:
            raise BadRecord(f"the image {path[:80]!r} is {fault}", where=context.where)
        else:
            lost.append("an image that is none" if data is not None else "an image that is not beside the file")
    return found, lost


def _paths(content: Raw) -> Iterator[str]:
    """The paths of the image parts of a content."""
    parts: Any = msgspec.json.decode(content)
    for part in parts if isinstance(parts, list) else ():
        source = part.get("source") if isinstance(part, dict) and part.get("type") == "image" else None
        if isinstance(source, dict) and isinstance(source.get("path"), str):
            yield source["path"]
