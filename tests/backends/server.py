"""A model server for tests: real HTTP, the chat-completions protocol, and a script instead of a model."""

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from backends.script import Script, tool_calls

Answer = dict[str, Any] | tuple[int, bytes]


class ModelServer:
    """Answers `POST /v1/chat/completions`. `answer`: given a request, the completion's message, or a status
    and a body. `asked` keeps the requests, `headers` those of each."""

    def __init__(self, answer: Callable[[dict[str, Any]], Answer]) -> None:
        self.answer = answer
        self.asked: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.hang = threading.Event()
        self.released = threading.Event()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                data = self.rfile.read(int(self.headers["content-length"]))
                outer.asked.append(json.loads(data))
                outer.headers.append({name.lower(): value for name, value in self.headers.items()})
                if outer.hang.is_set():
                    outer.released.wait(60)
                status, body = (
                    outer.completion(outer.asked[-1]) if self.path == "/v1/chat/completions" else (404, b"no such path")
                )
                try:
                    self.send_response(status)
                    self.send_header("content-type", "application/json")
                    self.send_header("content-length", str(len(body)))
                    self.end_headers()
                    self.wfile.write(body)
                except OSError:
                    pass  # the client broke it off

            def log_message(self, format: str, *args: Any) -> None:
                pass

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._http.daemon_threads = True
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.02,), daemon=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._http.server_address[1]}/v1"

    def completion(self, request: dict[str, Any]) -> tuple[int, bytes]:
        found = self.answer(request)
        if isinstance(found, tuple):
            return found
        reason = found.pop("finish_reason", "tool_calls" if found.get("tool_calls") else "stop")
        choice = {"index": 0, "message": {"role": "assistant", "content": None, **found}, "finish_reason": reason}
        usage = {"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110}
        said = {"id": "c", "object": "chat.completion", "model": request["model"], "choices": [choice], "usage": usage}
        return 200, json.dumps(said).encode()

    def asked_within(self, count: int, seconds: float) -> bool:
        """Whether it was asked so often by then."""
        deadline = time.monotonic() + seconds
        while len(self.asked) < count and time.monotonic() < deadline:
            time.sleep(0.01)
        return len(self.asked) >= count

    def __enter__(self) -> "ModelServer":
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self.released.set()
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()


@contextmanager
def serving(script: Script) -> Iterator[ModelServer]:
    """A server whose model does what the script says, by the number of its turns in the conversation."""

    def answer(request: dict[str, Any]) -> Answer:
        turn = sum(message["role"] == "assistant" for message in request["messages"])
        step = script[turn]
        if step.answer is not None:
            return {"content": step.answer}
        calls = [call for _, _, call in tool_calls([step])]
        return {
            "content": step.say,
            "reasoning_content": step.think,
            "tool_calls": [
                {
                    "id": f"call_{turn}_{i}",
                    "type": "function",
                    "function": {"name": call.tool, "arguments": bytes(call.args or b"{}").decode()},
                }
                for i, call in enumerate(calls)
            ],
        }

    with ModelServer(answer) as server:
        yield server
