"""Checkpoints, their evaluation and what is deployed; the stream is `policy/<id>`."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from msgspec import Raw

from core.vocabulary.base import BlobRef, Open, Provisional, Split


class _Policy(Provisional, frozen=True):
    home: ClassVar[str] = "policy/planner-27b"


class TrainingStarted(_Policy, frozen=True):
    """A training run begins."""

    method: Annotated[Literal["sft", "care"], Open("what kind")]
    releases: Annotated[list[str], Open("release ids it learns from", ["0" * 64])]
    config: Annotated[Raw, Open("all settings", {"learning_rate": 1e-5})]
    base: Annotated[str | None, Open("the checkpoint it starts from")] = None
    world_size: Annotated[int | None, Open("processes")] = None


class CheckpointCommitted(_Policy, frozen=True):
    """A checkpoint is whole: written last, after all its files."""

    checkpoint: Annotated[str, Open("digest of its folder", "sha256:" + "0" * 64)]
    step: Annotated[int, Open("updates so far", 1200)]
    world_size: Annotated[int, Open("processes that can resume it", 1)]
    tokens: Annotated[int | None, Open("supervised or sampled so far")] = None
    files: Annotated[list[BlobRef], Open("what is in it")] = []
    metrics: Annotated[dict[str, float], Open("loss and the like")] = {}


class WeightsPublished(_Policy, frozen=True):
    """Rollout engines have these weights: the canary's log-probabilities say so."""

    version: Annotated[str, Open("of the weights", "step-1200")]
    checkpoint: Annotated[str, Open("which checkpoint", "sha256:" + "0" * 64)]
    canary: Annotated[float, Open("mean |Δ log-prob| against the trainer", 0.00004)]
    engines: Annotated[int, Open("how many took them", 1)]


class PublishFailed(_Policy, frozen=True):
    """An engine does not have the weights it was given."""

    version: Annotated[str, Open("of the weights", "step-1200")]
    reason: Annotated[str, Open("why", "canary_unmoved")]
    canary: Annotated[float | None, Open("mean |Δ log-prob| against the trainer")] = None


class PolicyEvaluated(_Policy, frozen=True):
    """A checkpoint was measured on a held-out set."""

    checkpoint: Annotated[str, Open("which", "sha256:" + "0" * 64)]
    split: Annotated[Split, Open("on what")]
    harness: Annotated[str | None, Open("version of the harness around it; null = none", "v3")]
    metrics: Annotated[dict[str, float], Open("success by capability and the like", {"success": 0.64})]
    valid: Annotated[float | None, Open("share of executions that were valid")] = None
    contaminated: Annotated[list[str], Open("releases that share a lineage with the set")] = []


class DeploymentChanged(Provisional, frozen=True):
    """What serves users changed."""

    home: ClassVar[str] = "deployment/production"

    change: Annotated[Literal["pin", "promote", "roll_back"], Open("what was done")]
    to: Annotated[str, Open("what serves now", "step-1200")]
    by: Annotated[str, Open("opaque id of who did it", "operator-1")]
    previous: Annotated[str | None, Open("what served before")] = None
    why: Annotated[str | None, Open("in words")] = None
    approval: Annotated[str | None, Open("stream@version of the review")] = None
