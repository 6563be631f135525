"""The planner `openai:URL#MODEL`: a model behind any server that speaks OpenAI's chat completions.

`POST URL/chat/completions` with the conversation and the tools; what comes back is one turn. The key is
that of `OPENAI_API_KEY` and appears in no record and no message. A busy or broken server is asked again
a few times within the deadline.
"""

import asyncio
import os
import threading
import time
from hashlib import sha256
from typing import Any, Final
from urllib.parse import urlsplit, urlunsplit

import httpx
import msgspec
from msgspec import UNSET

from backends.conversation import Said, Situation
from backends.planners import PlannerFailed, PlannerLate, PlannerUnavailable, Stopped, Turn, sampling_of, tool_call
from backends.schemas import NO_ARGUMENTS
from core.errors import UsageError
from core.vocabulary.base import MaybeRaw
from core.vocabulary.contract import Action, Finish
from core.vocabulary.episode import ToolSpec, Usage

KEY: Final = "OPENAI_API_KEY"
INSTRUCTIONS: Final = (
    "Carry out what the user asks with the tools you are given. When it is done, or cannot be done, say so to the user."
)
TRIES: Final = 4
WAIT_S: Final = 0.5
MAX_ANSWER: Final = 32_000_000
_BUSY: Final = frozenset({408, 409, 425, 429, 500, 502, 503, 504, 529})


def address(text: str) -> tuple[str, str]:
    """URL#MODEL as (URL without user, password and query, model). `UsageError` if it is none."""
    url, _, model = text.rpartition("#")
    try:
        parts = urlsplit(url)
        port = f":{parts.port}" if parts.port else ""
    except ValueError as error:
        raise UsageError(f"no URL: {error}", where="--planner", mend=_MEND) from error
    if parts.scheme not in ("http", "https") or not parts.hostname or not model:
        raise UsageError("openai: takes an http URL and a model", where="--planner", mend=_MEND)
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    return urlunsplit((parts.scheme, host + port, parts.path.rstrip("/"), "", "")), model


_MEND = "write it like openai:http://localhost:8000/v1#my-model"


class ModelPlanner:
    """Asks one model. `sampling`: further members of the request (temperature, max_tokens, …)."""

    instructions = INSTRUCTIONS

    def __init__(self, url: str, model: str, sampling: MaybeRaw = UNSET) -> None:
        self.policy = model
        self._url = url
        self._shown = address(f"{url}#{model}")[0]
        self._key = os.environ.get(KEY, "")
        self._sampling = sampling
        self._given = sampling_of(sampling)
        self._runner: asyncio.Runner | None = None
        self._client: httpx.AsyncClient | None = None
        self._task: asyncio.Task[Any] | None = None
        self._lock = threading.Lock()
        self._cancelled = False

    @classmethod
    def of(cls, text: str, sampling: MaybeRaw = UNSET) -> "ModelPlanner":
        """The planner of `URL#MODEL`."""
        address(text)
        url, _, model = text.rpartition("#")
        return cls(url.rstrip("/"), model, sampling)

    def plan(self, situation: Situation, deadline: float) -> Turn:
        if self._runner is None:
            self._runner = asyncio.Runner()
        request = {
            "model": self.policy,
            "messages": [message(said) for said in situation.said],
            **({"tools": [_function(tool) for tool in situation.tools]} if situation.tools else {}),
            **self._given,
        }
        prompt = msgspec.json.encode(request)
        begun = time.monotonic()
        try:
            answer = self._runner.run(self._within(deadline, prompt))
        except TimeoutError:
            raise PlannerLate(f"no answer within {deadline:g} s", where=self._shown) from None
        except asyncio.CancelledError:
            raise Stopped from None
        found = self._turn(answer, (time.monotonic() - begun) * 1000)
        return msgspec.structs.replace(found, prompt_digest="sha256:" + sha256(prompt).hexdigest())

    def cancel(self) -> None:
        with self._lock:
            self._cancelled = True
            if self._task is not None:
                self._task.get_loop().call_soon_threadsafe(self._task.cancel)

    def close(self) -> None:
        if self._runner is not None:
            if self._client is not None:
                self._runner.run(self._client.aclose())
            self._runner.close()
            self._runner = None

    async def _within(self, deadline: float, request: bytes) -> bytes:
        with self._lock:
            if self._cancelled:
                raise asyncio.CancelledError
            self._task = asyncio.current_task()
        try:
            async with asyncio.timeout(deadline):
                return await self._ask(request)
        finally:
            with self._lock:
                self._task = None

    async def _ask(self, request: bytes) -> bytes:
        if self._client is None:
            self._client = httpx.AsyncClient(timeout=None)
        headers = {"content-type": "application/json"}
        if self._key:
            headers["authorization"] = f"Bearer {self._key}"
        for left in range(TRIES - 1, -1, -1):
            try:
                async with self._client.stream(
                    "POST", f"{self._url}/chat/completions", content=request, headers=headers
                ) as response:
                    answer = await _read(response)
            except httpx.HTTPError as error:
                why = f"{type(error).__name__}: {error}".rstrip(": ")
                if not left:
                    raise PlannerUnavailable(self._said(why), where=self._shown) from error
            else:
                if response.status_code == 200:
                    return answer
                why = f"{response.status_code} {response.reason_phrase}: {_reason(answer)}"
                if response.status_code not in _BUSY or not left:
                    unavailable = response.status_code in _BUSY or response.status_code in (401, 403, 404)
                    failed = PlannerUnavailable if unavailable else PlannerFailed
                    raise failed(self._said(why), where=self._shown)
            await asyncio.sleep(WAIT_S * 2 ** (TRIES - 1 - left))
        raise AssertionError("unreachable")

    def _turn(self, answer: bytes, latency_ms: float) -> Turn:
        said = self._completion(answer)
        try:
            return turn(said, latency_ms, self._sampling)
        except (ValueError, LookupError, TypeError, AttributeError) as error:
            what = f"its turn cannot be read ({type(error).__name__}: {error})"
            raise PlannerFailed(
                self._said(what), where=self._shown, mend=self._said(f"it said {_reason(answer)!r}")
            ) from error

    def _completion(self, answer: bytes) -> Any:
        """The answer, if it is a chat completion; anything else says nothing about the model."""
        try:
            said = msgspec.json.decode(answer)
            if isinstance(said["choices"][0]["message"], dict):
                return said
        except (ValueError, LookupError, TypeError, RecursionError):
            pass
        what = f"it answered 200 without a chat completion: {_reason(answer) or 'nothing'}"
        mend = f"POST {self._shown}/chat/completions must be an OpenAI-compatible server's"
        raise PlannerUnavailable(self._said(what), where=self._shown, mend=mend)

    def _said(self, text: str) -> str:
        return text.replace(self._key, "***") if self._key else text


def turn(answer: Any, latency_ms: float | None, sampling: MaybeRaw = UNSET) -> Turn:
    """A chat completion as a turn. Raises LookupError, TypeError and the like for what is none."""
    choice = answer["choices"][0]
    said = choice["message"]
    content = said.get("content")
    if isinstance(content, list):
        content = "".join(part.get("text", "") for part in content)
    thought = said.get("reasoning_content") or said.get("reasoning")
    actions: list[Action] = [_call(one) for one in said.get("tool_calls") or []]
    reason = choice.get("finish_reason")
    failure = None
    if not actions:
        if reason == "length":
            failure = "its answer was cut off (finish_reason length)"
        elif not content:
            failure = f"it neither called a tool nor said anything (finish_reason {reason})"
        else:
            actions = [Finish("done")]
    return Turn(
        actions=actions,
        content=content,
        thought=thought if isinstance(thought, str) else None,
        model=answer.get("model"),
        usage=_usage(answer.get("usage")),
        finish_reason=reason,
        latency_ms=latency_ms,
        sampling=sampling,
        failure=failure,
    )


def message(said: Said) -> dict[str, Any]:
    """One entry of the conversation as the server takes it."""
    if said.role == "tool":
        return {"role": "tool", "tool_call_id": said.answers or "", "content": said.text or ""}
    if said.role != "assistant" or not said.calls:
        return {"role": said.role, "content": said.text or ""}
    calls = [
        {
            "id": call.call_id or "",
            "type": "function",
            "function": {
                "name": call.tool,
                "arguments": call.args_text if isinstance(call.args_text, str) else bytes(call.args).decode(),
            },
        }
        for call in said.calls
    ]
    return {"role": "assistant", "content": said.text, "tool_calls": calls}


def _call(one: Any) -> Action:
    function = one["function"]
    arguments = function.get("arguments")
    text = arguments if isinstance(arguments, str) else msgspec.json.encode(arguments or {}).decode()
    return tool_call(str(function["name"]), text or "{}", one.get("id"))


def _function(tool: ToolSpec) -> dict[str, Any]:
    parameters = NO_ARGUMENTS if tool.parameters is UNSET else tool.parameters
    about = {} if tool.description is None else {"description": tool.description}
    return {"type": "function", "function": {"name": tool.name, **about, "parameters": parameters}}


def _usage(usage: Any) -> Usage | None:
    if not isinstance(usage, dict):
        return None
    thinking = (usage.get("completion_tokens_details") or {}).get("reasoning_tokens")
    cached = (usage.get("prompt_tokens_details") or {}).get("cached_tokens")
    counts = (usage.get("prompt_tokens"), usage.get("completion_tokens"), thinking, cached)
    return Usage(*(count if isinstance(count, int) else None for count in counts))


async def _read(response: httpx.Response) -> bytes:
    parts, size = [], 0
    async for part in response.aiter_bytes():
        parts.append(part)
        size += len(part)
        if size > MAX_ANSWER:
            raise PlannerFailed(f"an answer of more than {MAX_ANSWER:,} bytes", where=str(response.url.host))
    return b"".join(parts)


def _reason(answer: bytes) -> str:
    """What an error response says, cut."""
    try:
        said = msgspec.json.decode(answer)
        found = said.get("error", said.get("message", said)) if isinstance(said, dict) else said
        text = found.get("message", found) if isinstance(found, dict) else found
    except (ValueError, RecursionError):
        text = answer.decode(errors="replace")
    return " ".join(str(text).split())[:300]
