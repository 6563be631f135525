"""ATIF trajectories written for the tests."""

from typing import Any

Json = dict[str, Any]


def call(name: str = "find", id_: str = "c1", **arguments: Any) -> Json:
    return {"tool_call_id": id_, "function_name": name, "arguments": arguments or {"q": "x"}}


def result(content: Any = "found", id_: str | None = "c1", **fields: Any) -> Json:
    named = {} if id_ is None else {"source_call_id": id_}
    return named | {"content": content} | fields


def said(message: Any = "Find x.", source: str = "user", **fields: Any) -> Json:
    return {"source": source, "message": message} | fields


def acted(*calls: Json, results: list[Json] | None = None, message: Any = "Looking.", **fields: Any) -> Json:
    """A step of the agent."""
    step = {"source": "agent", "message": message} | fields
    if calls:
        step["tool_calls"] = list(calls)
    if results is not None:
        step["observation"] = {"results": results}
    return step


def trajectory(*steps: Json, version: str = "1.8", **fields: Any) -> Json:
    """A trajectory of these steps, numbered; one question and its answer if there are none."""
    taken = steps or (said(), acted(call(), results=[result()]), acted(message="It is here."))
    return {
        "schema_version": f"ATIF-v{version}",
        "session_id": "s1",
        "agent": {"name": "planner", "version": "2.1", "model_name": "planner-27b"},
        "steps": [{"step_id": number} | step for number, step in enumerate(taken, 1)],
    } | fields
