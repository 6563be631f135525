"""A mount: how an environment that somebody else wrote is reached, as a TOML file says it.

`schema()` is what such a file may hold. Paths in it are relative to the file.
"""

import os
import re
import sys
import tomllib
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta
from msgspec.structs import replace

from backends.contract import Determinism, Reach
from backends.schemas import digest
from core import choices
from core.errors import UsageError
from core.vocabulary.contract import Effect, ErrorClass

NAME = r"^[a-z0-9][a-z0-9._-]{0,63}$"
DIGITS = 12
"""Hex digits of a version."""


class Rule(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """A failure, by the exception that was raised or by what a result says."""

    class_: Annotated[ErrorClass, Meta(description="what kind of failure it is")] = msgspec.field(name="class")
    exception: Annotated[
        str | None, Meta(description="the exception's name, or that of one of its bases: KeyError, shop.errors.Unknown")
    ] = None
    pattern: Annotated[
        str | None, Meta(description="regular expression that is found in the text of a result, such as ^Error")
    ] = None
    retryable: Annotated[bool, Meta(description="the same call may succeed later")] = False
    effect: Annotated[Effect, Meta(description="whether a call that fails so has changed anything")] = "none"


class Example(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """A call that `trajlog env check` makes, twice."""

    tool: Annotated[str, Meta(description="its name")]
    args: Annotated[dict[str, Any], Meta(description="its arguments")] = {}


class State(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """Where the state comes from, and what of it can be seen."""

    loader: Annotated[str | None, Meta(description="dotted name of a function that returns the state")] = None
    arguments: Annotated[dict[str, Any], Meta(description="the loader's arguments")] = {}
    parameter: Annotated[
        str | None,
        Meta(description="the parameter of a tool that is given the state; of a static invoke the first, if not named"),
    ] = None
    snapshot: Annotated[
        str | None, Meta(description="dotted name of a function: state → JSON value; without one the state itself")
    ] = None
    load: Annotated[
        str | None,
        Meta(description="method of an object that takes a task's initial conditions, such as _load_scenario"),
    ] = None


class Common(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """What every mount may say."""

    name: Annotated[str, Meta(pattern=NAME, description="what the environment is called: --env NAME")]
    determinism: Annotated[
        Determinism | None,
        Meta(description="D0: same calls, same answers; D2: live. Default: D0 for Python tools, D2 for MCP servers"),
    ] = None
    deadline_s: Annotated[float, Meta(gt=0, description="seconds a tool may take before its process is ended")] = 30.0
    start_s: Annotated[float, Meta(gt=0, description="seconds that starting, loading and a reset may take")] = 120.0
    result_bytes: Annotated[int, Meta(gt=0, description="the longest result that is taken")] = 8_000_000
    errors: Annotated[list[Rule], Meta(description="how failures are told, the first that fits; each [[errors]]")] = []
    reads: Annotated[list[str], Meta(description="tools that change nothing; * stands for any text")] = []
    open_world: Annotated[
        dict[str, list[Reach]],
        Meta(description="tools that reach outside the environment, and where: net, device, host; * as in reads"),
    ] = {}
    files: Annotated[
        list[str], Meta(description="further files that the version depends on: data, ** for any folder")
    ] = []
    env: Annotated[dict[str, str], Meta(description="environment variables; $NAME is taken from trajlog's own")] = {}
    examples: Annotated[list[Example], Meta(description="calls for trajlog env check; each [[examples]]")] = []
    folder: Annotated[str, Meta(description="where relative paths begin; default: the folder of this file")] = ""


class Python(Common, frozen=True, kw_only=True, omit_defaults=True, tag_field="kind", tag="python"):
    """Python tools: functions, methods of objects, classes with a static `invoke`."""

    tools: Annotated[
        list[str],
        Meta(description="dotted names of functions, classes, lists of them or modules (all they have, in order)"),
    ] = []
    objects: Annotated[
        list[str], Meta(description="dotted names of classes: their public methods are tools, an object per episode")
    ] = []
    path: Annotated[list[str], Meta(description="folders that modules are looked for in, first of all")] = []
    python: Annotated[str | None, Meta(description="the interpreter to run it; default: trajlog's own")] = None
    schemas: Annotated[
        str | None, Meta(description="JSON file of function definitions that say more than signatures do")
    ] = None
    fresh: Annotated[
        Literal["copy", "fork"] | None,
        Meta(
            description="how an episode gets a state of its own: a copy of the loaded one or new objects, or a forked"
            " process (also what modules keep in global variables is fresh). Default: fork if there is neither"
            " a loader nor objects"
        ),
    ] = None
    results: Annotated[
        Literal["value", "text"],
        Meta(description="value: as returned; text: as a model is shown it (objects as JSON, others as str() says)"),
    ] = "value"
    error_text: Annotated[str, Meta(description="what an exception is told as: {error}, {type}, {tool}")] = (
        "{type}: {error}"
    )
    unknown_text: Annotated[str, Meta(description="what is said of an unknown {tool}")] = "there is no tool '{tool}'"
    state: Annotated[State, Meta(description="where the state comes from")] = State()


class Bfcl(Common, frozen=True, kw_only=True, omit_defaults=True, tag_field="kind", tag="bfcl"):
    """The multi-turn tasks of the Berkeley Function-Calling Leaderboard (PyPI: bfcl-eval)."""

    python: Annotated[str | None, Meta(description="an interpreter that has bfcl-eval; default: trajlog's own")] = None
    path: Annotated[list[str], Meta(description="folders with bfcl_eval in them, if not that interpreter's own")] = []


class StateTool(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """Tools of the server that are for the harness, not for the agent."""

    read: Annotated[
        Example | None,
        Meta(description="a call that returns the state: as data, or as text, which is read as JSON if it is"),
    ] = None
    reset: Annotated[list[Example], Meta(description="calls that begin an episode")] = []


class Mcp(Common, frozen=True, kw_only=True, omit_defaults=True, tag_field="kind", tag="mcp"):
    """A server of the Model Context Protocol: a command (stdio), or a URL (streamable HTTP)."""

    command: Annotated[list[str], Meta(description="program and arguments; a new process for each episode")] = []
    url: Annotated[str | None, Meta(description="http://… or https://… of the server's endpoint")] = None
    headers: Annotated[dict[str, str], Meta(description="HTTP headers; $NAME is taken from the environment")] = {}
    state: Annotated[StateTool, Meta(description="which calls read and reset the state")] = StateTool()


Mount = Python | Bfcl | Mcp


def schema() -> dict[str, Any]:
    """The JSON schema of a mount file."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "trajlog mount file (TOML)",
        **msgspec.json.schema(Mount),
    }


def read(file: Path) -> Mount:
    """The mount that a TOML file describes, its folder set. `UsageError` in one line."""
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is no UTF-8"
        raise UsageError(f"the mount file cannot be read: {reason}", where=str(file)) from error
    try:
        found = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise UsageError(f"no TOML: {error}", where=str(file)) from error
    found["folder"] = str((file.parent / str(found.get("folder", ""))).resolve())
    return check(convert(found, str(file)), str(file))


def convert(found: Any, where: str) -> Mount:
    """Plain values as a mount."""
    try:
        made: Mount = msgspec.convert(found, Mount)
    except msgspec.ValidationError as error:
        reason = str(error)
        mend = choices.mend(reason, Mount) or "trajlog env schema says what a mount file may hold"
        if "required field `kind`" in reason:
            mend = 'say kind = "python", "mcp" or "bfcl"'
        raise UsageError(f"{reason[:1].lower()}{reason[1:]}", where=where, mend=mend) from None
    return made


def check(mount: Mount, where: str) -> Mount:
    """The mount, if what it says goes together."""

    def refuse(what: str, mend: str | None = None) -> UsageError:
        return UsageError(what, where=where, mend=mend)

    if isinstance(mount, Python) and not mount.tools and not mount.objects:
        raise refuse("it names no tools", "give tools or objects")
    if isinstance(mount, Mcp) and bool(mount.command) == bool(mount.url):
        raise refuse("an MCP server is a command or a url", "give one of them")
    if isinstance(mount, Mcp) and mount.url and not mount.url.startswith(("http://", "https://")):
        raise refuse(f"{mount.url!r} is no http:// or https:// address")
    for rule in mount.errors:
        if (rule.exception is None) == (rule.pattern is None):
            raise refuse("an error rule says exception or pattern, one of them")
        try:
            re.compile(rule.pattern or "")
        except re.error as error:
            raise refuse(f"{rule.pattern!r} is no regular expression: {error}") from error
    if gone := missing(mount):
        raise refuse(gone)
    return mount


def missing(mount: Mount) -> str | None:
    """What says which of its folders is gone, if one is."""
    if not Path(mount.folder).is_dir():
        return f"there is no folder {mount.folder}"
    folders = mount.path if isinstance(mount, Python | Bfcl) else []
    gone = next((folder for folder in folders if not place(mount, folder).is_dir()), None)
    return None if gone is None else f"path: there is no folder {place(mount, gone)}"


def place(mount: Mount, path: str) -> Path:
    """A path of the mount file, absolute."""
    return Path(mount.folder) / Path(path).expanduser()


def interpreter(mount: Python | Bfcl) -> str:
    """The Python that runs it: a path, or a name to be looked for in PATH."""
    if mount.python is None:
        return sys.executable
    return str(place(mount, mount.python)) if os.sep in mount.python else mount.python


def variables(mount: Mount, given: dict[str, str]) -> dict[str, str]:
    """Values with `$NAME` filled in from the environment."""
    found = {}
    for name, value in given.items():
        if value.startswith("$"):
            if value[1:] not in os.environ:
                what = f"the environment variable {value[1:]} is not set"
                raise UsageError(what, where=f"mount {mount.name}, {name}", mend=f"export {value[1:]}=…")
            value = os.environ[value[1:]]
        found[name] = value
    return found


def version(mount: Mount, tools: Any, files: dict[str, str]) -> str:
    """What names an environment exactly: the mount file but for where things lie on this machine, the
    tools with their schemas, the bytes of the files they are made of."""
    here: dict[str, Any] = {"folder": "", "env": {}, "deadline_s": 1.0, "start_s": 1.0, "examples": []}
    if isinstance(mount, Python | Bfcl):
        here |= {"python": None, "path": []}
    said = msgspec.to_builtins(replace(mount, **here))
    return digest([said, tools, files]).removeprefix("sha256:")[:DIGITS]
