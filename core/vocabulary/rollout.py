"""Rollouts for learning: groups of attempts at one task, and what became of them."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from core.vocabulary.base import Open, Part, Payload, Provisional


class _Group(Provisional, frozen=True):
    home: ClassVar[str] = "group/g-1"


class RolloutRequested(Payload, frozen=True):
    """A group of attempts is wanted."""

    home: ClassVar[str] = "group/g-1"

    task: Annotated[str, Open("the task's id", "message-ann")]
    policy_version: Annotated[str, Open("the weights that act", "step-1200")]
    rollouts: Annotated[int, Open("how many", 8)]
    config_id: Annotated[str | None, Open("the CARE configuration in force")] = None
    sampling: Annotated[dict[str, float], Open("sampling parameters")] = {}


class RolloutFinished(_Group, frozen=True):
    """One attempt is over."""

    rollout: Annotated[int, Open("which of the group", 0)]
    attempt: Annotated[int, Open("which try", 1)]
    episode: Annotated[str, Open("the episode", "0192d3c4000070008000000000000001")]
    policy_version: Annotated[str, Open("the weights that acted", "step-1200")]


class RolloutDiscarded(_Group, frozen=True):
    """An attempt does not count."""

    rollout: Annotated[int, Open("which of the group", 0)]
    attempt: Annotated[int, Open("which try", 1)]
    reason: Annotated[
        Literal["stale", "duplicate", "mixed_policy", "mixed_config", "unverified", "timed_out"], Open("why")
    ]


class Scored(Part, frozen=True):
    """Reward and advantage of one rollout."""

    rollout: Annotated[int, Open("which of the group", 0)]
    success: Annotated[int | None, Open("0 or 1 from the verifier; null = excluded", 1)]
    reward: Annotated[float | None, Open("R_i; null = excluded", 1.0)]
    advantage: Annotated[float, Open("A_i; 0 if excluded", 0.5)]
    progress: Annotated[float | None, Open("P_i, 0 to 1")] = None
    cost: Annotated[float | None, Open("e_i, 0 to 1")] = None


class GroupScored(_Group, frozen=True):
    """A group's advantages, under one configuration."""

    config_id: Annotated[str, Open("the CARE configuration", "care-5")]
    regime: Annotated[Literal["progress", "outcome", "efficiency"], Open("which of the three")]
    scored: Annotated[list[Scored], Open("one per rollout")]
    trained: Annotated[bool, Open("whether the group trains", True)]
    reason: Annotated[str | None, Open("why not, or why all advantages are 0")] = None
