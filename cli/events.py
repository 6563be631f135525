"""`trajlog events`."""

from typing import Annotated, Any

import typer

from cli.frame import Json, command
from cli.output import json_text, print_json, print_json_array, print_table, print_text, style


def _types(incomplete: str) -> list[str]:
    from core.vocabulary import TYPES

    return [name for name in TYPES if name.startswith(incomplete)]


@command(
    "trajlog events",
    "trajlog events ActionSubmitted",
    "trajlog events NoteAdded --json",
)
def events(
    type_: Annotated[
        str | None, typer.Argument(metavar="TYPE", help="One event type, by its name.", autocompletion=_types)
    ] = None,
    json: Json = False,
) -> None:
    """Print the event vocabulary.

    Of each type its fields, which of them are private, and an example that `trajlog append` accepts. A
    provisional type is written by nothing yet and may still change.
    """
    from core.vocabulary import catalogue

    found = catalogue()
    if type_ is not None:
        entry = _one(type_, found)
        if json:
            print_json(entry)
        else:
            _print(entry)
    elif json:
        print_json_array(found)
    else:
        print_table(("type", "status", "what it says"), [(e["type"], e["status"], summary(e["type"])) for e in found])


def summary(type_: str) -> str:
    """The first sentence about a type."""
    from core.vocabulary import TYPES

    text = " ".join((TYPES[type_].__doc__ or "").split())
    return text.partition(". ")[0].removesuffix(".")


def _one(type_: str, found: list[dict[str, Any]]) -> dict[str, Any]:
    from difflib import get_close_matches

    from core.errors import NotFound

    for entry in found:
        if entry["type"] == type_:
            return entry
    names = {entry["type"].lower(): entry["type"] for entry in found}
    near = [names[name] for name in get_close_matches(type_.lower(), names)]
    raise NotFound(
        "no such event type",
        where=repr(type_),
        mend=f"did you mean {' or '.join(near)}?" if near else "trajlog events lists them",
    )


def _print(entry: dict[str, Any]) -> None:
    print_text(f"{style(entry['type'], 'bold')}  {entry['status']}")
    print_text(f"{summary(entry['type'])}.\n")
    print_table(
        ("field", "type", "", "", "meaning"),
        [
            (
                field["name"],
                field["type"],
                "required" if field["required"] else "",
                field["visibility"],
                field["meaning"] or "",
            )
            for field in entry["fields"]
        ],
    )
    print_text(f"\n{json_text(entry['example'], indent=2)}")
