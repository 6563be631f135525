"""OpenTelemetry spans written for the tests."""

import json
from typing import Any

START = 1_767_323_045
"""2026-01-02T03:04:05Z."""


def typed(value: Any) -> dict[str, Any]:
    """A value as OTLP/JSON writes it."""
    match value:
        case bool():
            return {"boolValue": value}
        case str():
            return {"stringValue": value}
        case int():
            return {"intValue": str(value)}
        case float():
            return {"doubleValue": value}
        case list():
            return {"arrayValue": {"values": [typed(item) for item in value]}}
        case dict():
            return {"kvlistValue": {"values": pairs(value)}}
    return {}


def pairs(attributes: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"key": key, "value": typed(value)} for key, value in attributes.items()]


def span(
    number: int,
    begun: float,
    ended: float,
    attributes: dict[str, Any] | None = None,
    *,
    parent: int | None = None,
    trace: int = 1,
    name: str = "s",
    **fields: Any,
) -> dict[str, Any]:
    """A span; times are seconds after START."""
    made = {
        "traceId": f"{trace:032x}",
        "spanId": f"{number:016x}",
        "name": name,
        "kind": 1,
        "startTimeUnixNano": str(int((START + begun) * 10**9)),
        "endTimeUnixNano": str(int((START + ended) * 10**9)),
        "attributes": pairs(attributes or {}),
    }
    return made | ({"parentSpanId": f"{parent:016x}"} if parent else {}) | fields


def request(*spans: dict[str, Any], service: str = "shop") -> dict[str, Any]:
    """One ExportTraceServiceRequest."""
    resource = {"attributes": pairs({"service.name": service})}
    return {"resourceSpans": [{"resource": resource, "scopeSpans": [{"scope": {"name": "lib"}, "spans": list(spans)}]}]}


def said(role: str, text: str) -> dict[str, Any]:
    return {"role": role, "parts": [{"type": "text", "content": text}]}


def asked(call_id: str | None, tool: str, **arguments: Any) -> dict[str, Any]:
    part = {"type": "tool_call", "name": tool, "arguments": arguments} | ({"id": call_id} if call_id else {})
    return {"role": "assistant", "parts": [part]}


def answered(call_id: str, response: Any) -> dict[str, Any]:
    return {"role": "tool", "parts": [{"type": "tool_call_response", "id": call_id, "response": response}]}


def chat(prompt: list[Any], answer: Any, **more: Any) -> dict[str, Any]:
    """The attributes of a model call."""
    return {
        "gen_ai.operation.name": "chat",
        "gen_ai.request.model": "m",
        "gen_ai.input.messages": json.dumps(prompt),
        "gen_ai.output.messages": json.dumps([answer]),
    } | more


def tool(name: str, call_id: str | None = None, **more: Any) -> dict[str, Any]:
    """The attributes of a tool's run."""
    given = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": name}
    return given | ({"gen_ai.tool.call.id": call_id} if call_id else {}) | more


def weather() -> list[dict[str, Any]]:
    """A small whole trace: an agent that asks a tool once. Not in order."""
    first = [said("user", "Weather in Ulm?")]
    call = asked("c1", "weather", city="Ulm")
    second = [*first, call, answered("c1", "rainy")]
    result = {"gen_ai.tool.call.arguments": '{"city": "Ulm"}', "gen_ai.tool.call.result": "rainy", "http.tries": 2}
    return [
        span(3, 3, 4, tool("weather", "c1", **result), parent=1, name="execute_tool weather"),
        span(4, 5, 6, chat(second, said("assistant", "It rains."), **{"gen_ai.usage.input_tokens": 9}), parent=1),
        span(2, 1, 2, chat(first, call, **{"gen_ai.request.temperature": 0.5}), parent=1, name="chat m"),
        span(1, 0, 7, {"gen_ai.operation.name": "invoke_agent"}, name="invoke_agent a"),
    ]
