"""Frozen training sets; the stream is `release/<name>`."""

from __future__ import annotations

from typing import Annotated, ClassVar

from msgspec import Raw

from core.vocabulary.base import Open, Part, Payload, Provisional

_HOME = "release/sft-2026-01"


class Cut(Part, frozen=True):
    """A place in one log."""

    log_id: Annotated[str, Open("which log", "0192d3c4-0000-7000-8000-0000000000aa")]
    position: Annotated[int, Open("the last event in it", 12345)]
    root: Annotated[str, Open("of the tree at that position, hex", "0" * 64)]
    seal: Annotated[str | None, Open("of the last segment ending at or before it, hex")] = None
    offsets: Annotated[dict[str, int], Open("next offset per source partition, as topic id/partition")] = {}
    rows: Annotated[int, Open("how many rows it gave")] = 0


class Code(Part, frozen=True):
    """What made the rows."""

    trajlog: Annotated[str, Open("version", "0.4.0")]
    fold: Annotated[str, Open("SHA-256 of the view's source, hex", "0" * 64)]
    text: Annotated[str | None, Open("how messages were written, name@version", "chat@1")] = None


class ReleaseBuilt(Payload, frozen=True):
    """A set of rows, named by what it holds: the same inputs give the same id anywhere. It is a draft
    until somebody approves it."""

    home: ClassVar[str] = _HOME

    version: Annotated[int, Open("of this name, from 1", 1)]
    release_id: Annotated[str, Open("SHA-256 of its logical rows, recipe and fold, hex", "0" * 64)]
    cuts: Annotated[list[Cut], Open("one per log")]
    view: Annotated[str, Open("projection name@version", "sft_row@1")]
    recipe: Annotated[Raw, Open("how rows were chosen", {"seed": 7})]
    seed: Annotated[int, Open("of the order", 7)]
    rows: Annotated[int, Open("how many", 1000)]
    shards: Annotated[int, Open("how many files hold them", 1)]
    files_digest: Annotated[str, Open("SHA-256 of the list of files and their digests, hex", "0" * 64)]
    code: Annotated[Code, Open("what made it")]
    upcasters: Annotated[dict[str, int], Open("schema number of each type the fold read")] = {}
    exclusions: Annotated[dict[str, int], Open("what was left out, by reason")] = {}
    origins: Annotated[dict[str, int], Open("rows by who acted: human, scripted, model/generation")] = {}
    voids: Annotated[dict[str, int], Open("rows of earlier versions that are no longer what they were")] = {}
    measures: Annotated[Raw, Open("what was measured of the guards, such as the near-duplicate threshold", {})] = Raw(
        b"{}"
    )


class ReleaseApproved(Payload, frozen=True):
    """Somebody looked at a release: it may be trained on."""

    home: ClassVar[str] = _HOME

    version: Annotated[int, Open("which", 1)]
    release_id: Annotated[str, Open("what it holds", "0" * 64)]
    by: Annotated[str, Open("opaque id of who approved", "reviewer-2")]
    why: Annotated[str, Open("in words", "Looked at 50 rows; balanced by app.")]


class ReleaseRejected(Payload, frozen=True):
    """Somebody looked at a release: it may not be trained on, from now on."""

    home: ClassVar[str] = _HOME

    version: Annotated[int, Open("which", 1)]
    release_id: Annotated[str, Open("what it holds", "0" * 64)]
    by: Annotated[str, Open("opaque id of who rejected", "reviewer-2")]
    why: Annotated[str, Open("in words", "A tool of the test bench leaks into the goals.")]


class ReleaseFlagged(Provisional, frozen=True):
    """Something in the release was erased, retracted or found tainted since."""

    home: ClassVar[str] = _HOME

    release_id: Annotated[str, Open("which", "0" * 64)]
    reason: Annotated[str, Open("why", "owner_erased")]
    rows: Annotated[int | None, Open("how many rows are concerned")] = None
