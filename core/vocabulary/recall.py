"""What was recalled, cited and refused: in the episode's stream."""

from __future__ import annotations

from typing import Annotated

from core.vocabulary.base import Open, Part, Private, Provisional


class RecallItem(Part, frozen=True):
    """One memory that was served."""

    memory_id: Annotated[str, Open("its id", "m-17")]
    version: Annotated[int, Open("which version", 1)]
    rank: Annotated[int, Open("from 1", 1)]
    scores: Annotated[dict[str, float], Open("parts of its score")] = {}


class RecallServed(Provisional, frozen=True):
    """An answer of memory: what, in which order, and what was left out."""

    query: Annotated[str, Private("what was looked for", "seat preference")]
    as_of: Annotated[int, Open("position of the log it looked at", 12345)]
    ranker: Annotated[str, Open("name and version", "hybrid@1")]
    items: Annotated[list[RecallItem], Open("what was served, in order")] = []
    excluded: Annotated[dict[str, str], Open("memory@version and why it was left out")] = {}
    step: Annotated[int | None, Open("for which step")] = None
    degraded: Annotated[str | None, Open("why a simpler search was used")] = None


class MemoryCited(Provisional, frozen=True):
    """The planner named a memory as its source."""

    memory_id: Annotated[str, Open("its id", "m-17")]
    version: Annotated[int, Open("which version", 1)]
    step: Annotated[int, Open("in which step", 2)]
    argument: Annotated[str | None, Open("JSON path of the argument it supports")] = None


class AccessDenied(Provisional, frozen=True):
    """A read of memory was refused."""

    principal: Annotated[str, Open("who asked", "service/planner")]
    operation: Annotated[str, Open("what for", "search")]
    reason: Annotated[str, Open("why not", "not_owner")]
