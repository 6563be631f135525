"""A tiny MCP server made with the SDK, run as a script: over stdio, or with a PORT over HTTP."""

import sys
from typing import Any

from mcp.server.mcpserver import MCPServer
from mcp.types import ToolAnnotations

server = MCPServer("lamp")
state: dict[str, Any] = {"on": False, "turns": 0}


@server.tool(annotations=ToolAnnotations(open_world_hint=False))
def switch(on: bool) -> str:
    """Switch the lamp."""
    state.update(on=on, turns=state["turns"] + 1)
    return f"on: {on}"


@server.tool(annotations=ToolAnnotations(open_world_hint=False, read_only_hint=True))
def look() -> dict[str, Any]:
    """How the lamp is."""
    return dict(state)


@server.tool()
def reset() -> str:
    """As new."""
    state.update(on=False, turns=0)
    return "done"


if __name__ == "__main__":
    if len(sys.argv) > 1:
        server.run("streamable-http", host="127.0.0.1", port=int(sys.argv[1]))
    else:
        server.run("stdio")
