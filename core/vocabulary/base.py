"""What every part of the vocabulary is made of.

A payload is a frozen struct; its class name is the event's `type`, its JSON the event's body. Every
field says what it means and whether it is open or private. Private is what a person said, typed or
saw: it is what gets sealed when an event has an owner. Where a field holds a struct, the marks of the
struct's own fields count. A reference to a blob is open: the blob itself is what is encrypted.

Defaults are left out of the JSON, so a default never changes within one schema number.
"""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from msgspec import UNSET, Meta, Raw, Struct, UnsetType

from core.upcast import Step, check_steps

__all__ = [
    "UNSET",
    "BlobRef",
    "MaybeRaw",
    "Open",
    "Part",
    "Payload",
    "Private",
    "Provisional",
    "Split",
    "Text",
    "Verdict",
]

MaybeRaw = Raw | UnsetType
"""JSON kept verbatim that may be absent: `UNSET` is absent, `Raw(b"null")` is a recorded null."""

Split = Literal["train", "dev", "audit", "final"]
"""What an episode or task may be used for; audit is seen by nobody who tunes. Set once per lineage."""

Verdict = Literal["pass", "fail", "inconclusive", "error", "vacuous"]
"""What a check or verification found; an empty check is `vacuous`, never a pass."""


def Open(meaning: str, example: object = ..., /) -> Meta:  # noqa: N802
    """Mark a field that lists, folds and reports may read without a key."""
    return _mark("open", meaning, example)


def Private(meaning: str, example: object = ..., /) -> Meta:  # noqa: N802
    """Mark a field that holds what a person said, typed or saw."""
    return _mark("private", meaning, example)


def _mark(visibility: str, meaning: str, example: object) -> Meta:
    return Meta(
        description=meaning,
        examples=None if example is ... else [example],
        extra={"visibility": visibility},
    )


class Part(Struct, frozen=True, omit_defaults=True):
    """A struct inside a payload. In a tagged union, `kind` is its tag."""

    @property
    def kind(self) -> str:
        return str(self.__struct_config__.tag)


class Payload(Struct, frozen=True, omit_defaults=True):
    """The payload of one type of event."""

    schema_number: ClassVar[int] = 1
    provisional: ClassVar[bool] = False
    home: ClassVar[str] = "episode/0192d3c4000070008000000000000001"
    """A stream of the kind it belongs in."""
    lifts: ClassVar[tuple[Step, ...]] = ()
    """How payloads of older schema numbers are read."""

    def __init_subclass__(cls) -> None:
        check_steps(cls.__name__, cls.schema_number, cls.lifts)


class Provisional(Payload, frozen=True):
    """A payload that nothing writes yet: it may still change."""

    provisional: ClassVar[bool] = True


class BlobRef(Part, frozen=True):
    """Bytes kept in the blob store, by their hash."""

    address: Annotated[str, Open("sha256: and 64 hex digits", "sha256:" + "0" * 64)]
    size: Annotated[int, Open("bytes", 1024)]
    media_type: Annotated[str, Open("as sniffed from the bytes", "image/png")]


Text = str | BlobRef
"""A text, or where it is kept once it is over 64 KB."""
