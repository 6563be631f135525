"""An MCP server as an environment: its tools over stdio or HTTP, through the `mcp` SDK (extra `mcp`).

The SDK's session lives in a thread with a loop of its own. A server started by a command is a new
process for every episode; one behind a URL is as it is, unless the mount file says how to reset it.
What a server answers is recorded as it came, also where it does not fit its own output schema.
"""

import asyncio
import contextlib
import logging
import os
import threading
from collections.abc import Coroutine, Iterable, Iterator
from concurrent.futures import Future, wait
from concurrent.futures import TimeoutError as WaitedTooLong
from typing import Any

import msgspec
from msgspec import UNSET, Raw

from backends.contract import Reach, ResetRefused, ResetSpec
from backends.mounts import mount as mounts
from backends.mounts.errors import Rules
from backends.mounts.mount import Example, Mcp
from backends.mounts.mounted import Call
from backends.mounts.process import Died, Late, Tail, environ
from backends.mounts.tools import files, made
from backends.replaying import Plan, Replayed
from backends.schemas import digest
from core.errors import TrajlogError, Unavailable
from core.vocabulary.contract import ExecError, Feedback, ToolResult
from core.vocabulary.episode import ToolSpec

_STOP_S = 10.0
_SHOWN = 80
logging.getLogger("mcp").addHandler(logging.NullHandler())  # what goes wrong is said by us, in one line


class _Connection:
    """One session with the server. `over` ends it; `why` says how it ended by itself; `stray` is the first that it
    wrote where the protocol is, and was no message."""

    def __init__(self) -> None:
        self.session: Any = None
        self.over: asyncio.Event | None = None
        self.ended: Future[None] | None = None
        self.why = "it is not running"
        self.log: Tail | None = None
        self.stray: str | None = None
        self.versions: dict[str, str] = {}
        self.stuck = False

    async def hear(self, message: Any) -> None:
        """What comes from the server besides its answers."""
        if isinstance(message, Exception) and self.stray is None:
            self.stray = _line_of(message)


class Server:
    """The engine of MCP mounts. Connected when it is made. `Unavailable` in one line."""

    def __init__(self, mount: Mcp) -> None:
        self.mount = mount
        self._where = f"mount {mount.name}"
        self._rules = Rules(mount.errors)
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._loop.run_forever, daemon=True).start()
        self._now = _Connection()
        self._leaving: list[Future[None]] = []
        self._used = False
        self._listed: list[dict[str, Any]] = []
        self.tools: list[ToolSpec] | None = None
        self._digest: str | None = None
        try:
            self.start()
            self.manifest = self._manifest()
        except BaseException:
            self.stop()
            raise
        self._known = {tool.name for tool in self.manifest.tools}
        self._outputs = {tool["name"]: tool.get("outputSchema") for tool in self._listed}

    def start(self) -> None:
        self._leave(self._now)
        begun: Future[list[dict[str, Any]]] = Future()
        self._used = False
        now = self._now = _Connection()
        now.ended = asyncio.run_coroutine_threadsafe(self._serve(begun, now), self._loop)
        try:
            self._listed = begun.result(self.mount.start_s)
        except WaitedTooLong:
            now.stuck = True
            self._leave(now)
            what = f"the server did not answer in {self.mount.start_s:g} s"
            raise self._unavailable(what, now, now.stray) from None
        except TrajlogError:
            self._leave(now)
            raise
        except Exception as error:
            self._leave(now)
            ended = "the server ended before it had answered" if "closed" in str(error).lower() else _reason(error)
            said = "" if now.log is None else now.log.last_line()
            raise self._unavailable(f"{ended}{said}", now, None if said else now.stray) from None

    def _unavailable(self, what: str, now: _Connection, stray: str | None) -> Unavailable:
        """An error in one line, with what it wrote to stdout, if that is why."""
        if stray is None:
            return Unavailable(what, where=self._where)
        mend = "stdout is for the protocol alone: let it print to stderr"
        what = f"{what}, and wrote {stray!r} to stdout, which is no MCP message"
        return Unavailable(what, where=self._where, mend=mend)

    def stop(self) -> None:
        if self._loop.is_running():
            self._leave(self._now)
            wait(self._leaving, _STOP_S)
            self._loop.call_soon_threadsafe(self._loop.stop)

    def reset(self, spec: ResetSpec) -> None:
        if spec.initial.state is not UNSET:
            raise ResetRefused("an MCP server takes no initial state", where=f"environment {self.mount.name}")
        if self.mount.state.reset:
            for call in self.mount.state.reset:
                found = self._made(call, self.mount.start_s)
                if isinstance(found, ExecError):
                    raise ResetRefused(f"{call.tool}: {found.message}", where=f"environment {self.mount.name}")
        elif self.mount.command and self._used:
            self.start()
        self._used = True
        self._digest = self._read()

    def call(self, call: Call, deadline: float) -> Feedback:
        tool, args = call
        if tool not in self._known:
            return ExecError("unknown_tool", False, "none", message=f"there is no tool {tool!r}")
        try:
            given = msgspec.json.decode(args, type=dict[str, Any])
        except msgspec.DecodeError:
            return ExecError("schema", False, "none", message="the arguments are no JSON object")
        found = self._feedback(tool, self._ask(self._call(tool, given), deadline))
        self._digest = self._read()
        return found

    def digest(self) -> str | None:
        if self._now.session is None:
            raise Died(self._now.why)
        return self._digest

    def state(self) -> Raw:
        """What the reading tool returned as data, or as JSON in its text; else that text."""
        read = self.mount.state.read
        assert read is not None
        answer = self._ask(self._call(read.tool, read.args), self.mount.start_s)
        found = self._feedback(read.tool, answer)
        if isinstance(found, ExecError):
            raise Unavailable(f"its state cannot be read: {found.message}", where=f"environment {self.mount.name}")
        assert isinstance(found, ToolResult)
        return _state(answer.model_dump(mode="json", by_alias=True).get("structuredContent"), found.value)

    def ping(self) -> None:
        self._ask(self._now.session.send_ping() if self._now.session else _nothing(), 5.0)

    def replay(self, plans: Iterable[Plan], deadline: float) -> Iterator[Replayed | None]:
        """Every plan by itself."""
        for _ in plans:
            yield None

    def printed(self) -> str:
        return "" if self._now.log is None else self._now.log.text()

    def _manifest(self) -> Any:
        tools, reads = [], []
        reaching: dict[str, list[Reach]] = {}
        for tool in self._listed:
            schema = Raw(msgspec.json.encode(tool.get("inputSchema", {"type": "object"})))
            tools.append(ToolSpec(tool["name"], description=tool.get("description"), parameters=schema))
            hints = tool.get("annotations") or {}
            reads += [tool["name"]] if hints.get("readOnlyHint") else []
            if hints.get("openWorldHint", True):
                reaching[tool["name"]] = ["net"]
        state = self.mount.state
        for use, call in [("read", state.read), *(("reset", call) for call in state.reset)]:
            if call is not None and call.tool not in {tool.name for tool in tools}:
                what = f"state.{use} names {call.tool!r}, but no tool is called so"
                raise Unavailable(what, where=self._where, mend=f"its tools: {', '.join(tool.name for tool in tools)}")
        scripts = [mounts.place(self.mount, part) for part in self.mount.command[1:] if not part.startswith("-")]
        named = {script.name: script for script in scripts if script.is_file()}
        found = files(self.mount, named)
        return made(
            self.mount,
            tools,
            found,
            "D2",
            state=state.read is not None,
            versions=self._now.versions,
            open_world=reaching,
            reads=reads,
        )

    async def _serve(self, begun: "Future[list[dict[str, Any]]]", now: _Connection) -> None:
        """One session, from its handshake until it is over."""
        try:
            from mcp import ClientSession
        except ImportError:
            begun.set_exception(ModuleNotFoundError("the mcp SDK is missing: install trajlog[mcp]"))
            return
        now.over = asyncio.Event()
        try:
            async with contextlib.AsyncExitStack() as stack:
                read, write = await self._transport(stack, now)
                session = await stack.enter_async_context(ClientSession(read, write, message_handler=now.hear))
                said = (await session.initialize()).model_dump(mode="json", by_alias=True)
                server = said.get("serverInfo") or {}
                now.versions = {str(server.get("name", "server")): str(server.get("version", ""))}
                listed = await _all_tools(session)
                now.session = session
                begun.set_result(listed)
                await now.over.wait()
        except BaseException as error:
            now.why = _reason(error)
            if not begun.done():
                begun.set_exception(error if isinstance(error, TrajlogError) else RuntimeError(now.why))
        finally:
            now.session = None

    async def _transport(self, stack: contextlib.AsyncExitStack, now: _Connection) -> Any:
        if self.mount.url is not None:
            return await stack.enter_async_context(
                _http(self.mount.url, mounts.variables(self.mount, self.mount.headers))
            )
        from mcp.client.stdio import StdioServerParameters, stdio_client

        command, *args = self.mount.command
        env = environ(mounts.variables(self.mount, self.mount.env))
        parameters = StdioServerParameters(
            command=command, args=args, env=env, cwd=self.mount.folder, encoding_error_handler="replace"
        )
        now.log = Tail()
        errors = os.fdopen(os.dup(now.log.end), "w")
        stack.callback(errors.close)
        now.log.follow()
        try:
            return await stack.enter_async_context(stdio_client(parameters, errlog=errors))
        except OSError as error:
            what = f"command: {command} cannot be started: {error.strerror}"
            raise Unavailable(what, where=self._where, mend="name a program that is there in its mount file") from None

    def _leave(self, now: _Connection) -> None:
        """End a session; one that is stuck is not waited for before the end of all."""
        ended, now.ended = now.ended, None
        if ended is None:
            return
        if now.over is not None:
            self._loop.call_soon_threadsafe(now.over.set)
        if now.stuck:
            if now.session is None:
                ended.cancel()
            self._leaving.append(ended)
        else:
            wait([ended], _STOP_S)
        now.session = None

    def _ask(self, asked: Coroutine[Any, Any, Any], deadline: float) -> Any:
        if self._now.session is None:
            asked.close()
            raise Died(self._now.why)
        future = asyncio.run_coroutine_threadsafe(asked, self._loop)
        try:
            return future.result(deadline)
        except WaitedTooLong:
            future.cancel()
            self._now.stuck = True
            raise Late from None
        except Exception as error:
            if self._now.session is None or "closed" in str(error).lower():
                raise Died(_reason(error)) from None
            return error

    async def _call(self, tool: str, args: dict[str, Any]) -> Any:
        import mcp.types as types

        request = types.CallToolRequest(params=types.CallToolRequestParams(name=tool, arguments=args))
        return await self._now.session.send_request(request, _anything())

    def _made(self, call: Example, deadline: float) -> Feedback:
        return self._feedback(call.tool, self._ask(self._call(call.tool, call.args), deadline))

    def _feedback(self, tool: str, answer: Any) -> Feedback:
        if isinstance(answer, Exception):
            return self._rules.error(_reason(answer), "backend_bug")
        found = answer.model_dump(mode="json", by_alias=True)
        text = _text(found.get("content"))
        if found.get("isError"):
            return self._rules.error(text if text is not None else str(msgspec.json.encode(found)), "precondition")
        structured = found.get("structuredContent")
        value = text if text is not None else structured if structured is not None else found
        said = msgspec.json.encode(value)
        if len(said) > self.mount.result_bytes:
            return ExecError("backend_bug", False, "unknown", message=f"it returned {len(said):,} bytes, too many")
        matched = self._rules.matched(text if text is not None else said.decode())
        return matched or ToolResult(Raw(said), schema_valid=self._fits(tool, structured))

    def _fits(self, tool: str, structured: Any) -> bool | None:
        """Whether the result is what the tool's output schema promises."""
        schema = self._outputs.get(tool) if hasattr(self, "_outputs") else None
        if schema is None:
            return None
        from jsonschema import SchemaError
        from jsonschema.validators import Draft202012Validator

        try:
            return structured is not None and bool(Draft202012Validator(schema).is_valid(structured))
        except SchemaError:
            return False

    def _read(self) -> str | None:
        if self.mount.state.read is None:
            return None
        return digest(msgspec.json.decode(self.state()))


def _text(content: Any) -> str | None:
    """What a result says, if it is text and nothing else."""
    parts = content if isinstance(content, list) else []
    texts = [part["text"] for part in parts if isinstance(part, dict) and isinstance(part.get("text"), str)]
    return "\n".join(texts) if texts and len(texts) == len(parts) else None


def _state(structured: Any, shown: Raw) -> Raw:
    """The state, so that paths lead into it. A mere text is wrapped by the SDK: `{"result": text}`."""
    if structured is not None and not (list(structured) == ["result"] and isinstance(structured["result"], str)):
        return Raw(msgspec.json.encode(structured))
    text = msgspec.json.decode(shown)
    if not isinstance(text, str):
        return shown
    try:
        return Raw(msgspec.json.encode(msgspec.json.decode(text)))
    except (ValueError, RecursionError):
        return shown


def _line_of(error: Exception) -> str:
    """The line that was no message, cut."""
    from pydantic import ValidationError

    if not isinstance(error, ValidationError):
        return _reason(error)
    found = error.errors()[0]["input"]
    return str(found).strip()[:_SHOWN]


async def _all_tools(session: Any) -> list[dict[str, Any]]:
    """What the server lists, as it came; every page of it."""
    listed: list[dict[str, Any]] = []
    cursor = None
    while True:
        import mcp.types as types

        params = types.PaginatedRequestParams(cursor=cursor) if cursor else None
        page = await session.list_tools(params=params)
        found = page.model_dump(mode="json", by_alias=True, exclude_none=True)
        listed += found["tools"]
        cursor = found.get("nextCursor")
        if not cursor:
            return listed


def _anything() -> Any:
    """A result of any shape."""
    from pydantic import BaseModel, ConfigDict

    class Anything(BaseModel):
        model_config = ConfigDict(extra="allow")

    return Anything


@contextlib.asynccontextmanager
async def _http(url: str, headers: dict[str, str]) -> Any:
    from mcp.client.streamable_http import streamable_http_client
    from mcp.shared._httpx_utils import create_mcp_http_client

    async with (
        create_mcp_http_client(headers=headers) as client,
        streamable_http_client(url, http_client=client) as streams,
    ):
        yield streams[0], streams[1]


async def _nothing() -> None: ...


def _reason(error: BaseException) -> str:
    """The innermost of a group of errors, in one line."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    lines = str(error).strip().splitlines()
    return lines[0][:500] if lines else type(error).__name__
