"""The phone's twelve tools: what each takes, and what it does to the state.

A tool returns its result as plain JSON, or raises `Refusal`: then it has changed nothing.
"""

from collections.abc import Callable
from typing import Any, Final, NamedTuple

from msgspec import Raw

from backends.phone import world
from backends.phone.world import Perturbations, State
from backends.schemas import canonical, named
from core.vocabulary.contract import ErrorClass
from core.vocabulary.episode import ToolSpec

Args = dict[str, Any]


class Refusal(Exception):
    """The tool cannot do it, and why."""

    def __init__(self, class_: ErrorClass, message: str) -> None:
        super().__init__(class_, message)
        self.class_ = class_
        self.message = message


class Tool(NamedTuple):
    """`app`: whose permission it needs; `reads`: it changes nothing."""

    spec: ToolSpec
    app: str
    reads: bool
    run: Callable[[State, Args, Perturbations], Any]


def get_time(state: State, args: Args, how: Perturbations) -> Any:
    return {"time": state["clock"], "do_not_disturb": state["do_not_disturb"]}


def wait(state: State, args: Args, how: Perturbations) -> Any:
    rung = world.wait(state, args["minutes"], how.arrivals)
    return {"time": state["clock"], "notifications": [one for one in rung if not one["silenced"]]}


def set_do_not_disturb(state: State, args: Args, how: Perturbations) -> Any:
    state["do_not_disturb"] = args["on"]
    return {"do_not_disturb": args["on"]}


def list_notifications(state: State, args: Args, how: Perturbations) -> Any:
    return _listed([dict(one) for one in state["notifications"]], how)


def list_notes(state: State, args: Args, how: Perturbations) -> Any:
    wanted = args.get("query", "").casefold()
    return _listed(
        [
            {"note_id": id, "title": note["title"]}
            for id, note in state["notes"].items()
            if wanted in f"{note['title']}\n{note['text']}".casefold()
        ],
        how,
    )


def read_note(state: State, args: Args, how: Perturbations) -> Any:
    return {"note_id": args["note_id"], **_row(state, "notes", args["note_id"])}


def create_note(state: State, args: Args, how: Perturbations) -> Any:
    if len(state["notes"]) >= state["note_limit"]:
        raise Refusal("precondition", f"the notebook is full: it holds {state['note_limit']} notes")
    return {"note_id": world.add(state, "notes", {"title": args["title"], "text": args.get("text", "")})}


def edit_note(state: State, args: Args, how: Perturbations) -> Any:
    note = _row(state, "notes", args["note_id"])
    text = f"{note['text']}\n{args['text']}" if args.get("append") and note["text"] else args["text"]
    state["notes"][args["note_id"]] = {**note, "text": text}
    return {"note_id": args["note_id"], "text": text}


def delete_note(state: State, args: Args, how: Perturbations) -> Any:
    _row(state, "notes", args["note_id"])
    del state["notes"][args["note_id"]]
    return {"deleted": args["note_id"]}


def list_alarms(state: State, args: Args, how: Perturbations) -> Any:
    return _listed([{"alarm_id": id, **alarm} for id, alarm in state["alarms"].items()], how)


def set_alarm(state: State, args: Args, how: Perturbations) -> Any:
    for id, alarm in state["alarms"].items():
        if alarm["on"] and alarm["time"] == args["time"]:
            raise Refusal("conflict", f"alarm {id} rings at {args['time']} already")
    row = {"time": args["time"], "label": args.get("label", ""), "on": True}
    return {"alarm_id": world.add(state, "alarms", row), **row}


def delete_alarm(state: State, args: Args, how: Perturbations) -> Any:
    _row(state, "alarms", args["alarm_id"])
    del state["alarms"][args["alarm_id"]]
    return {"deleted": args["alarm_id"]}


def _row(state: State, table: str, id: str) -> dict[str, Any]:
    if id not in state[table]:
        raise Refusal("not_found", f"there is no {table[:-1]} {id!r}")
    row: dict[str, Any] = state[table][id]
    return row


def _listed(rows: list[Any], how: Perturbations) -> list[Any]:
    return rows[::-1] if how.reordered else rows


_TEXT = {"type": "string"}
_NAME = {"type": "string", "minLength": 1, "maxLength": 200}
_NOTE_ID = {"type": "string", "description": "As list_notes gives it."}
_ALARM_ID = {"type": "string", "description": "As list_alarms gives it."}
_TIME = {"type": "string", "pattern": "^([01][0-9]|2[0-3]):[0-5][0-9]$", "description": "HH:MM, 24 hours."}


def _tool(
    run: Callable[[State, Args, Perturbations], Any],
    description: str,
    app: str,
    *,
    reads: bool = False,
    required: tuple[str, ...] = (),
    **properties: Any,
) -> Tool:
    parameters = {
        "type": "object",
        "properties": properties,
        "required": list(required),
        "additionalProperties": False,
    }
    spec = ToolSpec(run.__name__, description, Raw(canonical(parameters)))
    return Tool(named(spec), app, reads, run)


TOOLS: Final = {
    tool.spec.name: tool
    for tool in (
        _tool(get_time, "The phone's time, and whether it is silenced.", "clock", reads=True),
        _tool(
            wait,
            "Wait, and say what rang or arrived meanwhile.",
            "clock",
            required=("minutes",),
            minutes={"type": "integer", "minimum": 1, "maximum": 1440},
        ),
        _tool(
            set_do_not_disturb,
            "Silence notifications and alarms, or let them ring again.",
            "settings",
            required=("on",),
            on={"type": "boolean"},
        ),
        _tool(list_notifications, "Everything that rang or arrived, silenced or not.", "notifications", reads=True),
        _tool(list_notes, "Notes by id and title: those with the query in them.", "notes", reads=True, query=_TEXT),
        _tool(read_note, "A note in full.", "notes", reads=True, required=("note_id",), note_id=_NOTE_ID),
        _tool(create_note, "Write a new note.", "notes", required=("title",), title=_NAME, text=_TEXT),
        _tool(
            edit_note,
            "Replace a note's text, or append a line to it.",
            "notes",
            required=("note_id", "text"),
            note_id=_NOTE_ID,
            text=_TEXT,
            append={"type": "boolean"},
        ),
        _tool(delete_note, "Delete a note.", "notes", required=("note_id",), note_id=_NOTE_ID),
        _tool(list_alarms, "All alarms.", "alarms", reads=True),
        _tool(set_alarm, "Set a new alarm.", "alarms", required=("time",), time=_TIME, label=_TEXT),
        _tool(delete_alarm, "Delete an alarm.", "alarms", required=("alarm_id",), alarm_id=_ALARM_ID),
    )
}
