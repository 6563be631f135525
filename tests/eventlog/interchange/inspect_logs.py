"""Inspect logs written for the tests."""

import io
import json
import zipfile
from struct import pack
from typing import Any
from zlib import crc32

import zstandard

SPEC = {
    "eval_id": "e",
    "run_id": "r",
    "created": "2026-01-02T03:04:05+00:00",
    "task": "sums",
    "task_version": 0,
    "model": "mock/m",
    "packages": {"inspect_ai": "0.3.285"},
    "scorers": [
        {"name": "exact", "metrics": [{"name": "inspect_ai/accuracy"}, {"name": "inspect_ai/stderr"}]},
        {"name": "tone", "metrics": {"a": [{"name": "inspect_ai/mean"}]}},
    ],
}
PLAN: dict[str, Any] = {"name": "plan", "steps": [], "config": {"seed": 7}}


def message(role: str, content: Any, id_: str, **fields: Any) -> dict[str, Any]:
    return {"id": id_, "role": role, "content": content} | fields


def call(id_: str, function: str, **arguments: Any) -> dict[str, Any]:
    return {"id": id_, "function": function, "arguments": arguments, "type": "function"}


def at(second: float) -> str:
    return f"2026-01-02T03:04:{second:09.6f}+00:00"


def model(begun: float, ended: float, answer: dict[str, Any], refs: list[list[int]], **fields: Any) -> dict[str, Any]:
    usage = {"input_tokens": 7, "output_tokens": 3, "total_tokens": 12, "input_tokens_cache_read": 2}
    output = {"model": "mock/m", "choices": [{"message": answer, "stop_reason": "stop"}], "usage": usage}
    return {
        "event": "model",
        "uuid": f"m{begun}",
        "span_id": "solving",
        "timestamp": at(begun),
        "completed": at(ended),
        "model": "mock/m",
        "input": [],
        "input_refs": refs,
        "tools": [{"name": "add", "description": "Adds.", "parameters": {"type": "object"}}],
        "tool_choice": "auto",
        "config": {"temperature": 0.5},
        "output": output,
    } | fields


def tool(begun: float, ended: float, id_: str, function: str, result: Any, **fields: Any) -> dict[str, Any]:
    return {
        "event": "tool",
        "uuid": f"t{begun}",
        "span_id": "solving",
        "timestamp": at(begun),
        "completed": at(ended),
        "id": id_,
        "function": function,
        "arguments": {"x": 1},
        "result": result,
    } | fields


def sample(id_: Any = "one", epoch: int = 1, **fields: Any) -> dict[str, Any]:
    """A small whole sample: a sum, asked of a tool, answered and scored."""
    pool = [
        message("system", "be brief", "m0"),
        message("user", "attachment://h1", "m1"),
        message("assistant", "let me add", "m2", tool_calls=[call("c1", "add", x=1)]),
        message("tool", "2", "m3", tool_call_id="c1", function="add"),
    ]
    answer = message("assistant", [{"type": "reasoning", "reasoning": "hm"}, {"type": "text", "text": "2"}], "m4")
    return {
        "id": id_,
        "epoch": epoch,
        "input": "what is 1+1?",
        "target": "2",
        "messages": [*pool, answer],
        "output": {"model": "mock/m", "choices": [{"message": answer}]},
        "scores": {"exact": {"value": "C", "explanation": "it is"}},
        "metadata": {},
        "store": {},
        "events": [
            {"event": "span_begin", "id": "solving", "type": "solvers", "timestamp": at(0)},
            model(1, 2, pool[2], [[0, 2]]),
            tool(2, 3, "c1", "add", "2"),
            model(4, 5, answer, [[0, 4]]),
            {"event": "span_end", "id": "solving", "timestamp": at(6)},
            {"event": "info", "data": "x", "timestamp": at(6)},
        ],
        "events_data": {"messages": pool, "calls": []},
        "attachments": {"h1": "what is 1+1?"},
        "started_at": at(0),
        "completed_at": at(8),
        "uuid": f"u-{id_}-{epoch}",
    } | fields


def log(*samples: dict[str, Any], **fields: Any) -> dict[str, Any]:
    """The one JSON document."""
    made = {"version": 2, "status": "success", "eval": SPEC, "plan": PLAN, "results": {"total_samples": 1}}
    return made | {"samples": list(samples), "reductions": [{"scorer": "exact", "samples": []}]} | fields


def entries(*samples: dict[str, Any]) -> dict[str, Any]:
    """The files of an archive."""
    start = {"version": 2, "eval": SPEC, "plan": PLAN}
    made: dict[str, Any] = {"_journal/start.json": start}
    made |= {f"samples/{each['id']}_epoch_{each['epoch']}.json": each for each in samples}
    return made | {"summaries.json": [], "header.json": start | {"status": "success", "results": {"scores": []}}}


def archive(files: dict[str, Any], *, method: int = zipfile.ZIP_DEFLATED) -> bytes:
    """A zip archive of these files; values are written as JSON, bytes as they are."""
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", method) as zipped:
        for name, value in files.items():
            zipped.writestr(name, value if isinstance(value, bytes) else json.dumps(value))
    return made.getvalue()


def packed_with_zstd(files: dict[str, Any]) -> bytes:
    """The same packed as Inspect packs it: Python's zipfile cannot, so stored entries are rewritten."""
    parts, directory, offset = [], [], 0
    for name, value in files.items():
        data = value if isinstance(value, bytes) else json.dumps(value).encode()
        squeezed, crc = zstandard.ZstdCompressor().compress(data), crc32(data)
        head = pack("<HHHHHIIIHH", 63, 0, 93, 0, 0x5A21, crc, len(squeezed), len(data), len(name), 0)
        parts.append(b"PK\3\4" + head + name.encode() + squeezed)
        directory.append(b"PK\1\2" + pack("<H", 63) + head + pack("<HHHII", 0, 0, 0, 0, offset) + name.encode())
        offset += len(parts[-1])
    listed = b"".join(directory)
    end = pack("<4sHHHHIIH", b"PK\5\6", 0, 0, len(parts), len(parts), len(listed), offset, 0)
    return b"".join(parts) + listed + end
