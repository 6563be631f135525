"""Frozen training sets; the stream is `release/<name>`."""

from __future__ import annotations

from typing import Annotated, ClassVar

from msgspec import Raw

from core.vocabulary.base import BlobRef, Open, Part, Provisional


class _Release(Provisional, frozen=True):
    home: ClassVar[str] = "release/sft-2026-01"


class Cut(Part, frozen=True):
    """A place in one log."""

    log_id: Annotated[str, Open("which log", "0192d3c4-0000-7000-8000-0000000000aa")]
    position: Annotated[int, Open("the last event in it", 12345)]
    root: Annotated[str, Open("of the tree at that position, hex", "0" * 64)]
    seal: Annotated[str | None, Open("of the last segment ending at or before it, hex")] = None
    offsets: Annotated[dict[str, int], Open("next offset per source partition")] = {}


class ReleaseFrozen(_Release, frozen=True):
    """A set of rows, named by what it holds: the same inputs give the same id anywhere."""

    release_id: Annotated[str, Open("SHA-256 of its logical rows, recipe and fold, hex", "0" * 64)]
    cuts: Annotated[list[Cut], Open("one per log")]
    view: Annotated[str, Open("projection name@version", "sft_row@1")]
    recipe: Annotated[Raw, Open("how rows were chosen", {"max_tokens": 8192})]
    seed: Annotated[int, Open("of the order", 0)]
    rows: Annotated[int, Open("how many", 1000)]
    upcasters: Annotated[dict[str, int], Open("schema number of each type the fold read")] = {}
    shards: Annotated[list[BlobRef], Open("in order")] = []
    counts: Annotated[dict[str, int], Open("by capability, source and the like")] = {}
    exclusions: Annotated[dict[str, int], Open("what was left out, by reason")] = {}
    proposals: Annotated[list[str], Open("stream@version of the approvals")] = []


class ReleaseFlagged(_Release, frozen=True):
    """Something in the release was erased, retracted or found tainted since."""

    release_id: Annotated[str, Open("which", "0" * 64)]
    reason: Annotated[str, Open("why", "owner_erased")]
    rows: Annotated[int | None, Open("how many rows are concerned")] = None
