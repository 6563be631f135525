"""A small phone in memory: notes, alarms, a clock, notifications. Deterministic to the byte (D0).

It has twelve tools that depend on one another (do-not-disturb silences what rings while time passes),
its whole state can be read, and it brings five tasks with plans: `tasks.json` beside this file.
"""

from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Raw
from msgspec.structs import replace

from backends.contract import Evidence, Health, Manifest, Observed, ResetRefused, ResetSpec, Snapshot
from backends.phone import world
from backends.phone.tools import TOOLS, Refusal, Tool
from backends.phone.world import Perturbations, State
from backends.schemas import Schemas, canonical, digest, named, refused
from core.errors import UsageError
from core.vocabulary.contract import Action, ExecError, Feedback, Observation, ToolCall, ToolResult

TASKS = Path(__file__).with_name("tasks.json")


class Phone:
    """The `Backend`. `renamed`: tools under other names, on every reset; the environment is then another
    version."""

    def __init__(self, *, environment: str = "phone", renamed: dict[str, str] | None = None) -> None:
        self._renamed = renamed or {}
        tools = _under_names(self._renamed)
        self._manifest = Manifest(
            environment=environment,
            version=digest([_code(), sorted(self._renamed.items())]).removeprefix("sha256:")[:12],
            backend="sandbox",
            determinism="D0",
            tools=[tool.spec for tool in tools.values()],
            snapshots=True,
            state=True,
            reads=[name for name, tool in tools.items() if tool.reads],
        )
        self._state: State | None = None
        self._digest = ""
        self._how = Perturbations()
        self._tools: dict[str, Tool] = {}
        self._schemas = Schemas([])
        self._answered: dict[str, Feedback] = {}

    def describe(self) -> Manifest:
        return self._manifest

    def reset(self, spec: ResetSpec) -> str:
        state, how = world.begin(spec)
        unknown = (set(how.renamed) - set(TOOLS)) | (set(how.revoked) - {tool.app for tool in TOOLS.values()})
        if unknown:
            raise ResetRefused(f"the phone has no {sorted(unknown)[0]!r}", where="initial.perturbations")
        return self._become(state, how)

    def execute(self, action: Action, deadline: float, idempotency_key: str) -> Feedback:
        if self._state is None:
            return refused("precondition", "the phone was not reset")
        if idempotency_key not in self._answered:
            self._answered[idempotency_key] = self._execute(self._state, action)
        return self._answered[idempotency_key]

    def _execute(self, state: State, action: Action) -> Feedback:
        if not isinstance(action, ToolCall):
            return refused("unknown_tool", f"the phone takes tool calls, no {action.kind}")
        refusal = self._schemas.refusal(action.tool, action.args)
        if refusal is not None:
            return refusal
        tool = self._tools[action.tool]
        if tool.app in self._how.revoked:
            return refused("permission", f"the permission for {tool.app} was revoked")
        try:
            value = tool.run(state, msgspec.json.decode(action.args), self._how)
        except Refusal as why:
            return ExecError(why.class_, False, "none", message=why.message, clock=state["clock"])
        if not tool.reads:
            self._digest = digest(state)
        return ToolResult(Raw(msgspec.json.encode(value)), clock=state["clock"])

    def observe(self) -> Observed:
        if self._state is None:
            return Observed()
        unseen = sum(not one["silenced"] for one in self._state["notifications"])
        seen = Observation(app="home", text=f"{self._state['clock'][11:16]}, {unseen} notifications")
        tools = [tool.spec for tool in self._tools.values()] if self._how.renamed else None
        return Observed(state=self._digest, clock=self._state["clock"], seen=seen, tools=tools)

    def snapshot(self) -> Snapshot:
        if self._state is None:
            raise UsageError("nothing to keep: the phone was not reset", where=self._manifest.name)
        return Snapshot(msgspec.json.encode([self._state, self._how]), self._digest)

    def restore(self, snapshot: Snapshot) -> str:
        state, how = msgspec.json.decode(snapshot.token, type=tuple[dict[str, Any], Perturbations])
        return self._become(state, how)

    def evidence(self) -> Evidence:
        if self._state is None:
            return Evidence(state=Raw(b"null"), digest=None)
        return Evidence(state=Raw(canonical(self._state)), digest=self._digest)

    def health(self) -> Health:
        return Health(True)

    def close(self) -> None:
        self._state = None

    def _become(self, state: State, how: Perturbations) -> str:
        self._state = state
        self._how = how
        self._tools = _under_names(self._renamed | how.renamed)
        self._schemas = Schemas(tool.spec for tool in self._tools.values())
        self._schemas.check()  # what it takes to load them is no call's latency
        self._answered = {}
        self._digest = digest(state)
        return self._digest


def _under_names(renamed: dict[str, str]) -> dict[str, Tool]:
    """The tools, some of them under another name."""
    found = {}
    for name, tool in TOOLS.items():
        new = renamed.get(name, name)
        found[new] = tool if new == name else tool._replace(spec=named(replace(tool.spec, name=new)))
    return found


@cache
def _code() -> str:
    """Digest of the code that the feedback depends on."""
    found = sha256()
    for name in ("__init__.py", "tools.py", "world.py"):
        found.update(Path(__file__).with_name(name).read_bytes())
    return found.hexdigest()
