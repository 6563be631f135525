"""Model calls outside an episode's own turns: their answers are events, so replay never calls a model."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Raw

from core.vocabulary.base import UNSET, BlobRef, MaybeRaw, Open, Private, Provisional
from core.vocabulary.episode import Usage


class ModelCalled(Provisional, frozen=True):
    """A model answered something other than the planner's turn."""

    purpose: Annotated[
        Literal[
            "extraction",
            "judgement",
            "simulation",
            "consolidation",
            "diagnosis",
            "control",
            "construction",
            "summary",
        ],
        Open("what for"),
    ]
    model: Annotated[str, Open("which model", "judge-7b")]
    prompt_digest: Annotated[str, Open("of the prompt")]
    output: Annotated[Raw, Private("the answer, verbatim", "pass")]
    prompt: Annotated[BlobRef | None, Open("the prompt")] = None
    sampling: Annotated[MaybeRaw, Open("sampling parameters")] = UNSET
    usage: Annotated[Usage | None, Open("tokens")] = None
    step: Annotated[int | None, Open("for which step")] = None
    valid: Annotated[bool, Open("whether the answer fitted its schema")] = True
