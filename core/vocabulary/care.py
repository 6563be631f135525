"""Configurations of CARE: proposed from aggregates by a model or a rule, checked, frozen between updates."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from core.vocabulary.base import Open, Part, Provisional


class _Policy(Provisional, frozen=True):
    home: ClassVar[str] = "policy/planner-27b"


class CareConfig(Part, frozen=True):
    """The four controlled parameters and what else a replay needs."""

    lambda_prog: Annotated[float, Open("weight of progress, at least 0", 0.3)]
    lambda_eff: Annotated[float, Open("weight of cost, at least 0", 0.1)]
    p_low: Annotated[float, Open("below it: progress shaping", 0.25)]
    p_high: Annotated[float, Open("from it on: efficiency refinement", 0.8)]
    epsilon: Annotated[float, Open("added to the divisor")] = 1e-6
    group_size: Annotated[int, Open("rollouts of a group")] = 8
    profile: Annotated[Literal["report", "guarded"], Open("literal, or with a floor for all-fail groups")] = "report"


class CareConfigProposed(_Policy, frozen=True):
    """A configuration for the next updates."""

    config_id: Annotated[str, Open("its id", "care-5")]
    config: Annotated[CareConfig, Open("the parameters")]
    source: Annotated[Literal["model", "rule", "human"], Open("who proposes")]
    update: Annotated[int, Open("after which update", 200)]
    aggregates: Annotated[dict[str, float], Open("all that the proposer saw")] = {}
    model_call: Annotated[str | None, Open("stream@version of the model's answer")] = None


class CareConfigAccepted(_Policy, frozen=True):
    """The configuration is in force."""

    config_id: Annotated[str, Open("which", "care-5")]
    from_update: Annotated[int, Open("from this update on", 200)]


class CareConfigRejected(_Policy, frozen=True):
    """The configuration is outside its ranges or steps, late or no configuration: the old one stays."""

    config_id: Annotated[str, Open("which", "care-5")]
    reason: Annotated[str, Open("why", "p_low_step_too_large")]
