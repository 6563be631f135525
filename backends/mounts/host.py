"""Runs mounted tools in a process of their own. This one file needs nothing but the standard library, so
that any interpreter can run it: `python -s host.py REQUESTS REPLIES`, two file descriptors.

A request is a line of JSON, and so is its reply, in order. Replies wait for the requests that have
already come, so that a whole episode costs a few writes. Whatever the tools print goes to stderr.

    load    the tools, how they fail and where their state comes from → what they are
    reset   a fresh copy of the state
    call    one tool → {"value": …} or {"error": {…}}
    digest  of the state
    state   all of it
    end     of an episode that ran in a fork of its own
"""

from __future__ import annotations

import sys

if __name__ == "__main__":
    del sys.path[0]  # the folder of this file: its neighbours are not for the tools

import collections
import copy
import datetime
import hashlib
import importlib
import inspect
import json
import math
import os
import pickle
import random
import re
import select
import threading
import traceback
import typing
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NoReturn

MAX_MESSAGE = 65536
JSON_TYPES: dict[Any, str] = {
    str: "string",
    int: "integer",
    float: "number",
    bool: "boolean",
    list: "array",
    dict: "object",
}
JSON_TYPES.update({tuple: "array", set: "array", type(None): "null"})

Json = Any

SIMPLE = frozenset({str, dict, list, int, float, bool, type(None)})

quoted = json.encoder.encode_basestring_ascii
scan: Callable[[str, int], tuple[Any, int]] = json.JSONDecoder().scan_once  # type: ignore[attr-defined]
compact = json.JSONEncoder(separators=(",", ":"), allow_nan=False).encode
sorted_json = json.JSONEncoder(separators=(",", ":"), allow_nan=False, sort_keys=True).encode


class Refused(Exception):
    """What was asked for is none that this mount can do."""


class Tool:
    """One tool. `call` takes the arguments by name; `state` is the parameter that gets the state."""

    def __init__(
        self,
        name: str,
        function: Callable[..., Any],
        owner: str | None = None,
        state: str | None = None,
        spec: dict[str, Any] | None = None,
    ) -> None:
        self.name, self.function, self.owner, self.state = name, function, owner, state
        self.signature: inspect.Signature | None
        try:
            self.signature = inspect.signature(function)
        except (TypeError, ValueError):
            self.signature = None
        self.spec = spec or {}

    def fits(self, arguments: dict[str, Any]) -> bool:
        if self.state in arguments:
            return False
        given = dict(arguments, **{self.state: None}) if self.state else arguments
        try:
            if self.signature is not None:
                self.signature.bind(*([None] if self.owner else []), **given)
        except TypeError:
            return False
        return True

    def described(self) -> Json:
        spec: dict[str, Any] = {"name": self.name, "owner": self.owner}
        about = self.spec.get("description") or inspect.getdoc(self.function)
        if about:
            spec["description"] = str(about)
        spec["parameters"] = self.spec.get("parameters") or self._parameters()
        spec["order"] = [name for name, parameter in self._listed() if parameter.kind not in (2, 4)]
        return spec

    def _listed(self) -> list[tuple[str, inspect.Parameter]]:
        listed = [] if self.signature is None else list(self.signature.parameters.items())
        if self.owner:
            listed = listed[1:]
        return [(name, parameter) for name, parameter in listed if name != self.state]

    def _parameters(self) -> Json:
        if self.signature is None:
            return {"type": "object"}
        try:
            hints = typing.get_type_hints(self.function)
        except Exception:
            hints = {}
        properties: dict[str, Any] = {}
        required, closed = [], True
        for name, parameter in self._listed():
            if parameter.kind == parameter.VAR_KEYWORD:
                closed = False
            if parameter.kind in (parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL):
                continue
            properties[name] = schema_of(hints.get(name, parameter.annotation))
            if parameter.default is parameter.empty:
                required.append(name)
            elif parameter.default is None:
                properties[name] = or_null(properties[name])
        schema: dict[str, Any] = {"type": "object", "properties": properties}
        if required:
            schema["required"] = required
        if closed:
            schema["additionalProperties"] = False
        return schema


def schema_of(hint: Any) -> dict[str, Any]:
    """The JSON schema of a type hint; empty where nothing can be said."""
    origin, members = typing.get_origin(hint), typing.get_args(hint)
    if hint is float:
        return {"type": "number"}
    if hint in JSON_TYPES:
        return {"type": JSON_TYPES[hint]}
    if origin is typing.Annotated:
        return schema_of(members[0])
    if origin is getattr(typing, "Literal", None):
        return {"enum": list(members)}
    if origin is typing.Union or type(hint).__name__ == "UnionType":
        options = [schema_of(member) for member in members]
        return {} if {} in options else {"anyOf": options}
    if isinstance(origin, type) and issubclass(origin, dict):
        return {"type": "object"}
    if isinstance(origin, type) and (
        issubclass(origin, (list, tuple, set)) or origin.__name__ in ("Sequence", "Iterable")
    ):
        inner = schema_of(members[0]) if len(members) == 1 or members[1:] == (...,) else {}
        return {"type": "array", "items": inner} if inner else {"type": "array"}
    return {}


def or_null(schema: dict[str, Any]) -> dict[str, Any]:
    if not schema or {"type": "null"} in schema.get("anyOf", []):
        return schema
    return {"anyOf": [*schema.get("anyOf", [schema]), {"type": "null"}]}


class Mount:
    """The tools, and the state of the episode under way."""

    def __init__(self, given: dict[str, Any]) -> None:
        self.given = given
        self.state_given: dict[str, Any] = given.get("state") or {}
        self.parameter: str | None = self.state_given.get("parameter")
        self.as_text = given.get("results") == "text"
        self.patterns = [(re.compile(p["pattern"]), p) for p in given.get("errors", []) if p.get("pattern")]
        self.exceptions = [(p["exception"], p) for p in given.get("errors", []) if p.get("exception")]
        self.max_result: int = given["result_bytes"]
        self.classes: dict[str, Any] = {}
        self.objects: dict[str, Any] = {}
        self.state: Any = None
        self.digest: str | None = None
        self.tools: dict[str, Tool] = {}
        sys.path[:0] = given.get("path", [])
        for dotted in given.get("objects", []):
            self._add_object(dotted)
        for dotted in given.get("tools", []):
            for tool in self._found(dotted):
                self._add(tool)
        if not self.tools:
            raise Refused("no tool was found")
        loader = self.state_given.get("loader")
        self.loader = resolve(loader) if loader else None
        snapshot = self.state_given.get("snapshot")
        self.snapshot = resolve(snapshot) if snapshot else None
        self._check_state()
        if self.loader is not None:
            self._keep_pristine()
        self.files = self._files()

    def _check_state(self) -> None:
        """What is said of the state names something that is there."""
        parameter, load = self.parameter, self.state_given.get("load")
        if parameter and self.loader is None:
            raise Refused("state.parameter is said, but no state.loader")
        taken = [tool for tool in self.tools.values() if tool.state]
        if parameter and not taken and not any(takes(one, parameter) for one in self.classes.values()):
            raise Refused(f"state.parameter names {parameter!r}, but no tool takes it")
        if load and not any(hasattr(one, load) for one in self.classes.values()):
            raise Refused(f"state.load names {load!r}, but no object has such a method")

    def described(self) -> Json:
        readable = bool(self.snapshot or self.loader or self.classes)
        return {
            "tools": [tool.described() for tool in self.tools.values()],
            "files": self.files,
            "roots": {name: folder for name, folder in map(root_of, list(sys.modules.items())) if folder},
            "python": sys.version.split()[0],
            "readable": readable,
            "parameters": sorted({tool.state for tool in self.tools.values() if tool.state}),
        }

    def _add(self, tool: Tool) -> None:
        if tool.name in self.tools:
            raise Refused(f"two tools are called {tool.name!r}")
        self.tools[tool.name] = tool

    def _add_object(self, dotted: str) -> None:
        made = resolve(dotted)
        name = getattr(made, "__name__", type(made).__name__)
        self.classes[name] = made
        kind = made if inspect.isclass(made) else type(self._made(name))
        for method, function in in_order(kind):
            if not method.startswith("_"):
                self._add(Tool(method, function, owner=name))

    def _found(self, dotted: str) -> list[Tool]:
        """The tools that a dotted name stands for, in order."""
        found = resolve(dotted)
        if isinstance(found, dict):
            return [self._tool(item, name) for name, item in found.items()]
        if isinstance(found, (list, tuple)):
            return [self._tool(item) for item in found]
        if not inspect.ismodule(found):
            return [self._tool(found)]
        tools = [
            self._tool(item)
            for name, item in vars(found).items()
            if not name.startswith("_") and belongs(item, found) and is_tool(item)
        ]
        if not tools:
            raise Refused(f"{dotted} has no tools: no public function of its own, no class with a static invoke")
        return tools

    def _tool(self, item: Any, name: str | None = None) -> Tool:
        if inspect.isclass(item) or callable(getattr(item, "invoke", None)):
            if not callable(getattr(item, "invoke", None)):
                raise Refused(f"the class {item.__name__} has no static invoke")
            spec = info_of(item)
            name = name or spec.get("name") or getattr(item, "name", None)
            title = item.__name__ if inspect.isclass(item) else type(item).__name__
            name = name if isinstance(name, str) else snake(title)
            return Tool(name, item.invoke, state=self._state_parameter(item.invoke, True), spec=spec)
        if not callable(item):
            raise Refused(f"{item!r} is no tool")
        return Tool(name or item.__name__, item, state=self._state_parameter(item, False))

    def _state_parameter(self, function: Callable[..., Any], first: bool) -> str | None:
        """Which parameter gets the state: the named one; of a static invoke the first, if there is a state."""
        if not self.state_given.get("loader"):
            return None
        try:
            names = list(inspect.signature(function).parameters)
        except (TypeError, ValueError):
            return None
        if self.parameter:
            return self.parameter if self.parameter in names else None
        return names[0] if names and first else None

    def _keep_pristine(self) -> None:
        assert self.loader is not None
        load, arguments = self.loader, self.state_given.get("arguments", {})
        self.fresh: Callable[[], Any]
        made = load(**arguments)
        try:
            kept = pickle.dumps(made, -1)
            pickle.loads(kept)
            self.fresh = lambda: pickle.loads(kept)
        except Exception:
            try:
                pristine = copy.deepcopy(made)
                self.fresh = lambda: copy.deepcopy(pristine)
            except Exception:
                self.fresh = lambda: load(**arguments)

    def reset(self, request: dict[str, Any]) -> None:
        seed = request.get("seed", 0)
        random.seed(seed)
        if "numpy" in sys.modules:
            sys.modules["numpy"].random.seed(seed % 2**32)
        initial = request.get("state")
        self.digest = None
        self.objects = {}
        if self.classes:
            given = initial or {"objects": dict.fromkeys(self.classes)}
            options = given.get("options", {})
            for name, config in given.get("objects", {}).items():
                if name not in self.classes:
                    raise Refused(f"the initial state names {name!r}, which is no object of this mount")
                self._object(name, config, options)
        elif self.loader is not None:
            self.state = self.fresh() if initial is None else initial
        elif initial is not None:
            raise Refused("this mount has no state that could be given")

    def _made(self, name: str) -> Any:
        made = self.classes[name]
        if not callable(made):
            return copy.deepcopy(made)
        if self.loader is not None and self.parameter and self.parameter in inspect.signature(made).parameters:
            return made(**{self.parameter: self.fresh()})
        return made()

    def _object(self, name: str, config: Any, options: dict[str, Any]) -> None:
        made = self.objects[name] = self._made(name)
        load = getattr(made, self.state_given.get("load") or "", None)
        if load is not None:
            load({} if config is None else config, **options)

    def call(self, name: str, asked: Any) -> str:
        """The reply to one call, as JSON."""
        tool = self.tools.get(name)
        if tool is None or (tool.owner and tool.owner not in self.objects):
            text = self.given["unknown_text"].replace("{tool}", name)
            return self._error({"class": "unknown_tool", "effect": "none"}, text)
        if not isinstance(asked, dict):
            return self._error({"class": "schema", "effect": "none"}, "the arguments are no JSON object")
        arguments: dict[str, Any] = asked
        before, self.digest = self.digest, None
        try:
            function = tool.function
            if tool.owner:
                value = getattr(self.objects[tool.owner], name)(**arguments)
            elif tool.state:
                if tool.state in arguments:
                    raise TypeError(f"got multiple values for argument {tool.state!r}")
                given = dict(arguments)
                given[tool.state] = self.state
                value = function(**given)
            else:
                value = function(**arguments)
            if type(value) not in SIMPLE and inspect.isawaitable(value):
                import asyncio

                async def awaited(value: Any = value) -> Any:
                    return await value

                value = asyncio.run(awaited())
            return self._value(value)
        except BaseException as error:
            return self._raised(tool, arguments, error, before)

    def _value(self, value: Any) -> str:
        text = value if isinstance(value, str) else None
        if self.as_text and text is None:
            text = value = written(value)
        if text is not None and len(text) > self.max_result:
            return self._too_large(len(text))
        try:
            encoded = compact(value) if text is None else quoted(text)
        except (TypeError, ValueError, RecursionError):
            encoded = compact(plain(value))
        if "\\ud" in encoded:
            encoded = compact(without_surrogates(json.loads(encoded)))
        if len(encoded) > self.max_result * 2:
            return self._too_large(len(encoded))
        for pattern, mapped in self.patterns:
            if pattern.search(encoded if text is None else text):
                return self._error(mapped, encoded if text is None else text)
        return '{"value":' + encoded + "}"

    def _too_large(self, size: int) -> str:
        said = f"it returned {size:,} characters, more than the {self.max_result:,} allowed"
        return self._error({"class": "backend_bug", "effect": "unknown"}, said)

    def _raised(self, tool: Tool, arguments: dict[str, Any], error: BaseException, before: str | None) -> str:
        kind = type(error)
        names = {name for base in kind.__mro__ for name in (base.__name__, base.__module__ + "." + base.__name__)}
        mapped = next((mapping for name, mapping in self.exceptions if name in names), None)
        said = str(error)
        if isinstance(error, SystemExit):
            said = f"the tool called exit ({error.code})"
        if mapped is None:
            class_, effect = default_class(error), None
            if isinstance(error, TypeError) and not tool.fits(arguments):
                class_, effect = "schema", "none"
            mapped = {"class": class_, "effect": effect or self._effect(before)}
        text = self.given["error_text"].replace("{type}", kind.__name__).replace("{tool}", tool.name)
        return self._error(mapped, text.replace("{error}", said))

    def _effect(self, before: str | None) -> str:
        """Whether the call that failed changed the state; unknown where nobody looked before."""
        if before is None:
            return "unknown"
        try:
            return "none" if self.digested() == before else "applied"
        except Exception:
            return "unknown"

    def _error(self, mapped: dict[str, Any], text: str) -> str:
        if mapped.get("message"):
            text = mapped["message"].replace("{error}", text)
        found = {
            "class": mapped["class"],
            "retryable": mapped.get("retryable", False),
            "effect": mapped.get("effect") or "none",
            "message": without_surrogates(text)[:MAX_MESSAGE],
        }
        return '{"error":' + compact(found) + "}"

    def visible(self) -> str:
        """The state as JSON text, with sorted keys."""
        seen: Any
        if self.snapshot is not None:
            seen = self.snapshot(self.state) if takes_one(self.snapshot) else self.snapshot()
        elif self.classes:
            seen = {name: public(made) for name, made in self.objects.items()}
            seen = {name: state for name, state in seen.items() if state}
        else:
            seen = self.state
        try:
            return sorted_json(seen)
        except (TypeError, ValueError, RecursionError):
            return sorted_json(plain(seen))

    def digested(self) -> str:
        if self.digest is None:
            self.digest = "sha256:" + hashlib.sha256(self.visible().encode("utf-8", "replace")).hexdigest()
        return self.digest

    def _files(self) -> dict[str, str]:
        """The code files that the tools are made of, by their place on the search path."""
        places = [os.path.realpath(place) for place in self.given.get("path", [])]
        tops = {dotted.split(":")[0].split(".")[0] for dotted in named_in(self.given)}
        found: dict[str, str] = {}
        for name, module in list(sys.modules.items()):
            file = getattr(module, "__file__", None)
            if not file or not file.endswith(".py"):
                continue
            real = os.path.realpath(file)
            place = next((p for p in places if real.startswith(p + os.sep)), None)
            if place is not None and "site-packages" not in real[len(place) :]:
                found[os.path.relpath(real, place)] = real
            elif name.split(".")[0] in tops:
                found[name] = real
        return found


def named_in(given: dict[str, Any]) -> list[str]:
    state = given.get("state") or {}
    return [
        *given.get("tools", []),
        *given.get("objects", []),
        *filter(None, (state.get("loader"), state.get("snapshot"))),
    ]


def root_of(item: tuple[str, Any]) -> tuple[str, str | None]:
    """A package's name and its folder; no folder for any other module."""
    name, module = item
    file = getattr(module, "__file__", None)
    return name, str(Path(file).parent) if file and "." not in name and hasattr(module, "__path__") else None


def default_class(error: BaseException) -> str:
    if isinstance(error, (TimeoutError, ConnectionError)):
        return "transient"
    if isinstance(error, PermissionError):
        return "permission"
    if isinstance(error, (LookupError, FileNotFoundError)):
        return "not_found"
    if isinstance(error, (ValueError, AssertionError)):
        return "precondition"
    return "backend_bug"


def resolve(dotted: str) -> Any:
    """What `package.module:name.name` or `package.module.name` stands for."""
    module_name, _, rest = dotted.partition(":")
    found: Any
    if rest:
        found = importlib.import_module(module_name)
        names = rest.split(".")
    else:
        parts = dotted.split(".")
        for count in range(len(parts), 0, -1):
            module_name = ".".join(parts[:count])
            try:
                found = importlib.import_module(module_name)
                break
            except ModuleNotFoundError as error:
                missing = error.name or ""
                if count == 1 or (module_name != missing and not module_name.startswith(missing + ".")):
                    raise
        names = parts[count:]
    for name in names:
        if not hasattr(found, name):
            raise Refused(f"{getattr(found, '__name__', found)} has no {name!r}")
        found = getattr(found, name)
    return found


def belongs(item: Any, module: Any) -> bool:
    """Whether it was defined in the module, or in the package that it is."""
    home = getattr(item, "__module__", None) or ""
    return home == module.__name__ or (hasattr(module, "__path__") and home.startswith(module.__name__ + "."))


def is_tool(item: Any) -> bool:
    if inspect.isclass(item):
        static = inspect.getattr_static(item, "invoke", None)
        return isinstance(static, (staticmethod, classmethod)) and not getattr(static, "__isabstractmethod__", False)
    return inspect.isfunction(item)


def in_order(kind: type) -> Iterable[tuple[str, Any]]:
    """The methods of a class, those of its bases first, in the order they are written."""
    found: dict[str, Any] = {}
    for base in reversed(kind.__mro__[:-1]):
        found.update((name, getattr(kind, name)) for name, item in vars(base).items() if inspect.isfunction(item))
    return found.items()


def info_of(item: Any) -> dict[str, Any]:
    """What a class of a tool says of it: an OpenAI function from `get_info()`."""
    try:
        info = item.get_info()
    except Exception:
        return {}
    info = info.get("function", info) if isinstance(info, dict) else {}
    return info if isinstance(info, dict) else {}


def snake(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower()


def takes_one(function: Callable[..., Any]) -> bool:
    try:
        return bool(inspect.signature(function).parameters)
    except (TypeError, ValueError):
        return True


def takes(function: Any, parameter: str) -> bool:
    try:
        return parameter in inspect.signature(function).parameters
    except (TypeError, ValueError):
        return False


def written(value: Any) -> str:
    """A result as harnesses show it to a model: an object as JSON, anything else as its text."""
    if isinstance(value, dict):
        try:
            return json.dumps(value)
        except Exception:
            return str(value)
    return str(value)


def public(made: Any) -> dict[str, Any]:
    if isinstance(made, dict):
        return made
    return {name: value for name, value in vars(made).items() if not name.startswith("_")}


def plain(value: Any, above: tuple[int, ...] = ()) -> Json:
    """A value as JSON can hold it; the same value, the same JSON."""
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if id(value) in above:
        return "<above>"
    above = (*above, id(value))
    if len(above) > 200:
        return "<deeper>"
    if isinstance(value, dict):
        return {key if isinstance(key, str) else str(key): plain(item, above) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item, above) for item in value]
    if isinstance(value, (set, frozenset)):
        return sorted((plain(item, above) for item in value), key=sorted_json)
    if isinstance(value, (bytes, bytearray)):
        return value.hex()
    if isinstance(value, (datetime.date, datetime.time)):
        return value.isoformat()
    for method in ("model_dump", "to_dict", "_asdict"):
        if callable(getattr(value, method, None)) and not inspect.isclass(value):
            try:
                return plain(getattr(value, method)(), above)
            except Exception:
                break
    if hasattr(value, "__dict__") and not callable(value):
        return plain(public(value), above)
    return re.sub(r" at 0x[0-9a-f]+", "", str(value))


def without_surrogates(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, list):
        return [without_surrogates(item) for item in value]
    if isinstance(value, dict):
        return {without_surrogates(key): without_surrogates(item) for key, item in value.items()}
    return value


class Host:
    """Answers requests until their pipe is closed."""

    def __init__(self, requests: int, replies: int) -> None:
        self.requests, self.replies = requests, replies
        self.left = b""
        self.lines: collections.deque[str] = collections.deque()
        self.out: list[str] = []
        self.waiting = 0
        self.lock = threading.Lock()
        self.mount: Any = None
        self.worker = False
        self.forked = False
        os.register_at_fork(after_in_child=self._forked)

    def run(self) -> NoReturn:
        self.watch()
        while True:
            self.read()
            lines = self.lines
            while lines:
                self.answer(scan(lines.popleft(), 0)[0])

    def _forked(self) -> None:
        self.forked = True

    def watch(self) -> None:
        """End with whoever asks, and send what a tool that takes long keeps waiting."""
        threading.Thread(target=self._watch, daemon=True).start()

    def _watch(self) -> None:
        poll = select.poll()
        poll.register(self.requests, 0)
        while not poll.poll(100):
            if self.out:
                self.flush()
        os._exit(0)

    def read(self) -> None:
        """The requests that have come, once all replies are sent."""
        self.flush()
        parts = [self.left]
        while True:
            chunk = os.read(self.requests, 1 << 20)
            if not chunk:
                os._exit(0)
            parts.append(chunk)
            if b"\n" in chunk:
                lines = b"".join(parts).split(b"\n")
                self.left = lines.pop()
                self.lines.extend(line.decode() for line in lines)
                return

    def flush(self) -> None:
        with self.lock:
            data = ("\n".join(self.out) + "\n").encode("ascii") if self.out else b""
            self.out.clear()
            self.waiting = 0
            while data:
                data = data[os.write(self.replies, data) :]

    def reply(self, text: str) -> None:
        if self.forked:
            os._exit(0)  # a tool forked, and this is the other one
        with self.lock:
            self.out.append(text)
            self.waiting += len(text)
        if self.waiting > 1 << 16:
            self.flush()

    def answer(self, request: dict[str, Any]) -> None:
        op = request["op"]
        try:
            if op == "call":
                self.reply(self.mount.call(request["tool"], request["args"]))
                return
            if op == "digest":
                self.reply(compact({"digest": self.mount.digested()}))
            elif op == "reset":
                if self.mount.given.get("fresh") == "fork" and not self.worker:
                    self.fork()
                    if not self.worker:
                        return
                self.mount.reset(request)
                self.reply("{}")
            elif op == "state":
                self.reply('{"state":' + self.mount.visible() + ',"digest":"' + self.mount.digested() + '"}')
            elif op == "load":
                self.mount = Mount(request)
                self.reply(compact(self.mount.described()))
            elif op == "ping":
                self.reply("{}")
            elif op == "end":
                self.reply("{}")
                if self.worker:
                    self.flush()
                    os._exit(0)
        except BaseException as error:
            sys.stderr.write(traceback.format_exc())
            self.reply(compact({"failed": without_surrogates(one_line(error))}))

    def fork(self) -> None:
        """Go on in a fork, which has the state of this moment; here, wait until it has ended."""
        self.flush()
        pid = os.fork()
        if pid == 0:
            self.worker = True
            self.forked = False
            self.lock = threading.Lock()
            self.watch()
            return
        self.lines.clear()
        self.left = b""
        _, status = os.waitpid(pid, 0)
        if os.WIFSIGNALED(status):
            os.kill(os.getpid(), os.WTERMSIG(status))
        if os.WEXITSTATUS(status):
            os._exit(os.WEXITSTATUS(status))


def one_line(error: BaseException) -> str:
    """What an error says, and the place in the mount where it arose."""
    if isinstance(error, Refused):
        return str(error)
    said = str(error).strip().splitlines()
    text = type(error).__name__ + (": " + said[0] if said else "")
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename != __file__]
    frames = [frame for frame in frames if "importlib" not in frame.filename]
    if frames:
        text += f" ({frames[-1].filename}, line {frames[-1].lineno})"
    return text[:1000]


if __name__ == "__main__":
    sys.setrecursionlimit(3000)
    sys.argv[1:], descriptors = [], [int(number) for number in sys.argv[1:3]]
    for descriptor in descriptors:
        os.set_inheritable(descriptor, False)
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(line_buffering=True, errors="backslashreplace")
    Host(*descriptors).run()
