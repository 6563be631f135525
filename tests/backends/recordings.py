"""Episodes as tau-bench records them, made up with the airline's tools run bare."""

import copy
import importlib.util
import json
import random
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

AIRLINE = Path(__file__).parent / "airline"
MOUNT = AIRLINE / "mount.toml"


@cache
def airline() -> Any:
    """The airline's package, as its own process would import it."""
    name = "airline_tools"
    spec = importlib.util.spec_from_file_location(name, AIRLINE / name / "__init__.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def results(count: int, *, seed: int = 1, users: int = 40, calls: int = 8) -> list[dict[str, Any]]:
    """`count` results of two trials a task, `calls` tool calls each; one call in nine is wrong. With 8
    calls an episode has 27 messages."""
    chance = random.Random(seed)
    world = airline().load_data(users)
    return [_result(number, chance, copy.deepcopy(world), calls) for number in range(count)]


def bare(plans: list[list[tuple[str, dict[str, Any]]]], world: Any) -> list[list[str]]:
    """The calls of each plan on a fresh copy of the world, one after the other, and nothing else."""
    tools = {tool.get_info()["function"]["name"]: tool.invoke for tool in airline().ALL_TOOLS}
    answers = []
    for plan in plans:
        data = copy.deepcopy(world)
        answers.append([_invoke(tools, data, name, args) for name, args in plan])
    return answers


def plans(found: list[dict[str, Any]]) -> list[list[tuple[str, dict[str, Any]]]]:
    """The calls of results, for `bare`."""
    return [
        [
            (call["function"]["name"], json.loads(call["function"]["arguments"]))
            for message in result["traj"]
            for call in message.get("tool_calls") or ()
        ]
        for result in found
    ]


def _invoke(tools: dict[str, Any], data: Any, name: str, args: dict[str, Any]) -> str:
    if name not in tools:
        return f"Unknown action {name}"
    try:
        return str(tools[name](data=data, **args))
    except Exception as error:
        return f"Error: {error}"


def _result(number: int, chance: random.Random, data: Any, calls: int) -> dict[str, Any]:
    tools = {tool.get_info()["function"]["name"]: tool.invoke for tool in airline().ALL_TOOLS}
    user = chance.choice(list(data["users"]))
    said: list[dict[str, Any]] = [
        {"role": "system", "content": "# Airline policy"},
        {"role": "user", "content": "Hi, I need help with my trip."},
        {"role": "assistant", "content": "What is your user id?"},
        {"role": "user", "content": f"It is {user}."},
    ]
    for place, (name, args) in enumerate(_calls(chance, data, user, calls)):
        id = f"call_{number}_{place}"
        function = {"name": name, "arguments": json.dumps(args)}
        call = {"id": id, "type": "function", "function": function}
        said.append({"role": "assistant", "content": None, "tool_calls": [call]})
        said.append({"role": "tool", "tool_call_id": id, "name": name, "content": _invoke(tools, data, name, args)})
        if place % 3 == 2:
            said.append({"role": "assistant", "content": "Let me look on."})
            said.append({"role": "user", "content": "Yes, please."})
    said += [{"role": "assistant", "content": "All done."}, {"role": "user", "content": "Thanks. ###STOP###"}]
    said.append({"role": "assistant", "content": "Bye."})
    task = {"user_id": user, "actions": [], "instruction": f"You are {user}.", "outputs": []}
    info = {"task": task, "reward_info": {"reward": float(number % 4 != 0)}}
    return {"task_id": number // 2, "trial": number % 2, "reward": float(number % 4 != 0), "info": info, "traj": said}


def _calls(chance: random.Random, data: Any, user: str, count: int) -> Iterator[tuple[str, dict[str, Any]]]:
    """Calls as an agent makes them: looks, sums, changes; the data is changed as they are made."""
    yield "get_user_details", {"user_id": user}
    for _ in range(count - 1):
        code = chance.choice(data["users"][user]["reservations"])
        flight = chance.choice(list(data["flights"].values()))
        date = f"2026-05-{chance.randrange(1, 11):02}"
        where = {"origin": flight["origin"], "destination": flight["destination"], "date": date}
        yield chance.choice(
            [
                ("get_reservation_details", {"reservation_id": code}),
                ("search_direct_flight", where),
                ("search_direct_flight", where),
                ("update_bags", {"reservation_id": code, "bags": chance.randrange(4)}),
                ("cancel_reservation", {"reservation_id": code}),
                (
                    "book_reservation",
                    {
                        "user_id": user,
                        "flight_number": flight["flight_number"],
                        "date": date,
                        "payment_id": next(iter(data["users"][user]["payment_methods"])),
                    },
                ),
                ("calculate", {"expression": f"{chance.randrange(90)} * 2 + {chance.randrange(9)}"}),
                ("think", {"thought": "What now?"}),
                chance.choice(
                    [
                        ("get_reservation_details", {"reservation_id": "NOPE"}),
                        ("find_hotel", {"city": "OSL"}),
                        ("calculate", {"formula": "1+1"}),
                    ]
                ),
            ]
        )
