"""Mounts written on the spot, and calls of their tools."""

import itertools
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Raw

from backends.contract import ResetSpec
from backends.mounts import Mounted, opened
from backends.mounts.mount import Mount, check, convert
from core.vocabulary.contract import ExecError, Feedback, ToolCall, ToolResult

_keys = itertools.count()


def mounted(folder: Path, code: str, *, module: str = "shop", **said: Any) -> Mounted:
    """An environment whose tools are this code, reset."""
    made = opened(mount(folder, code, module=module, **said))
    made.reset(ResetSpec())
    return made


def mount(folder: Path, code: str, *, module: str = "shop", **said: Any) -> Mount:
    """The mount of a module with this code, in that folder."""
    (folder / f"{module}.py").write_text(code)
    given = {"name": "made", "kind": "python", "path": ["."], "folder": str(folder), **said}
    if "tools" not in given and "objects" not in given:
        given["tools"] = [module]
    return check(convert(given, "here"), "here")


def call(made: Mounted, tool: str, deadline: float = 20.0, **args: Any) -> Feedback:
    return made.execute(action(tool, **args), deadline, str(next(_keys)))


def action(tool: str, **args: Any) -> ToolCall:
    return ToolCall(tool, Raw(msgspec.json.encode(args)))


def value(feedback: Feedback) -> Any:
    assert isinstance(feedback, ToolResult), feedback
    return msgspec.json.decode(feedback.value)


def failed(feedback: Feedback, class_: str, effect: str = "none") -> str:
    """The message of an error that must be of this class."""
    assert isinstance(feedback, ExecError), feedback
    assert (feedback.class_, feedback.effect) == (class_, effect), feedback
    return str(feedback.message)
