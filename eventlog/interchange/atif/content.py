"""Messages and observations as ATIF has them: a text, or parts of text and of images named by path."""

from typing import Any

import msgspec
from msgspec import Raw

from core.vocabulary import BlobRef
from core.vocabulary.base import MaybeRaw
from core.vocabulary.contract import Feedback, Observation, ToolResult
from eventlog.interchange.atif.schema import IMAGES, part_fault
from eventlog.interchange.export.exporter import Library
from eventlog.interchange.mapping import feedback_text
from eventlog.interchange.mapping.images import is_data_url
from eventlog.interchange.whole import is_text, reference

Json = dict[str, Any]

_ENDINGS = {
    ".png": "image/png",
    ".jpg": "image/jpeg",
    ".jpeg": "image/jpeg",
    ".gif": "image/gif",
    ".webp": "image/webp",
}


def message(content: Raw, extra: MaybeRaw, library: Library) -> Raw | list[Json] | str:
    """A message's content: a text stays as it is; of a list, the parts that ATIF has too."""
    if bytes(content).startswith(b'"'):
        return content
    parts = _parts(msgspec.json.decode(content), _images(extra), library)
    return parts if parts else ""


def observation(feedback: Feedback, extra: MaybeRaw, library: Library) -> list[Json] | str | None:
    """What came back: a text, or parts where there was something to see."""
    if isinstance(feedback, Observation) and feedback.blobs:
        content = _field(extra, "content")
        paths = [part["source"]["path"] for part in _sound(content) if part["type"] == "image"]
        if len(paths) == len(feedback.blobs):
            return _parts(content, dict(zip(paths, feedback.blobs, strict=True)), library)
        text = feedback_text.text_of(feedback)
        shown = [part for blob in feedback.blobs if (part := _seen(blob, library)) is not None]
        return [*([] if text is None else [{"type": "text", "text": text}]), *shown] if shown else text
    if isinstance(feedback, Observation):
        parts = _parts(_field(extra, "content"), {}, library)
        return parts or feedback_text.text_of(feedback)
    if isinstance(feedback, ToolResult) and bytes(feedback.value).startswith(b"["):
        value = msgspec.json.decode(feedback.value)
        if value and len(_sound(value)) == len(value):
            return _parts(value, {}, library)
    return feedback_text.text_of(feedback)


def _parts(value: Any, images: dict[str, BlobRef], library: Library) -> list[Json]:
    """The parts of a list that ATIF can hold; images that are at hand are put where `library` says."""
    found = []
    for part in value if isinstance(value, list) else ():
        made = part if part_fault(part) is None else _converted(part, library)
        if made is not None and made["type"] == "image" and made["source"]["path"] in images:
            path = library.image(images[made["source"]["path"]])
            made = made if path is None else {"type": "image", "source": made["source"] | {"path": path}}
        if made is not None:
            found.append(made)
    return found


def _sound(value: Any) -> list[Json]:
    return [part for part in value if part_fault(part) is None] if isinstance(value, list) else []


def _converted(part: Any, library: Library) -> Json | None:
    """A part of another format's: an image by its URL or blob, or what has a text."""
    if not isinstance(part, dict):
        return None
    image = part.get("image_url", part.get("image", part.get("source")))
    target = image.get("url", image.get("data")) if isinstance(image, dict) and "address" not in image else image
    blob = reference(target)
    if blob is not None:
        return _seen(blob, library)
    if isinstance(target, str):
        kind = target[5:].partition(";")[0].lower() if is_data_url(target) else _kind(target)
        if kind in IMAGES:
            return {"type": "image", "source": {"media_type": kind, "path": target}}
    text = part.get("text")
    return {"type": "text", "text": text} if isinstance(text, str) else None


def _seen(blob: BlobRef, library: Library) -> Json | None:
    """What was seen, as a part: an image by its path, a UI tree by its text."""
    if blob.media_type in IMAGES:
        path = library.image(blob) or blob.address
        return {"type": "image", "source": {"media_type": blob.media_type, "path": path}}
    data = library.fetch(blob.address) if is_text(blob) else None
    try:
        return None if data is None else {"type": "text", "text": data.decode()}
    except UnicodeDecodeError:
        return None


def _kind(path: str) -> str | None:
    name = path.partition("?")[0].lower()
    return next((kind for ending, kind in _ENDINGS.items() if name.endswith(ending)), None)


def _images(extra: MaybeRaw) -> dict[str, BlobRef]:
    held = _field(extra, "images")
    found: dict[str, BlobRef] = {}
    for path, value in held.items() if isinstance(held, dict) else ():
        blob = reference(value)
        if blob is not None:
            found[path] = blob
    return found


def _field(extra: MaybeRaw, name: str) -> Any:
    value = msgspec.json.decode(extra) if isinstance(extra, Raw) else None
    return value.get(name) if isinstance(value, dict) else None
