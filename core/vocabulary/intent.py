"""Prospective memory: what is to be done later. One state machine each."""

from __future__ import annotations

from typing import Annotated, ClassVar

from msgspec import Raw

from core.vocabulary.base import Open, Private, Provisional


class _Intent(Provisional, frozen=True):
    home: ClassVar[str] = "memory/9be01d4c338f2c9a75aa0f6d2b91e7c4"


class IntentScheduled(_Intent, frozen=True):
    """Something is to be done when a condition comes true."""

    intent: Annotated[str, Open("its id", "i-1")]
    what: Annotated[str, Private("what is to be done", "Remind me to call Ann")]
    condition: Annotated[Raw, Private("when", {"at": "2026-01-02T09:00:00Z"})]
    expires_at: Annotated[str | None, Open("RFC 3339")] = None


class IntentFired(_Intent, frozen=True):
    """The condition came true."""

    intent: Annotated[str, Open("which", "i-1")]
    episode: Annotated[str | None, Open("the episode it started")] = None


class IntentFulfilled(_Intent, frozen=True):
    """It was done."""

    intent: Annotated[str, Open("which", "i-1")]
    evidence: Annotated[list[str], Open("stream@version of what shows it")] = []


class IntentMissed(_Intent, frozen=True):
    """Its time passed without it."""

    intent: Annotated[str, Open("which", "i-1")]
    why: Annotated[str | None, Open("the reason")] = None


class IntentCancelled(_Intent, frozen=True):
    """It is not wanted any more."""

    intent: Annotated[str, Open("which", "i-1")]
    why: Annotated[str | None, Private("the reason")] = None
