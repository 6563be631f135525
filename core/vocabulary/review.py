"""What people decide and say: reviews of anything, and users' feedback."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from core.vocabulary.base import UNSET, MaybeRaw, Open, Private, Provisional

ReviewReason = Literal[
    "low_confidence",
    "conflicting",
    "safety_sensitive",
    "short_of_evidence",
    "release_critical",
    "sharing",
    "sample",
]


class ReviewRequested(Provisional, frozen=True):
    """Something waits for a person."""

    home: ClassVar[str] = "review/r-1"

    subject: Annotated[str, Open("stream or stream@version", "episode/0192d3c4000070008000000000000001@40")]
    reason: Annotated[ReviewReason, Open("why a person")]
    question: Annotated[str | None, Private("what is to be decided")] = None


class ReviewDecided(Provisional, frozen=True):
    """The person decided."""

    home: ClassVar[str] = "review/r-1"

    decision: Annotated[Literal["approve", "amend", "reject", "quarantine"], Open("what was decided")]
    reviewer: Annotated[str, Open("opaque id of the person", "reviewer-2")]
    why: Annotated[str | None, Private("in words")] = None
    amendment: Annotated[MaybeRaw, Private("what it should be instead")] = UNSET


class UserFeedback(Provisional, frozen=True):
    """What the user thought of it."""

    rating: Annotated[Literal["good", "bad"] | None, Open("thumb up or down", "good")]
    text: Annotated[str | None, Private("in the user's words")] = None
    target: Annotated[int | None, Open("version of the event it is about")] = None
