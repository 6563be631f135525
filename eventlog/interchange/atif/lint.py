"""Checks ATIF trajectories against the format's rules, more strictly than its reference models do.

A finding of severity `error` breaks a rule, `warning` is allowed and likely a mistake, `info` is
what a reader must know. The first two name what to look at, none stops the check.
"""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, Literal

import msgspec

from core.errors import BadEvent
from core.times import from_text
from eventlog.interchange.atif.schema import (
    AGENT_ONLY,
    NEWEST,
    OBJECTS,
    TYPES,
    Field,
    is_number,
    minor_version,
    part_fault,
)
from eventlog.interchange.mapping.images import fault_of

Severity = Literal["error", "warning", "info"]
Json = dict[str, Any]

RULES: Final[dict[str, str]] = {
    "record": "a trajectory is a JSON object",
    "schema-version": f"schema_version is ATIF-v1.0 to ATIF-v1.{NEWEST}",
    "required": "a required field is there",
    "type": "a value has the type of its field",
    "unknown-field": "there are no fields that the format does not have",
    "newer-field": "a field is not newer than the file's version",
    "steps": "there is at least one step, and the agent takes one",
    "step-id": "step ids are 1, 2, 3 …",
    "agent-only": "only steps of the agent have a model, reasoning, tool calls and metrics",
    "llm-call-count": "a step without a model call has no metrics and no reasoning",
    "time": "times have a zone and do not run backwards",
    "tool-call-id": "a tool call's id is not empty and names one call",
    "source-call-id": "a result names a call of its own step",
    "content": "a part has what its type needs, and nothing else",
    "image": "an image lies beside the file and is one",
    "logprobs": "there is one logprob per completion token",
    "token-count": "as many token ids as tokens, no more cached than read",
    "ref": "a sub-agent's trajectory can be found",
    "trajectory-id": "embedded trajectories have ids of their own",
    "total": "total_steps is the number of steps",
    "copied-context": "steps copied from another trajectory neither count nor train",
}
"""Every rule, and what holds where it is kept."""


class Finding(msgspec.Struct, frozen=True):
    """Where a rule is broken: `path` is the JSON path in the trajectory."""

    path: str
    rule: str
    severity: Severity
    message: str


def lint(trajectory: object, folder: Path | None = None) -> list[Finding]:
    """What there is to say about a trajectory. With the `folder` it lies in, files it names are
    looked at too."""
    return list(_Linter(folder).trajectory(trajectory, "$", embedded=False))


class _Linter:
    """One trajectory, or one embedded in another; `ids` are the embedded ones that refs may name."""

    def __init__(self, folder: Path | None, ids: frozenset[str] = frozenset()) -> None:
        self.folder = folder
        self.ids = ids
        self.minor = NEWEST

    def trajectory(self, value: Any, path: str, *, embedded: bool) -> Iterator[Finding]:
        if not isinstance(value, dict):
            yield _error(path, "record", "is no object")
            return
        version = minor_version(value.get("schema_version"))
        if version is None or version > NEWEST:
            if value.get("schema_version") is not None:
                shown = str(value["schema_version"])[:40]
                yield _error(
                    f"{path}.schema_version", "schema-version", f"{shown!r} is not {RULES['schema-version'][18:]}"
                )
        else:
            self.minor = version
        self.ids |= set(_ids(value))
        yield from self._object("trajectory", value, path)
        if embedded and not value.get("trajectory_id"):
            yield _error(f"{path}.trajectory_id", "trajectory-id", "is missing in an embedded trajectory")
        if self.minor < 7 and not embedded and value.get("session_id") is None:
            yield _error(f"{path}.session_id", "required", f"is missing; ATIF-v1.{self.minor} requires it")
        if isinstance(value.get("steps"), list):
            yield from self._steps(value, path)
        if isinstance(value.get("subagent_trajectories"), list):
            yield from self._subagents(value["subagent_trajectories"], f"{path}.subagent_trajectories")
        target = value.get("continued_trajectory_ref")
        if isinstance(target, str) and self._is_missing(target):
            yield _warning(
                f"{path}.continued_trajectory_ref", "ref", f"there is no file {target[:80]!r} beside this one"
            )

    def _object(self, kind: str, value: Json, path: str) -> Iterator[Finding]:
        """The fields of an object: present, known, of their types."""
        spec = OBJECTS[kind]
        for name in value:
            if name not in spec:
                yield _error(_at(path, name), "unknown-field", f"is no field of {kind}")
        for name, field in spec.items():
            held = value.get(name)
            if held is None:
                if field.required:
                    yield _error(_at(path, name), "required", "is missing" if name not in value else "is null")
                continue
            if field.since > self.minor:
                message = f"came with ATIF-v1.{field.since}, and the file is ATIF-v1.{self.minor}"
                yield _warning(_at(path, name), "newer-field", message)
            yield from self._field(field, held, _at(path, name))

    def _field(self, field: Field, value: Any, path: str) -> Iterator[Finding]:
        if not field.many:
            yield from self._value(field.type, value, path)
        elif not isinstance(value, list):
            yield _error(path, "type", f"is not a list: {_shown(value)}")
        else:
            for index, item in enumerate(value):
                yield from self._value(field.type, item, f"{path}[{index}]")

    def _value(self, kind: str, value: Any, path: str) -> Iterator[Finding]:
        if kind == "trajectory":
            return
        if kind in OBJECTS:
            if isinstance(value, dict):
                yield from self._object(kind, value, path)
                if kind in _MORE:
                    yield from _MORE[kind](self, value, path)
            else:
                yield _error(path, "type", f"is not an object: {_shown(value)}")
            return
        wording, holds = TYPES[kind]
        if not holds(value):
            yield _error(path, "type", f"is not {wording}: {_shown(value)}")
        elif kind == "content" and isinstance(value, list):
            for index, part in enumerate(value):
                yield from self._part(part, f"{path}[{index}]")

    def _steps(self, value: Json, path: str) -> Iterator[Finding]:
        steps = [(f"{path}.steps[{i}]", step) for i, step in enumerate(value["steps"]) if isinstance(step, dict)]
        if not value["steps"]:
            yield _error(f"{path}.steps", "steps", "is empty: nothing happened in this trajectory")
        elif not any(step.get("source") == "agent" for _, step in steps):
            yield _warning(f"{path}.steps", "steps", "has no step of the agent")
        yield from _numbering(steps)
        yield from _times(steps)
        seen: dict[str, str] = {}
        for at, step in steps:
            yield from _own_calls(at, step, seen)
        metrics = value.get("final_metrics")
        total = metrics.get("total_steps") if isinstance(metrics, dict) else None
        if total is not None and total != len(value["steps"]) and not value.get("notes"):
            message = f"is {_shown(total)}, and there are {len(value['steps'])} steps and no notes that explain it"
            yield _warning(f"{path}.final_metrics.total_steps", "total", message)

    def _subagents(self, trajectories: list[Any], path: str) -> Iterator[Finding]:
        for index, trajectory in enumerate(trajectories):
            inner = _Linter(self.folder, self.ids)
            yield from inner.trajectory(trajectory, f"{path}[{index}]", embedded=True)
        ids = Counter(item.get("trajectory_id") for item in trajectories if isinstance(item, dict))
        for name, count in ids.items():
            if name and count > 1:
                yield _error(path, "trajectory-id", f"{str(name)[:80]!r} names {count} of them")

    def _step(self, step: Json, path: str) -> Iterator[Finding]:
        if step.get("source") in ("system", "user"):
            for name in AGENT_ONLY:
                if step.get(name) is not None:
                    yield _error(f"{path}.{name}", "agent-only", f"stands in a step of the {step['source']}")
        elif step.get("source") == "agent" and step.get("llm_call_count") == 0:
            for name in ("metrics", "reasoning_content"):
                if step.get(name) is not None:
                    yield _error(f"{path}.{name}", "llm-call-count", "stands in a step without a model call")
        if step.get("is_copied_context") is True:
            yield Finding(path, "copied-context", "info", "is copied: it neither counts nor trains")

    def _tool_call(self, call: Json, path: str) -> Iterator[Finding]:
        for name in ("tool_call_id", "function_name"):
            if call.get(name) == "":
                yield _error(f"{path}.{name}", "tool-call-id" if name == "tool_call_id" else "required", "is empty")

    def _metrics(self, metrics: Json, path: str) -> Iterator[Finding]:
        ids, logprobs = metrics.get("completion_token_ids"), metrics.get("logprobs")
        if isinstance(logprobs, list):
            expected: Any = len(ids) if isinstance(ids, list) else metrics.get("completion_tokens")
            what = "completion token ids" if isinstance(ids, list) else "completion tokens"
            if expected is not None and len(logprobs) != expected:
                yield _error(f"{path}.logprobs", "logprobs", f"are {len(logprobs)} for {_shown(expected)} {what}")
            above = next((item for item in logprobs if is_number(item) and item > 0), None)
            if above is not None:
                yield _warning(f"{path}.logprobs", "logprobs", f"hold {above}, and no probability is above 1")
        for name in ("prompt", "completion"):
            held, count = metrics.get(f"{name}_token_ids"), metrics.get(f"{name}_tokens")
            if isinstance(held, list) and count is not None and len(held) != count:
                message = f"are {len(held)}, and {name}_tokens is {_shown(count)}"
                yield _warning(f"{path}.{name}_token_ids", "token-count", message)
        cached, read = metrics.get("cached_tokens"), metrics.get("prompt_tokens")
        if isinstance(cached, int) and isinstance(read, int) and cached > read:
            yield _warning(f"{path}.cached_tokens", "token-count", f"is {cached}, and only {read} were read")

    def _ref(self, ref: Json, path: str) -> Iterator[Finding]:
        name, target = ref.get("trajectory_id"), ref.get("trajectory_path")
        if target is None and name is None:
            yield _error(path, "ref", "has neither trajectory_id nor trajectory_path: a session_id finds nothing")
        elif target is None and name not in self.ids:
            yield _error(f"{path}.trajectory_id", "ref", f"no embedded trajectory is called {_shown(name)}")
        elif isinstance(target, str) and name not in self.ids and self._is_missing(target):
            yield _warning(f"{path}.trajectory_path", "ref", f"there is no file {target[:80]!r} beside this one")

    def _part(self, part: Any, path: str) -> Iterator[Finding]:
        if self.minor < 6:
            yield _warning(path, "newer-field", f"came with ATIF-v1.6, and the file is ATIF-v1.{self.minor}")
        fault = part_fault(part)
        if fault:
            yield _error(path, "content", fault)
        elif part["type"] == "image":
            yield from self._image(part["source"], f"{path}.source.path")

    def _image(self, source: Json, path: str) -> Iterator[Finding]:
        target: str = source["path"]
        file = beside(self.folder, target)
        if file is not None:
            fault = fault_of(file.read_bytes())
            if fault:
                yield _error(path, "image", f"{target[:80]!r} is {fault}")
        elif is_local(target):
            if Path(target).is_absolute() or ".." in Path(target).parts:
                yield _warning(path, "image", f"{target[:80]!r} does not lie beside the file")
            elif self.folder is not None:
                yield _warning(path, "image", f"there is no file {target[:80]!r} beside this one")

    def _is_missing(self, target: str) -> bool:
        return self.folder is not None and is_local(target) and beside(self.folder, target) is None


_MORE = {
    "step": _Linter._step,
    "tool_call": _Linter._tool_call,
    "metrics": _Linter._metrics,
    "ref": _Linter._ref,
}
"""What is checked of an object besides its fields."""


def is_local(path: str) -> bool:
    """Whether a path names a file, not a URL or a digest."""
    return "://" not in path and not path.startswith(("data:", "sha256:"))


def beside(folder: Path | None, path: str) -> Path | None:
    """The file that a relative path names in the folder or under it; None if there is none there."""
    if folder is None or not is_local(path) or "\0" in path:
        return None
    try:
        root, file = folder.resolve(), (folder / path).resolve()
        return file if file.is_relative_to(root) and file.is_file() else None
    except (OSError, RuntimeError):
        return None


def _ids(trajectory: Json) -> Iterator[str]:
    inner = trajectory.get("subagent_trajectories")
    for item in inner if isinstance(inner, list) else []:
        if isinstance(item, dict) and isinstance(item.get("trajectory_id"), str):
            yield item["trajectory_id"]


def _numbering(steps: list[tuple[str, Json]]) -> Iterator[Finding]:
    seen: dict[int, str] = {}
    expected = 1
    for path, step in steps:
        number = step.get("step_id")
        if isinstance(number, int) and not isinstance(number, bool):
            if number in seen:
                yield _error(f"{path}.step_id", "step-id", f"{number} is the id of {seen[number]} too")
            elif number != expected:
                yield _error(f"{path}.step_id", "step-id", f"is {number}, not {expected}")
            seen.setdefault(number, path)
            expected = number
        expected += 1


def _times(steps: list[tuple[str, Json]]) -> Iterator[Finding]:
    latest = None
    for path, step in steps:
        text = step.get("timestamp")
        if not isinstance(text, str) or step.get("is_copied_context") is True or not TYPES["time"][1](text):
            continue
        try:
            at = from_text(text)
        except BadEvent:
            yield _warning(f"{path}.timestamp", "time", f"{text[:40]!r} has no time zone: it says no moment")
            continue
        if latest is not None and at < latest:
            yield _warning(f"{path}.timestamp", "time", f"{text[:40]!r} is before an earlier step")
        latest = at if latest is None else max(latest, at)


def _own_calls(path: str, step: Json, seen: dict[str, str]) -> Iterator[Finding]:
    """The ids of a step's calls and of its results."""
    own: set[str] = set()
    calls = step.get("tool_calls")
    for index, call in enumerate(calls if isinstance(calls, list) else []):
        name = call.get("tool_call_id") if isinstance(call, dict) else None
        if not isinstance(name, str):
            continue
        at = f"{path}.tool_calls[{index}].tool_call_id"
        if name in own:
            yield _error(at, "tool-call-id", f"{name[:80]!r} is the id of another call of the step")
        elif name in seen:
            yield _warning(at, "tool-call-id", f"{name[:80]!r} is the id of a call of {seen[name]} too")
        own.add(name)
        seen.setdefault(name, path)
    observation = step.get("observation")
    results = observation.get("results") if isinstance(observation, dict) else None
    for index, result in enumerate(results if isinstance(results, list) else []):
        name = result.get("source_call_id") if isinstance(result, dict) else None
        if isinstance(name, str) and name not in own:
            at = f"{path}.observation.results[{index}].source_call_id"
            yield _error(at, "source-call-id", f"no call of the step has the id {name[:80]!r}")


def _at(path: str, name: str) -> str:
    return f"{path}.{name}" if name.isidentifier() else f"{path}[{name[:80]!r}]"


def _shown(value: Any) -> str:
    text = msgspec.json.encode(value).decode()
    return text if len(text) <= 60 else f"{text[:60]}…"


def _error(path: str, rule: str, message: str) -> Finding:
    return Finding(path, rule, "error", message)


def _warning(path: str, rule: str, message: str) -> Finding:
    return Finding(path, rule, "warning", message)
