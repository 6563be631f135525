"""A mounted environment as a backend: the contract over whatever carries the calls out.

A tool that hangs or ends its process is ended with it; the environment comes back by a reset and the
calls made before, whose state digest must be the one it had. That is what a snapshot is, too.
"""

from collections.abc import Iterable, Iterator
from typing import Protocol

from msgspec import Raw

from backends.contract import (
    EnvironmentLost,
    Evidence,
    Health,
    Manifest,
    Observed,
    ResetRefused,
    ResetSpec,
    Snapshot,
)
from backends.mounts.mount import Mount
from backends.mounts.process import Died, Late
from backends.replaying import Plan, Replayed, go_on
from backends.schemas import Schemas, refused
from core.errors import TrajlogError, UsageError
from core.vocabulary.base import UNSET
from core.vocabulary.contract import Action, ErrorClass, ExecError, Feedback, ToolCall
from core.vocabulary.episode import ToolSpec

Call = tuple[str, bytes]
"""A tool and its arguments as JSON on one line."""


class Engine(Protocol):
    """Carries calls out. Raises `Late` and `Died`; after either it has to be started again."""

    manifest: Manifest

    tools: list[ToolSpec] | None
    """Those that the episode has, if they are not all."""

    @property
    def mount(self) -> Mount: ...

    def start(self) -> None:
        """Start it, from whatever is left of it. `Unavailable`."""
        ...

    def stop(self) -> None: ...

    def reset(self, spec: ResetSpec) -> None:
        """A fresh copy of the state. `ResetRefused`."""
        ...

    def call(self, call: Call, deadline: float) -> Feedback: ...

    def digest(self) -> str | None:
        """Of the state now; None if it cannot be read."""
        ...

    def state(self) -> Raw: ...

    def replay(self, plans: Iterable[Plan], deadline: float) -> Iterator[Replayed | None]:
        """The results of plans in order; None for one that has to be run by itself."""
        ...

    def ping(self) -> None:
        """A round trip of a few seconds at most."""
        ...

    def printed(self) -> str:
        """The last that its tools printed."""
        ...


class Mounted:
    """One instance. Calls that do not fit their tool's schema do not reach it, but in a plan that is
    `verbatim`."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._schemas = Schemas(engine.manifest.tools)
        self._spec: ResetSpec | None = None
        self._made: list[Call] = []
        self._answered: dict[str, Feedback] = {}
        self._state: str | None = None
        self._snapshots: list[tuple[ResetSpec, list[Call]]] = []
        self._lost: str | None = None
        self._verbatim = False
        self._closed = False

    def describe(self) -> Manifest:
        return self._engine.manifest

    def reset(self, spec: ResetSpec) -> str | None:
        initial = spec.initial
        if initial.clock is not None or initial.perturbations is not UNSET:
            what = "clock" if initial.clock is not None else "perturbations"
            raise ResetRefused(f"a mounted environment has no {what} that could be set", where=self._where)
        self._open()
        self._verbatim = False
        return self._begin(spec)

    def execute(self, action: Action, deadline: float, idempotency_key: str) -> Feedback:
        if self._spec is None or self._closed:
            return refused("precondition", "it is closed" if self._closed else "there was no reset yet")
        if idempotency_key not in self._answered:
            self._answered[idempotency_key] = self._execute(action, deadline)
        return self._answered[idempotency_key]

    def observe(self) -> Observed:
        return Observed(state=None if self._lost else self._state, tools=self._engine.tools)

    def snapshot(self) -> Snapshot:
        if not self._engine.manifest.snapshots or self._spec is None:
            raise UsageError("no snapshot can be taken", where=self._where, mend="only of D0, after a reset")
        self._snapshots.append((self._spec, list(self._made)))
        return Snapshot(str(len(self._snapshots) - 1).encode(), self._state)

    def restore(self, snapshot: Snapshot) -> str | None:
        try:
            spec, made = self._snapshots[int(snapshot.token)]
        except (ValueError, IndexError):
            raise UsageError("no snapshot of this instance", where=self._where) from None
        self._return_to(spec, made, snapshot.state)
        return self._state

    def evidence(self) -> Evidence:
        if not self._engine.manifest.state or self._lost:
            return Evidence(state=Raw(b"null"), digest=None)
        try:
            return Evidence(state=self._engine.state(), digest=self._state)
        except (Died, Late, TrajlogError) as error:
            self._lost = self._lost or str(error) or "its state could not be read in time"
            return Evidence(state=Raw(b"null"), digest=None)

    def health(self) -> Health:
        if self._closed:
            return Health(False, "it is closed")
        if self._lost:
            return Health(False, self._lost)
        try:
            self._engine.ping()
        except (Died, Late, TrajlogError) as error:
            return Health(False, str(error) or "it does not answer")
        return Health(True)

    def close(self) -> None:
        self._closed = True
        self._engine.stop()

    def replay(self, plans: Iterable[Plan], deadline: float) -> Iterator[Replayed]:
        """The plans' results in order. Whatever goes wrong in one is found by running it by itself."""
        given: list[Plan] = []

        def kept() -> Iterator[Plan]:
            for plan in plans:
                given.append(plan)
                yield plan

        self._open()
        self._spec = None
        for found in self._engine.replay(kept(), min(deadline, self._engine.mount.deadline_s)):
            plan = given.pop(0)
            yield self._alone(plan, deadline) if found is None else found

    def printed(self) -> str:
        """The last that its tools printed."""
        return self._engine.printed()

    @property
    def mount(self) -> Mount:
        """What its file says."""
        return self._engine.mount

    @property
    def engine(self) -> Engine:
        return self._engine

    @property
    def _where(self) -> str:
        return f"environment {self._engine.manifest.environment}"

    def _open(self) -> None:
        if self._closed:
            raise EnvironmentLost("it is closed", where=self._where)

    def _alone(self, plan: Plan, deadline: float) -> Replayed:
        self._lost = self._lost or "its process was ended"
        try:
            begun = self._begin(plan.spec)
            self._verbatim = plan.verbatim
            return go_on(self, begun, plan, deadline)
        except ResetRefused as error:
            return Replayed([], [], refused=str(error))
        finally:
            self._spec, self._verbatim = None, False

    def _begin(self, spec: ResetSpec) -> str | None:
        """A reset, if need be of a new process."""
        self._spec, self._made, self._answered, self._state = None, [], {}, None
        for attempt in (1, 2):
            try:
                if self._lost or attempt == 2:
                    self._engine.start()
                    self._lost = None
                self._engine.reset(spec)
                self._state = self._engine.digest()
            except (Died, Late) as error:
                self._lost = f"its reset failed: {error}" if str(error) else "its reset took too long"
                continue
            self._spec = spec
            return self._state
        raise EnvironmentLost(str(self._lost), where=self._where, mend="trajlog env check says more")

    def _execute(self, action: Action, deadline: float) -> Feedback:
        if self._lost:
            return ExecError("transport_lost", False, "none", message=self._lost)
        if not isinstance(action, ToolCall):
            return refused("unknown_tool", f"there are tools here and no other way to act: {action.kind}")
        if action.args_text is not None:
            return refused("schema", "the arguments are no JSON")
        args = bytes(action.args)
        if not self._verbatim:
            refusal = self._schemas.refusal(action.tool, args)
            if refusal is not None:
                return refusal
        call = action.tool, on_one_line(args)
        try:
            found = self._engine.call(call, min(deadline, self._engine.mount.deadline_s))
        except Late:
            return self._recover("timeout", f"{action.tool} did not return within its deadline; it was ended")
        except Died as error:
            return self._recover("backend_bug", f"{action.tool} took its process down: {error}")
        self._made.append(call)
        self._state = self._engine.digest()
        return found

    def _recover(self, class_: ErrorClass, message: str) -> ExecError:
        """Back to before a call whose process is gone, if this is D0: what it did is undone with it."""
        spec, made, state, answered = self._spec, self._made, self._state, self._answered
        assert spec is not None
        try:
            if self._engine.manifest.determinism != "D0":
                raise EnvironmentLost(f"{message}; what it had done cannot be done again", where=self._where)
            self._lost = message
            self._return_to(spec, made, state)
        except TrajlogError as error:
            self._lost = str(error)
        self._spec, self._answered = spec, answered
        return ExecError(class_, False, "unknown", message=message)

    def _return_to(self, spec: ResetSpec, made: list[Call], state: str | None) -> None:
        """Reset and make those calls again. `EnvironmentLost` if that ends in another state."""
        self._begin(spec)
        try:
            for call in made:
                self._engine.call(call, self._engine.mount.deadline_s)
                self._made.append(call)
            self._state = self._engine.digest()
        except (Died, Late) as error:
            self._lost = f"calls made before do not end as they did: {error}"
        else:
            if self._state != state:
                self._lost = "the same calls ended in another state: it is not deterministic"
        if self._lost:
            raise EnvironmentLost(self._lost, where=self._where, mend='say determinism = "D2" in its mount file')


def on_one_line(data: bytes) -> bytes:
    """JSON without line breaks: they can only stand between its parts."""
    return data.replace(b"\n", b" ").replace(b"\r", b" ") if b"\n" in data or b"\r" in data else data
