"""How each type of event reads on one line, and a value in full.

Folded: of a long value, its beginning and how much was left out. A payload that does not have the
shape of its type raises, and the caller shows it as it is stored.
"""

from collections.abc import Callable, Iterator
from typing import Any, Final

import msgspec

FOLD: Final = 60
"""Characters of a value before it is folded."""

WHOLE: Final = 160
"""Characters of a line's part before it is folded."""

Json = dict[str, Any]


class Line(msgspec.Struct):
    """One line. `answer` is the version of the feedback that `outcome` comes from; `checks` are the
    checks that did not pass; `failed` marks a failed action or judgement."""

    version: int
    step: int | None
    action: str
    outcome: str | None = None
    ms: float | None = None
    tokens: int | None = None
    verdict: str | None = None
    failed: bool = False
    answer: int | None = None
    checks: list[str] = []


def fold(text: str, limit: int = FOLD) -> str:
    """The text, or its beginning and how many characters were left out."""
    return text if len(text) <= limit else f"{text[:limit]}… (+{len(text) - limit:,})"


def show(value: Any, limit: int = FOLD) -> str:
    """A value on one line, folded: texts in quotes, blobs by their address, the rest as JSON."""
    if isinstance(value, str):
        return f'"{fold(value, limit)}"'
    if is_blob(value):
        return blob(value)
    return fold(msgspec.json.encode(value).decode(), limit)


def is_blob(value: Any) -> bool:
    """Whether a value stands for bytes in the blob store."""
    return isinstance(value, dict) and isinstance(value.get("address"), str) and "media_type" in value


def blob(value: Json) -> str:
    """A blob by its type, address and size."""
    return f"[{value['media_type']} {value['address']} {value.get('size', 0):,} bytes]"


def unfolded(value: Any, indent: int = 0) -> Iterator[str]:
    """A value in full, one key or text line a line."""
    blank = "  " * indent
    if is_blob(value):
        yield blank + blob(value)
    elif isinstance(value, dict) and value:
        for key, item in value.items():
            yield from _entry(f"{blank}{key}:", item, indent)
    elif isinstance(value, list) and value:
        for item in value:
            yield from _entry(f"{blank}-", item, indent)
    elif isinstance(value, str):
        for text in value.split("\n"):
            yield blank + text
    else:
        yield blank + msgspec.json.encode(value).decode()


def _entry(head: str, item: Any, indent: int) -> Iterator[str]:
    below = list(unfolded(item, indent + 1))
    if len(below) == 1 and not (isinstance(item, dict | list) and item and not is_blob(item)):
        yield f"{head} {below[0].strip()}"
    else:
        yield head
        yield from below


def _started(drawn: Line, payload: Json) -> None:
    parts = [f"{name} {payload[name]}" for name in ("task", "policy", "environment", "backend") if payload.get(name)]
    if payload.get("attempt", 1) != 1:
        parts.append(f"attempt {payload['attempt']}")
    if payload.get("goal"):
        parts.append(show(payload["goal"], WHOLE))
    drawn.action = " ".join(["started", *parts])


def _message(drawn: Line, payload: Json) -> None:
    drawn.action = f"{payload['role']}: {_content(payload.get('content'))}"


def _content(content: Any) -> str:
    """A message's content: a text, parts, or nothing."""
    if isinstance(content, list):
        return " ".join(
            show(part["text"], WHOLE) if isinstance(part, dict) and "text" in part else show(part) for part in content
        )
    return "(no text)" if content is None else show(content, WHOLE)


def _responded(drawn: Line, payload: Json) -> None:
    parts = ["model:" if not payload.get("copied") else "model (copied):"]
    if payload.get("thought"):
        parts.append(f"(thought {show(payload['thought'])})")
    parts.append(_content(payload.get("content")))
    drawn.action = " ".join(parts)
    drawn.ms = payload.get("latency_ms")
    usage = payload.get("usage") or {}
    counts: list[int] = [usage[name] for name in ("prompt_tokens", "completion_tokens") if usage.get(name) is not None]
    drawn.tokens = sum(counts) if counts else None


def _submitted(drawn: Line, payload: Json) -> None:
    drawn.action = _action(payload["action"])


def _action(action: Json) -> str:
    kind = action["kind"]
    if kind == "ToolCall":
        return f"{action['tool']}({_arguments(action)})"
    if kind == "Ui":
        return _touch(action)
    said = [
        f"{name}={show(value) if not isinstance(value, str) or len(value) > FOLD or ' ' in value else value}"
        for name, value in action.items()
        if name != "kind" and value is not None
    ]
    return " ".join([kind, *said])


def _arguments(action: Json) -> str:
    arguments = action.get("args")
    if arguments is None and action.get("args_text") is not None:
        return show(action["args_text"])
    if isinstance(arguments, dict) and not is_blob(arguments):
        return ", ".join(f"{name}={show(value)}" for name, value in arguments.items())
    return show(arguments)


def _touch(action: Json) -> str:
    parts = [action["op"]]
    for name in ("target", "to"):
        if action.get(name):
            parts.append(f"{'to ' if name == 'to' else ''}{_target(action[name])}")
    parts += [str(action[name]) for name in ("direction", "key", "app") if action.get(name) is not None]
    if action.get("text") is not None:
        parts.append(show(action["text"]))
    if action.get("duration_ms") is not None:
        parts.append(f"{action['duration_ms']:g} ms")
    return " ".join(parts)


def _target(target: Json) -> str:
    if target["kind"] == "point":
        space = target.get("space", "pixels")
        return f"({target['x']:g}, {target['y']:g}{'' if space == 'pixels' else f' in {space}'})"
    return f"element {target['ref']}"


def _dispatched(drawn: Line, payload: Json) -> None:
    drawn.action = " ".join(["dispatched", *([payload["call_id"]] if payload.get("call_id") else [])])


def _feedback(drawn: Line, payload: Json) -> None:
    feedback = payload["feedback"]
    kind = feedback["kind"]
    drawn.ms = payload.get("latency_ms")
    drawn.failed = kind == "ExecError"
    drawn.action = _FEEDBACK[kind](feedback)


def _result(feedback: Json) -> str:
    invalid = " (does not fit its schema)" if feedback.get("schema_valid") is False else ""
    return f"ok {show(feedback.get('value'), WHOLE)}{invalid}"


def _error(feedback: Json) -> str:
    message = f" {show(feedback['message'], WHOLE)}" if feedback.get("message") is not None else ""
    effect = f" (effect {feedback['effect']})" if feedback.get("effect", "none") != "none" else ""
    return f"error {feedback['class']}{effect}{message}"


def _observation(feedback: Json) -> str:
    parts = ["screen", *([feedback["app"]] if feedback.get("app") else [])]
    parts += [blob(item) for item in feedback.get("blobs", [])]
    parts += [f"!{flag}" for flag in feedback.get("flags", [])]
    if feedback.get("text") is not None:
        parts.append(show(feedback["text"], WHOLE))
    return " ".join(parts)


def _injected(drawn: Line, payload: Json) -> None:
    done = f": {show(payload['parameters'], WHOLE)}" if payload.get("parameters") is not None else ""
    drawn.action = f"fault {payload['fault']} injected{done}"


def _charged(drawn: Line, payload: Json) -> None:
    left = f", {payload['left']:,g} left" if payload.get("left") is not None else ""
    drawn.action = f"used {payload['amount']:,g} {payload['dimension']}{left}"


def _ended(drawn: Line, payload: Json) -> None:
    end = payload["end"]
    details = [str(end[name]) for name in ("dimension", "reason_code") if end.get(name)]
    message = [show(end["message"], WHOLE)] if end.get("message") else []
    drawn.action = " ".join(["ended", end["kind"], *details, *message])
    drawn.failed = end["kind"] in ("agent_error", "env_failure")


def _verified(drawn: Line, payload: Json) -> None:
    verification = payload["verification"]
    checks = verification.get("checks", [])
    drawn.verdict = verification["verdict"]
    drawn.failed = drawn.verdict in ("fail", "error")
    parts = [f"judged by {payload['source']}"]
    if checks:
        passed = sum(check["verdict"] == "pass" for check in checks)
        parts.append(f"{passed} of {len(checks)} checks pass")
    for name in ("reward", "progress"):
        if verification.get(name) is not None:
            parts.append(f"{name} {verification[name]:g}")
    if payload.get("supersedes"):
        parts.append(f"instead of @{payload['supersedes']}")
    if payload.get("why"):
        parts.append(show(payload["why"], WHOLE))
    drawn.action = ", ".join(parts)
    drawn.checks = [_check(check) for check in checks if check["verdict"] != "pass"]


def _check(check: Json) -> str:
    parts = [f"check {check['id']} ({check['policy']}): {check['verdict']}"]
    if check.get("detail") is not None:
        parts.append(show(check["detail"], WHOLE))
    if check.get("evidence_refs"):
        parts.append(f"see {', '.join(check['evidence_refs'])}")
    return " ".join(parts)


def _note(drawn: Line, payload: Json) -> None:
    about = f" on @{payload['target']}" if payload.get("target") else ""
    drawn.action = f"note{about}: {show(payload['text'], WHOLE)}"


def _retracted(drawn: Line, payload: Json) -> None:
    why = f": {show(payload['why'], WHOLE)}" if payload.get("why") else ""
    drawn.action = f"retracted with import {payload['import_id']}{why}"


def _diverged(drawn: Line, payload: Json) -> None:
    expected, actual = (show(payload.get(side), WHOLE) for side in ("expected", "actual"))
    after = f", after @{payload['after']}" if payload.get("after") else ""
    what = f"{payload.get('tool') or 'an action'} @{payload['action']} {payload['path']}: -{expected} +{actual}"
    drawn.action = f"run again, diverged: {what} ({payload['divergence']}{after})"
    drawn.failed = True


def _reexecuted(drawn: Line, payload: Json) -> None:
    found = payload["divergences"]
    cosmetic = sum(payload.get("cosmetic", {}).values())
    said = "the same" if not found else f"{found:,} of {payload['compared']:,} feedbacks diverged"
    drawn.action = f"run again in {payload['environment']}: {said}" + (f", {cosmetic:,} cosmetic" if cosmetic else "")


_FEEDBACK: dict[str, Callable[[Json], str]] = {
    "ToolResult": _result,
    "ExecError": _error,
    "Observation": _observation,
    "UserReply": lambda feedback: f"user: {show(feedback['text'], WHOLE)}",
    "EnvNotice": lambda feedback: f"notice from {feedback['source']}: {show(feedback.get('text'), WHOLE)}",
    "SubagentResult": lambda feedback: f"episode {feedback['child_episode']}: {show(feedback.get('value'), WHOLE)}",
}

WORDS: Final[dict[str, Callable[[Line, Json], None]]] = {
    "EpisodeStarted": _started,
    "MessageRecorded": _message,
    "ModelResponded": _responded,
    "ActionSubmitted": _submitted,
    "ActionDispatched": _dispatched,
    "FeedbackRecorded": _feedback,
    "FaultInjected": _injected,
    "BudgetCharged": _charged,
    "EpisodeEnded": _ended,
    "VerificationRecorded": _verified,
    "NoteAdded": _note,
    "EpisodeRetracted": _retracted,
    "DivergenceFound": _diverged,
    "EpisodeReexecuted": _reexecuted,
}
"""What fills a line from a type's payload."""
