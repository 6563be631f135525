"""BFCL's gold plans in one process, by the shortest loop there is: objects anew for every task, each call
made and its result written as a model is shown it. Nothing of ours is imported here.

Prints how many calls there are, then, for every line that comes in, the seconds that all plans took.
"""

import ast
import copy
import importlib
import json
import sys
import time
from pathlib import Path
from typing import Any

import bfcl_eval
from bfcl_eval.constants.executable_backend_config import CLASS_FILE_PATH_MAPPING, STATELESS_CLASSES

DATA = Path(bfcl_eval.__file__).parent / "data"
CATEGORIES = ("base", "long_context", "miss_func", "miss_param")

Call = tuple[str, list[Any], dict[str, Any]]


def lines(file: Path) -> list[Any]:
    return [json.loads(line) for line in file.read_text().splitlines()]


def call(text: str) -> Call:
    found = ast.parse(text, mode="eval").body
    assert isinstance(found, ast.Call) and isinstance(found.func, ast.Name)
    named = {str(one.arg): ast.literal_eval(one.value) for one in found.keywords}
    return found.func.id, [ast.literal_eval(one) for one in found.args], named


def run(tasks: list[tuple[Any, list[Call]]]) -> int:
    size = 0
    for task, calls in tasks:
        made = []
        for name in task["involved_classes"]:
            one = getattr(importlib.import_module(CLASS_FILE_PATH_MAPPING[name]), name)()
            if name not in STATELESS_CLASSES:
                config = copy.deepcopy(task["initial_config"].get(name, {}))
                one._load_scenario(config, long_context="long_context" in task["id"])
            made.append(one)
        for name, args, named in calls:
            owner = next(one for one in made if hasattr(one, name))
            result = getattr(owner, name)(*args, **named)
            size += len(shown(result))
    return size


def shown(result: Any) -> str:
    if isinstance(result, dict):
        try:
            return json.dumps(result)
        except TypeError:
            return str(result)
    return str(result)


def main() -> None:
    tasks = []
    for category in CATEGORIES:
        file = f"BFCL_v4_multi_turn_{category}.json"
        gold = {one["id"]: one["ground_truth"] for one in lines(DATA / "possible_answer" / file)}
        tasks += [(one, [call(text) for turn in gold[one["id"]] for text in turn]) for one in lines(DATA / file)]
    print(sum(len(calls) for _, calls in tasks), flush=True)
    for _ in sys.stdin:
        begun = time.perf_counter()
        run(tasks)
        print(time.perf_counter() - begun, flush=True)


if __name__ == "__main__":
    main()
