"""Changes of the training set: proposed, decided by a person, then frozen into a release."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from core.vocabulary.base import UNSET, MaybeRaw, Open, Part, Provisional


class Change(Part, frozen=True):
    """One change."""

    change: Annotated[Literal["add", "drop", "reweight", "repair", "quarantine"], Open("what is done")]
    subject: Annotated[str, Open("episode, task or cell of the coverage tables", "capability/recovery")]
    weight: Annotated[float | None, Open("the new sampling weight")] = None
    why: Annotated[str | None, Open("in words")] = None


class ProposalMade(Provisional, frozen=True):
    """A bundle of changes waits for a decision."""

    home: ClassVar[str] = "proposal/p-1"

    changes: Annotated[list[Change], Open("what would change")]
    base: Annotated[str | None, Open("the release it starts from")] = None
    quality: Annotated[
        dict[str, float], Open("indicators: duplicates, self-generated share, coverage and the like")
    ] = {}
    sampling: Annotated[MaybeRaw, Open("the sampling configuration it leads to")] = UNSET


class ProposalDecided(Provisional, frozen=True):
    """A person decided."""

    home: ClassVar[str] = "proposal/p-1"

    decision: Annotated[Literal["approve", "revise", "reject"], Open("what was decided")]
    reviewer: Annotated[str, Open("opaque id of the person", "reviewer-2")]
    why: Annotated[str | None, Open("in words")] = None
