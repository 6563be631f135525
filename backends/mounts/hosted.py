"""Python tools in a host process: its requests and replies, and the plans it is given in one go."""

import json
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
from msgspec import UNSET, Raw, UnsetType

from backends.contract import Manifest, ResetRefused, ResetSpec
from backends.mounts import mount as mounts
from backends.mounts.mount import Bfcl, Python
from backends.mounts.mounted import Call, on_one_line
from backends.mounts.process import Died, Late, Process, environ
from backends.mounts.tools import Specs, manifest
from backends.replaying import Plan, Replayed
from backends.schemas import Schemas, refused
from core.errors import Unavailable
from core.vocabulary.contract import Effect, ErrorClass, ExecError, Feedback, ToolCall, ToolResult
from core.vocabulary.episode import ToolSpec

AHEAD_BYTES = 1 << 20
AHEAD_PLANS = 16
"""How much is sent before the first reply to it is read."""

PATIENCE_S = 10.0
"""What may pass in a plan without a reply, besides a tool's deadline; what takes longer is run by itself."""


class _Failure(msgspec.Struct, gc=False):
    class_: ErrorClass = msgspec.field(name="class")
    message: str
    retryable: bool = False
    effect: Effect = "unknown"


class _Reply(msgspec.Struct, gc=False):
    value: Raw | UnsetType = UNSET
    error: _Failure | None = None
    digest: str | None = None
    failed: str | None = None
    state: Raw | UnsetType = UNSET


class _Tool(msgspec.Struct):
    name: str
    parameters: Raw
    description: str | None = None
    order: list[str] = []
    owner: str | None = None


class _Named(msgspec.Struct):
    objects: dict[str, Raw] = {}


class Loaded(msgspec.Struct):
    """What the host says of a mount: tools, code files by their place, folders of the packages in it."""

    tools: list[_Tool]
    files: dict[str, str]
    roots: dict[str, str]
    python: str
    readable: bool
    parameters: list[str]


_reply = msgspec.json.Decoder(_Reply).decode
_encode = msgspec.json.encode


class _Sent(NamedTuple):
    """A plan under way: what is known already, by its place, and how many replies are to come."""

    plan: Plan
    known: dict[int, Feedback]
    states: bool
    fork: bool


class Hosted:
    """The engine of Python mounts. Its process runs when it is made. `Unavailable` in one line."""

    def __init__(self, mount: Python | Bfcl, given: dict[str, Any], specs: Specs) -> None:
        self.mount = mount
        self.initial: Callable[[ResetSpec], ResetSpec] = lambda spec: spec
        """What a task's episodes begin with, where the mount knows it by the task's name."""
        self._given = given
        self._forks = given.get("fresh") == "fork"
        self._working = False
        self.tools: list[ToolSpec] | None = None
        self._digest: str | None = None
        self._process: Process | None = None
        self.start()
        self.manifest: Manifest = manifest(mount, self.loaded, specs(self.loaded))
        self._schemas = Schemas(self.manifest.tools)

    def start(self) -> None:
        self.stop()
        where = f"mount {self.mount.name}"
        python = mounts.interpreter(self.mount)
        env = environ(mounts.variables(self.mount, self.mount.env))
        self._process = Process(python, environ=env, folder=self.mount.folder, where=where)
        self._working = False
        self._process.send(json.dumps({"op": "load", **self._given}).encode() + b"\n")
        try:
            reply = self._process.reply(self.mount.start_s)
        except Late:
            self.stop()
            raise Unavailable(f"its tools took longer than {self.mount.start_s:g} s to load", where=where) from None
        except Died as error:
            said = self._process.log.last_line()
            self.stop()
            raise Unavailable(f"{error} while its tools were loaded{said}", where=where) from None
        failed = _reply(reply).failed
        if failed is not None:
            self.stop()
            raise Unavailable(failed, where=where)
        self.loaded = msgspec.json.decode(reply, type=Loaded)

    def stop(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process = None

    def reset(self, spec: ResetSpec) -> None:
        process = self._running()
        if self._forks and self._working:
            process.send(b'{"op":"end"}\n')
            process.reply(self.mount.start_s)
        self._working = True
        spec = self.initial(spec)
        self.tools = self._tools(spec)
        request = _reset(spec)
        process.send(request + b'{"op":"digest"}\n' if self.manifest.state else request)
        begun = _reply(process.reply(self.mount.start_s))
        read = _reply(process.reply(self.mount.start_s)) if self.manifest.state else None
        if begun.failed is not None:
            raise ResetRefused(begun.failed, where=f"environment {self.mount.name}")
        self._digest = self._read(read)

    def call(self, call: Call, deadline: float) -> Feedback:
        process = self._running()
        requests = _call(*call)
        process.send(requests + b'{"op":"digest"}\n' if self.manifest.state else requests)
        found = _feedback(_reply(process.reply(deadline)))
        self._digest = self._read(_reply(process.reply(self.mount.start_s)) if self.manifest.state else None)
        return found

    def digest(self) -> str | None:
        self._running()
        return self._digest

    def state(self) -> Raw:
        process = self._running()
        process.send(b'{"op":"state"}\n')
        found = _reply(process.reply(self.mount.start_s))
        if found.failed is not None or found.state is UNSET:
            raise Unavailable(f"its state cannot be read: {found.failed}", where=f"environment {self.mount.name}")
        return Raw(bytes(found.state))

    def ping(self) -> None:
        process = self._running()
        process.send(b'{"op":"ping"}\n')
        process.reply(5.0)

    def printed(self) -> str:
        return "" if self._process is None else self._process.log.text()

    def replay(self, plans: Iterable[Plan], deadline: float) -> Iterator[Replayed | None]:
        """Plans are sent ahead of the replies to those before, so that neither side waits. If the process
        ends, or a deadline passes, the plan at fault comes back as None and those after it are sent again."""
        source = iter(plans)
        again: deque[Plan] = deque()
        sent: deque[_Sent] = deque()
        ahead = 0
        ended = False
        if self._forks and self._working:
            self._end()
        while True:
            while not ended and len(sent) < (1 if self._forks else AHEAD_PLANS) and ahead < AHEAD_BYTES:
                plan = again.popleft() if again else next(source, None)
                if plan is None:
                    ended = True
                    break
                ahead += self._submit(plan, sent)
            if not sent:
                self._working = False
                return
            try:
                found = self._collect(sent[0], deadline)
            except (Died, Late):
                again.extendleft(reversed([one.plan for one in list(sent)[1:]]))
                sent.clear()
                ended, ahead = False, 0
                yield None
                if self._forks and self._working:
                    self._end()
                continue
            sent.popleft()
            if not sent:
                ahead = 0
            yield found

    def _submit(self, plan: Plan, sent: deque[_Sent]) -> int:
        known: dict[int, Feedback] = {}
        states = plan.states and self.manifest.state
        requests = [_reset(self.initial(plan.spec))]
        read = b'{"op":"digest"}\n'
        if states:
            requests.append(read)
        for place, action in enumerate(plan.actions):
            if not isinstance(action, ToolCall):
                known[place] = refused("unknown_tool", f"there are tools here and no other way to act: {action.kind}")
            elif action.args_text is not None:
                known[place] = refused("schema", "the arguments are no JSON")
            else:
                args = bytes(action.args)
                refusal = None if plan.verbatim else self._schemas.refusal(action.tool, args)
                if refusal is None:
                    requests.append(_call(action.tool, on_one_line(args)))
                    if states:
                        requests.append(read)
                else:
                    known[place] = refusal
        if self._forks:
            requests.append(b'{"op":"end"}\n')
        sent.append(_Sent(plan, known, states, self._forks))
        data = b"".join(requests)
        self._running().send(data)
        return len(data)

    def _collect(self, sent: _Sent, deadline: float) -> Replayed:
        process = self._running()
        patience = max(deadline, PATIENCE_S)
        begun = _reply(process.reply(patience))
        state = self._read(_reply(process.reply(patience))) if sent.states else None
        found: list[Feedback] = []
        states = [] if state is None else [state]
        for place in range(len(sent.plan.actions)):
            known = sent.known.get(place)
            if known is None:
                found.append(_feedback(_reply(process.reply(deadline))))
                if sent.states:
                    state = self._read(_reply(process.reply(patience)))
            else:
                found.append(known)
            if state is not None:
                states.append(state)
        if sent.fork:
            process.reply(patience)
        if begun.failed is not None:
            return Replayed([], [], refused=begun.failed)
        return Replayed(found, states)

    def _tools(self, spec: ResetSpec) -> list[ToolSpec] | None:
        """Those of the objects that an episode has, where its initial conditions name some."""
        if spec.initial.state is UNSET or not self._given.get("objects"):
            return None
        named = msgspec.json.decode(spec.initial.state, type=_Named).objects
        owners = {tool.name: tool.owner for tool in self.loaded.tools}
        return [tool for tool in self.manifest.tools if owners[tool.name] is None or owners[tool.name] in named]

    def _end(self) -> None:
        self._working = False
        process = self._running()
        process.send(b'{"op":"end"}\n')
        process.reply(self.mount.start_s)

    def _running(self) -> Process:
        if self._process is None:
            raise Died("it is not running")
        return self._process

    def _read(self, reply: _Reply | None) -> str | None:
        if reply is None:
            return None
        if reply.failed is not None:
            self.stop()
            raise Unavailable(f"its state cannot be read: {reply.failed}", where=f"environment {self.mount.name}")
        return reply.digest


def python(mount: Python) -> Hosted:
    """The engine of a Python mount."""
    listed = listed_specs(mounts.place(mount, mount.schemas)) if mount.schemas else {}
    state = msgspec.to_builtins(mount.state)
    given = {
        "path": [str(mounts.place(mount, folder).resolve()) for folder in mount.path],
        "tools": mount.tools,
        "objects": mount.objects,
        "state": state,
        "errors": msgspec.to_builtins(mount.errors),
        "results": mount.results,
        "error_text": mount.error_text,
        "unknown_text": mount.unknown_text,
        "result_bytes": mount.result_bytes,
        "fresh": mount.fresh or ("copy" if mount.objects or mount.state.loader else "fork"),
    }
    return Hosted(mount, given, lambda loaded: listed)


def listed_specs(file: Path) -> dict[str, dict[str, Any]]:
    """Function definitions by name, from JSON or JSON lines: flat, or under `function` as OpenAI's are."""
    try:
        text = file.read_bytes()
        try:
            found = msgspec.json.decode(text)
        except msgspec.DecodeError:
            found = [msgspec.json.decode(line) for line in text.splitlines() if line.strip()]
        listed = found if isinstance(found, list) else [found]
        specs = [item.get("function", item) for item in listed]
        return {spec["name"]: spec for spec in specs}
    except OSError as error:
        raise Unavailable(f"schemas cannot be read: {error.strerror}", where=str(file)) from error
    except (msgspec.DecodeError, AttributeError, KeyError, TypeError) as error:
        raise Unavailable("schemas: these are no function definitions", where=str(file)) from error


def _reset(spec: ResetSpec) -> bytes:
    state = spec.initial.state
    seed = spec.seeds.get("environment", next(iter(spec.seeds.values()), 0))
    given = Raw(b"null") if state is UNSET else Raw(on_one_line(bytes(state)))
    return _encode({"op": "reset", "seed": seed, "state": given}) + b"\n"


def _call(tool: str, args: bytes) -> bytes:
    return b'{"op":"call","tool":' + _encode(tool) + b',"args":' + args + b"}\n"


def _feedback(reply: _Reply) -> Feedback:
    error = reply.error
    if error is not None:
        return ExecError(error.class_, error.retryable, error.effect, message=error.message)
    if reply.value is UNSET:
        return ExecError("backend_bug", False, "unknown", message=reply.failed or "no answer that can be read")
    return ToolResult(Raw(bytes(reply.value)))
