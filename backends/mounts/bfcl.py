"""BFCL's multi-turn tasks: their environment, their gold calls, and the checks of a run against them.

`pip install --no-deps bfcl-eval mpmath`, in whatever interpreter the mount names. Gold calls are Python
expressions; they are parsed, never evaluated. Every episode has objects of its own: the package's own
checker keeps them, and then misjudges correct runs.
"""

import ast
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec
from msgspec import UNSET, Raw
from msgspec.structs import replace

from backends.contract import ResetSpec
from backends.mounts import mount as mounts
from backends.mounts.hosted import Hosted, Loaded, listed_specs
from backends.mounts.mount import Bfcl
from core.errors import BadRecord, Unavailable
from core.vocabulary.contract import Check, ToolCall
from core.vocabulary.task import InitialConditions

PACKAGE: Final = "bfcl_eval"
SOURCE: Final = f"{PACKAGE}.eval_checker.multi_turn_eval.func_source_code"
CATEGORIES: Final = ("base", "long_context", "miss_func", "miss_param")
CLASSES: Final = {
    "GorillaFileSystem": "gorilla_file_system",
    "MathAPI": "math_api",
    "MessageAPI": "message_api",
    "TwitterAPI": "posting_api",
    "TicketAPI": "ticket_api",
    "TradingBot": "trading_bot",
    "TravelAPI": "travel_booking",
    "VehicleControlAPI": "vehicle_control",
}


class Task(msgspec.Struct, frozen=True):
    """One task: what the user says in each turn, the world before, and the gold calls of each turn."""

    id: str
    turns: list[str]
    initial: InitialConditions
    gold: list[list[ToolCall]]

    @property
    def calls(self) -> list[ToolCall]:
        return [call for turn in self.gold for call in turn]


class Turn(NamedTuple):
    """What a run's calls of one turn brought back, and the digest of the state after them."""

    results: list[bytes]
    state: str


class _Entry(msgspec.Struct):
    id: str
    question: list[list[dict[str, str]]]
    initial_config: dict[str, Raw]
    involved_classes: list[str]


class _Answer(msgspec.Struct):
    id: str
    ground_truth: list[list[str]]


def engine(mount: Bfcl) -> Hosted:
    """The engine of a BFCL mount: it knows each task's initial conditions by the task's id."""
    given = {
        "path": [str(mounts.place(mount, folder).resolve()) for folder in mount.path],
        "objects": [f"{SOURCE}.{module}:{name}" for name, module in CLASSES.items()],
        "state": {"load": "_load_scenario"},
        "errors": [*msgspec.to_builtins(mount.errors), {"pattern": r'^\{"error":', "class": "precondition"}],
        "results": "text",
        "error_text": "Error during execution: {error}",
        "unknown_text": "Error during execution: name '{tool}' is not defined",
        "result_bytes": mount.result_bytes,
        "fresh": "copy",
    }
    try:
        made = Hosted(mount, given, _specs)
    except Unavailable as error:
        if f"No module named '{PACKAGE}'" not in str(error):
            raise
        python = mounts.interpreter(mount)
        mend = f"{python} -m pip install --no-deps bfcl-eval mpmath"
        raise Unavailable(f"{python} has no bfcl-eval", where=f"mount {mount.name}", mend=mend) from None
    known: dict[str, InitialConditions] = {}

    def initial(spec: ResetSpec) -> ResetSpec:
        if spec.initial.state is not UNSET or spec.task is None:
            return spec
        if not known:
            known.update((task.id, task.initial) for task in tasks(made))
        found = known.get(spec.task.rpartition("/")[2])
        return spec if found is None else replace(spec, initial=found)

    made.initial = initial
    return made


def tasks(made: Hosted, categories: Sequence[str] = CATEGORIES) -> Iterator[Task]:
    """The tasks of these categories. `BadRecord` for data that is not as expected."""
    order = {tool.name: tool.order for tool in made.loaded.tools}
    data = _data(made.loaded)
    for category in categories:
        file = f"BFCL_v4_multi_turn_{category}.json"
        answers = {answer.id: answer for answer in _lines(data / "possible_answer" / file, _Answer)}
        for entry in _lines(data / file, _Entry):
            if entry.id not in answers or len(answers[entry.id].ground_truth) != len(entry.question):
                raise BadRecord("turns and gold turns are not as many", where=f"{file}: {entry.id}")
            yield _task(entry, answers[entry.id], order)


def parse(text: str, order: dict[str, list[str]]) -> ToolCall:
    """A gold call, such as `mv('a.txt', destination='b')`, with its arguments by name. `BadRecord`."""
    try:
        call = ast.parse(text, mode="eval").body
        assert isinstance(call, ast.Call) and isinstance(call.func, ast.Name)
        names = order.get(call.func.id, [])
        given = {name: ast.literal_eval(value) for name, value in zip(names, call.args, strict=False)}
        if len(call.args) > len(names):
            raise ValueError("it has more arguments than the tool")
        given |= {str(keyword.arg): ast.literal_eval(keyword.value) for keyword in call.keywords}
        return ToolCall(call.func.id, Raw(msgspec.json.encode(given)))
    except (SyntaxError, ValueError, TypeError, RecursionError, AssertionError) as error:
        raise BadRecord(f"no gold call that can be read: {error or 'it is no call'}", where=text[:80]) from error


def turns(task: Task, results: Sequence[bytes], states: Sequence[str]) -> list[Turn]:
    """A run of the task's gold calls cut into turns; `states` as in `Replayed`."""
    found, at = [], 0
    for calls in task.gold:
        found.append(Turn(list(results[at : at + len(calls)]), states[at + len(calls)]))
        at += len(calls)
    return found


def judge(run: Sequence[Turn], gold: Sequence[Turn]) -> list[Check]:
    """State and response checks, turn by turn, as the benchmark makes them: after each turn with gold
    calls the state must be the gold one, and what those calls brought back must have come back by then,
    in whatever order."""
    checks = []
    so_far: Counter[bytes] = Counter()
    for number, wanted in enumerate(gold, 1):
        made = run[number - 1] if number <= len(run) else Turn([], run[-1].state if run else "")
        so_far.update(made.results)
        if not wanted.results:
            continue
        missing = Counter(wanted.results) - so_far
        same = made.state == wanted.state
        checks.append(Check(f"turn-{number}-state", "state", "pass" if same else "fail"))
        detail = Raw(msgspec.json.encode([text.decode(errors="replace") for text in missing])) if missing else UNSET
        checks.append(Check(f"turn-{number}-response", "answer", "fail" if missing else "pass", detail=detail))
    return checks


def _task(entry: _Entry, answer: _Answer, order: dict[str, list[str]]) -> Task:
    state: dict[str, Any] = {
        "objects": {name: entry.initial_config.get(name, Raw(b"{}")) for name in entry.involved_classes}
    }
    if "long_context" in entry.id:
        state["options"] = {"long_context": True}
    return Task(
        entry.id,
        ["\n".join(said["content"] for said in turn) for turn in entry.question],
        InitialConditions(state=Raw(msgspec.json.encode(state))),
        [[parse(text, order) for text in turn] for turn in answer.ground_truth],
    )


def _specs(loaded: Loaded) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {}
    for module in CLASSES.values():
        found |= listed_specs(_data(loaded) / "multi_turn_func_doc" / f"{module}.json")
    return found


def _data(loaded: Loaded) -> Path:
    return Path(loaded.roots[PACKAGE]) / "data"


def _lines(file: Path, kind: Any) -> list[Any]:
    try:
        return [msgspec.json.decode(line, type=kind) for line in file.read_bytes().splitlines() if line.strip()]
    except (OSError, msgspec.DecodeError) as error:
        raise BadRecord(f"no BFCL data that can be read: {error}", where=str(file)) from error
