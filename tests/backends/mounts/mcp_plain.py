"""A tiny MCP server of the standard library alone, over stdio: it starts at once, and can misbehave."""

import json
import os
import sys
import time
from typing import Any

state: dict[str, Any] = {"on": False, "turns": 0}


def tool(name: str, about: str, output: Any = None, hints: Any = None, **parameters: str) -> dict[str, Any]:
    schema = {"type": "object", "properties": {key: {"type": kind} for key, kind in parameters.items()}}
    found = {"name": name, "description": about, "inputSchema": {**schema, "required": list(parameters)}}
    found["annotations"] = {"openWorldHint": False} if hints is None else hints
    return {**found, **({"outputSchema": output} if output else {})}


NUMBER = {"type": "object", "properties": {"result": {"type": "integer"}}, "required": ["result"]}
TOOLS = [
    tool("switch", "Switch the lamp.", on="boolean"),
    tool("look", "How the lamp is.", hints={"readOnlyHint": True, "openWorldHint": False}),
    tool("count", "How often it was switched.", output=NUMBER),
    tool("fail", "Never works.", why="string"),
    tool("hang", "Never returns."),
    tool("leave", "Ends the server."),
    tool("odd", "Answers what its schema does not allow, and no content.", output=NUMBER),
    tool("noise", "Writes where the protocol is."),
    tool("fetch", "Reaches outside, for all anybody knows.", hints={}),
]


def call(name: str, args: dict[str, Any]) -> dict[str, Any]:
    if name == "switch":
        state.update(on=args["on"], turns=state["turns"] + 1)
        return text(f"on: {args['on']}")
    if name == "look":
        return text(json.dumps(state))
    if name == "count":
        return {**text(str(state["turns"])), "structuredContent": {"result": state["turns"]}}
    if name == "fail":
        return {**text(f"Error: {args['why']}"), "isError": True}
    if name == "hang":
        time.sleep(600)
    if name == "leave":
        os._exit(3)
    if name == "odd":
        return {"content": [], "structuredContent": {"result": "many"}}
    if name == "noise":
        print("this is no JSON", flush=True)
        print("a line for the log", file=sys.stderr, flush=True)
    return text("done")


def text(said: str) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": said}]}


def answer(method: str, params: dict[str, Any]) -> dict[str, Any] | None:
    if method == "initialize":
        info = {"name": "lamp", "version": "1.0"}
        return {"protocolVersion": params["protocolVersion"], "capabilities": {"tools": {}}, "serverInfo": info}
    if method == "tools/list":
        at = int(params.get("cursor") or 0)
        more = {"nextCursor": str(at + 5)} if at + 5 < len(TOOLS) else {}
        return {"tools": TOOLS[at : at + 5], **more}
    if method == "tools/call":
        return call(params["name"], params.get("arguments") or {})
    return {} if method == "ping" else None


if __name__ == "__main__":
    for line in sys.stdin:
        asked = json.loads(line)
        if "id" not in asked:
            continue
        found = answer(asked["method"], asked.get("params") or {})
        said = {"error": {"code": -32601, "message": "no such method"}} if found is None else {"result": found}
        print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], **said}), flush=True)
