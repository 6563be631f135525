"""tau-bench results written for the tests."""

import json
from typing import Any

CALL = {"id": "c1", "type": "function", "function": {"name": "find", "arguments": '{"q":  "x"}'}}


def result(trial: int = 0, **fields: Any) -> dict[str, Any]:
    """A small whole result."""
    return {
        "task_id": 1,
        "reward": 1.0,
        "info": {
            "task": {"instruction": "Find x", "actions": []},
            "source": "user",
            "reward_info": {"reward": 1.0, "info": {"r_actions": 1.0}},
        },
        "traj": [
            {"role": "system", "content": "Help."},
            {"role": "user", "content": "Find x"},
            {"role": "assistant", "content": None, "tool_calls": [CALL]},
            {"role": "tool", "tool_call_id": "c1", "name": "find", "content": '{"x":   1}'},
            {"role": "assistant", "content": "Found it."},
            {"role": "user", "content": "Thanks ###STOP###"},
        ],
        "trial": trial,
    } | fields


def text(*results: dict[str, Any]) -> bytes:
    """A result file."""
    return json.dumps(list(results)).encode()
