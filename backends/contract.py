"""The interface of everything that actions run in: sandbox, mounted, simulated, device.

One episode is `reset` → (`execute` | `observe`)… → `evidence`. Silent success is what the contract
rules out: whatever goes wrong is a typed feedback, and a state that cannot be read has no digest.
Every backend passes the suite of `backends/testing.py`.
"""

from collections.abc import Callable
from typing import Literal, NamedTuple, Protocol

import msgspec
from msgspec import Raw

from core.errors import TrajlogError, Unavailable
from core.vocabulary.contract import Action, Feedback, Observation
from core.vocabulary.episode import ToolSpec
from core.vocabulary.task import InitialConditions, TaskSpec

Determinism = Literal[
    "D0",  # byte-reproducible: same reset, same actions, same feedback and states
    "D1",  # reproducible from its recorded tape
    "D2",  # live: it may differ every time
]

Reach = Literal[
    "net",  # it calls a service of the world outside
    "device",  # it touches a real device
    "host",  # it touches this machine's files or processes
]


class ResetRefused(TrajlogError):
    """The initial conditions are none that this environment can have."""


class EnvironmentLost(Unavailable):
    """The environment is gone and no reset brought it back."""


class Manifest(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a backend says of itself. `environment` is its name, `version` the digest of all that its
    feedback depends on: code, tool schemas, data."""

    environment: str
    version: str
    backend: str
    """Which kind: sandbox, mount, simulated, device."""
    determinism: Determinism
    tools: list[ToolSpec] = []
    """With the digest of each one's schema (`schema_digest` of core.vocabulary's ToolSpec)."""
    snapshots: bool = False
    """Whether `snapshot` and `restore` work."""
    state: bool = False
    """Whether the state can be read: `observe().state` and `evidence()`."""
    reads: list[str] = []
    """Tools that change nothing."""
    open_world: dict[str, list[Reach]] = {}
    """Tools that reach outside the environment, and where: kept out of claims about replay."""
    versions: dict[str, str] = {}
    cost_rates: dict[str, float] = {}
    """Price of an action by tool; `currency` is in `versions`."""

    @property
    def name(self) -> str:
        """`phone@3f2a…`: the environment and its version, as episodes record it."""
        return f"{self.environment}@{self.version}"


class ResetSpec(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What an episode starts from."""

    task: str | None = None
    initial: InitialConditions = InitialConditions()
    seeds: dict[str, int] = {}

    @classmethod
    def of(cls, task: str, spec: TaskSpec, seeds: dict[str, int] | None = None) -> "ResetSpec":
        return cls(task=task, initial=spec.initial, seeds=seeds or {})


class Observed(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What can be seen now, nothing changed by looking. `state`: digest of the whole state, None if it
    cannot be read; `clock`: the environment's time, RFC 3339; `seen`: what a user would see, if anything;
    `tools`: those that can be called now, where they are not the manifest's."""

    state: str | None = None
    clock: str | None = None
    seen: Observation | None = None
    tools: list[ToolSpec] | None = None


class Evidence(msgspec.Struct, frozen=True, kw_only=True):
    """What the verifier reads and the planner never sees: the whole state as JSON, and its digest.
    A state that cannot be read is null and has no digest."""

    state: Raw
    digest: str | None


class Snapshot(msgspec.Struct, frozen=True):
    """A state to come back to: valid for the instance that made it until it is closed, any number of
    times. `token` is the backend's own; `state` the digest that a restore must reach again."""

    token: bytes
    state: str | None


class Health(NamedTuple):
    """`why` is empty when it is well."""

    ok: bool
    why: str = ""


class Backend(Protocol):
    """One instance of an environment, used by one episode at a time, from one thread at a time."""

    def describe(self) -> Manifest:
        """The same for the life of the instance; needs no reset."""
        ...

    def reset(self, spec: ResetSpec) -> str | None:
        """A fresh copy in its initial conditions. Returns the digest of the state that was read back,
        None only if the manifest has no `state`. `ResetRefused` for conditions it cannot have,
        `EnvironmentLost` if it could not be brought there. Needed before anything below."""
        ...

    def execute(self, action: Action, deadline: float, idempotency_key: str) -> Feedback:
        """Carry an action out, within `deadline` seconds, and say what came back.

        Never raises for what goes wrong with the action: unknown tools, arguments that do not fit,
        time-outs, crashes are `ExecError`s that say whether anything was changed (`effect`). A key that
        was answered since the last reset is answered the same again, and nothing is executed twice.
        """
        ...

    def observe(self) -> Observed:
        """The state now. Cheap: asked before and after every action."""
        ...

    def snapshot(self) -> Snapshot:
        """Only if the manifest says `snapshots`, else `UsageError`."""
        ...

    def restore(self, snapshot: Snapshot) -> str | None:
        """Back to that state; returns the digest that was read back. Answered keys are forgotten."""
        ...

    def evidence(self) -> Evidence:
        """The state, for the verifier alone."""
        ...

    def health(self) -> Health:
        """A round trip to wherever actions run; never raises, never longer than a few seconds."""
        ...

    def close(self) -> None:
        """Release everything. May be called twice, and at any time."""
        ...


Make = Callable[[], Backend]
"""Makes a new instance of an environment."""
