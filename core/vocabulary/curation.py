"""Whether a record is fit to learn from: kept apart from whether the task was done."""

from __future__ import annotations

from typing import Annotated, Literal

from core.vocabulary.base import Open, Payload, Private, Provisional
from core.vocabulary.diagnosis import FailureClass
from core.vocabulary.task import Capability


class TurnMarked(Payload, frozen=True):
    """A model turn is erroneous, so that it is not imitated; or it is not, after all."""

    step: Annotated[int, Open("the turn", 3)]
    erroneous: Annotated[bool, Open("masked in training", True)]
    source: Annotated[Literal["rule", "judge", "human"], Open("who says so")]
    recovery: Annotated[bool, Open("a verified recovery turn: supervised")] = False
    rule: Annotated[str | None, Open("the rule and its version")] = None
    why: Annotated[str | None, Private("in words")] = None


class EpisodeCurated(Provisional, frozen=True):
    """The record is fit to learn from, or not, or waits for a person."""

    decision: Annotated[Literal["keep", "drop", "review"], Open("what was decided")]
    reasons: Annotated[list[str], Open("rules that decided", ["evidence_checked@1"])]
    capabilities: Annotated[list[Capability], Open("what it shows")] = []
    attribution: Annotated[FailureClass | None, Open("why it failed")] = None
    duplicate_of: Annotated[str | None, Open("the episode it repeats")] = None
    similarity: Annotated[float | None, Open("to that one, 0 to 1")] = None
