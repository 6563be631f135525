"""The reference pages of the user guide, written from the code: `python -m cli.reference FOLDER`."""

import sys
from pathlib import Path
from typing import Any

import typer
from typer import _click

from cli import tree
from cli.frame import COMMON, load
from cli.output import json_text

NOTICE = "<!-- Written from the code by `make docs`. -->\n"


def main() -> None:
    folder = Path(sys.argv[1])
    for name, text in (("cli.md", cli()), ("events.md", events())):
        (folder / name).write_text(text, encoding="utf-8")


def cli() -> str:
    """docs/cli.md."""
    from cli.main import app

    root = typer.Context(typer.main.get_command(app), info_name="trajlog")
    parts = [
        NOTICE,
        "# Commands\n",
        "Accepted by every command, before or after its name:\n",
        _options(COMMON, root),
        "\n" + EXITS,
    ]
    for name in tree.COMMANDS:
        parts.append(_command(name))
    return "\n".join(parts)


EXITS = """\
A flag goes before the environment (`TRAJLOG_DB`, `TRAJLOG_LOG`, `TRAJLOG_HOME`, `TRAJLOG_BLOBS`), that
before the config file, that before the default; `trajlog config` shows which won.

Data goes to stdout, progress and notes to stderr. `--json`: lists print one array, single things one
object, streams a line each; times are RFC 3339 in UTC with microseconds, unknown ones null.

| exit code | meaning |
|---|---|
| 0 | done, an empty list too |
| 1 | bad input, a failed check, something not found |
| 2 | the command line is wrong |
| 3 | incomplete |
| 4 | the database, the disk or the environment cannot be used |
| 130 | interrupted |
"""


def events() -> str:
    """docs/events.md."""
    from core.vocabulary import catalogue

    parts = [
        NOTICE,
        "# Events\n",
        "`trajlog events TYPE` prints the same. Examples are lines that `trajlog append` accepts. A provisional",
        "type is written by nothing yet and may still change. Private fields are those that are sealed when an",
        "event has an owner.\n",
    ]
    for entry in catalogue():
        parts += _event(entry)
    return "\n".join(parts)


def _command(name: str) -> str:
    command = load(name)
    assert command is not None
    context = typer.Context(command, info_name=f"trajlog {name}")
    usage = " ".join(command.collect_usage_pieces(context))
    own = [param for param in command.get_params(context) if param not in COMMON and param.name != "help"]
    examples = (command.epilog or "").removeprefix("\b\nExamples:\n")
    lines = [f"## trajlog {name}\n", f"{_paragraphs(command.help or '')}\n", f"```\ntrajlog {name} {usage}\n```\n"]
    if own:
        lines.append(_options(own, context) + "\n")
    lines.append("```console\n" + "\n".join(f"$ {line.strip()}" for line in examples.splitlines()) + "\n```\n")
    return "\n".join(lines)


def _paragraphs(text: str) -> str:
    return text.replace("\b\n", "").strip()


def _options(params: list[_click.Parameter], context: _click.Context) -> str:
    rows = ["| | |", "|---|---|"]
    for param in params:
        record = param.get_help_record(context)
        if record is not None:
            rows.append(f"| `{_cell(record[0])}` | {_cell(record[1])} |")
    return "\n".join(rows)


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def _event(entry: dict[str, Any]) -> list[str]:
    from cli.events import summary

    rows = ["| field | type | | | meaning |", "|---|---|---|---|---|"]
    for field in entry["fields"]:
        cells = (
            f"`{field['name']}`",
            field["type"],
            "required" if field["required"] else "",
            field["visibility"],
            field["meaning"] or "",
        )
        rows.append(f"| {' | '.join(map(_cell, cells))} |")
    status = "" if entry["status"] == "stable" else f" ({entry['status']})"
    example = json_text(entry["example"], indent=2)
    return [
        f"## {entry['type']}{status}\n",
        f"{summary(entry['type'])}.\n",
        *(rows if entry["fields"] else ["No fields."]),
        f"\n```json\n{example}\n```\n",
    ]


if __name__ == "__main__":
    main()
