"""Environments and their leases; the stream is `environment/<id>`.

provisioning → resetting → ready → leased → draining → resetting, quarantined or destroyed. A lease is
a fencing token with a time to live: an action with an older token is refused. A reset always precedes
reuse.
"""

from __future__ import annotations

from typing import Annotated, ClassVar

from msgspec import Raw

from core.vocabulary.base import Open, Provisional


class _Environment(Provisional, frozen=True):
    home: ClassVar[str] = "environment/sandbox-1"


class EnvironmentProvisioned(_Environment, frozen=True):
    """An instance exists."""

    backend: Annotated[str, Open("of which kind", "sandbox")]
    manifest: Annotated[Raw, Open("the backend's description of itself", {"determinism": "D0"})]


class ResetStarted(_Environment, frozen=True):
    """The instance is being brought to a task's initial conditions."""

    task: Annotated[str | None, Open("which task's; null = the empty state")] = None


class ResetVerified(_Environment, frozen=True):
    """The instance is ready: its state was read back."""

    digest: Annotated[str, Open("of the state")]
    task: Annotated[str | None, Open("whose initial conditions it has")] = None


class ResetFailed(_Environment, frozen=True):
    """The instance could not be reset."""

    why: Annotated[str, Open("what went wrong", "state digest differs")]
    failures: Annotated[int, Open("in a row", 1)]


class LeaseGranted(_Environment, frozen=True):
    """The instance belongs to one holder for a while."""

    token: Annotated[int, Open("fencing token, rising", 7)]
    holder: Annotated[str, Open("who holds it", "worker-3")]
    ttl_s: Annotated[float, Open("until it must be renewed", 30.0)]
    episode: Annotated[str | None, Open("for which episode")] = None


class LeaseRenewed(_Environment, frozen=True):
    """Its holder is alive."""

    token: Annotated[int, Open("which lease", 7)]
    ttl_s: Annotated[float, Open("until it must be renewed again", 30.0)]


class LeaseReleased(_Environment, frozen=True):
    """Its holder gave it back."""

    token: Annotated[int, Open("which lease", 7)]


class LeaseExpired(_Environment, frozen=True):
    """Its holder did not renew it in time."""

    token: Annotated[int, Open("which lease", 7)]


class LateActionRefused(_Environment, frozen=True):
    """An action came with a token that no longer holds."""

    token: Annotated[int, Open("the old token", 6)]
    current: Annotated[int, Open("the one that holds", 7)]
    episode: Annotated[str | None, Open("whose action it was")] = None


class EnvironmentDrained(_Environment, frozen=True):
    """No new lease until the next reset."""

    why: Annotated[str | None, Open("the reason")] = None


class EnvironmentQuarantined(_Environment, frozen=True):
    """The instance failed its resets and is kept aside."""

    why: Annotated[str, Open("the reason", "three resets failed")]


class EnvironmentDestroyed(_Environment, frozen=True):
    """The instance is gone."""

    why: Annotated[str | None, Open("the reason")] = None
