"""`trajlog env`: the environments that actions can run in, and how others are mounted."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cli.frame import Json, command
from cli.output import clean, note, print_json, print_json_array, print_table, print_text, style
from cli.settings import settings

if TYPE_CHECKING:
    from backends.contract import Manifest

Name = Annotated[str, typer.Argument(metavar="NAME", help="The environment; trajlog env ls lists them.")]


@command("trajlog env add airline.toml", "trajlog env add airline.toml --json")
def add(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A mount file (TOML); see trajlog env schema.")],
    json: Json = False,
) -> None:
    """Mount an environment that somebody else wrote.

    The file says where its tools are: Python functions, methods or classes, an MCP server, or BFCL's
    tasks. They are loaded once, in a process of their own, and must be sound. The environment's version
    is a digest of the file, the tools' schemas and their code: adding it again after a change makes a new
    one. It is kept in the home folder.

    JSON: {env, name, version, kind, tools, determinism, state, new}.
    """
    from backends import environments, mounts
    from backends.mounts.mount import read
    from core.errors import UsageError

    mount = read(file)
    if mount.name in environments.BUILT_IN:
        raise UsageError(
            f"{mount.name} is an environment of trajlog's own", where=str(file), mend="choose another name"
        )
    backend = mounts.opened(mount)
    backend.close()
    manifest = backend.describe()
    new = mounts.add(mount, file, manifest.version, len(manifest.tools), settings().home)
    if json:
        said = {"env": manifest.name, "name": manifest.environment, "version": manifest.version, "kind": _kind(mount)}
        tools = {"tools": [tool.name for tool in manifest.tools], "determinism": manifest.determinism}
        print_json({**said, **tools, "state": manifest.state, "new": new})
        return
    word = "mounted" if new else "mounted already"
    print_text(f"{word}: {clean(manifest.name)}, {_count(len(manifest.tools), 'tool')}, {manifest.determinism}")


@command("trajlog env ls", "trajlog env ls --json")
def ls(json: Json = False) -> None:
    """List the environments that can be used here.

    Mounted ones with the version they had when they were added; trajlog env check looks at what they are
    now. JSON: [{name, kind, version, versions, tools, added_at, file}].
    """
    from backends import environments, mounts

    home = settings().home
    rows: list[dict[str, Any]] = []
    for name in environments.names(home):
        added = mounts.get(name, home)
        if added is None:
            manifest = environments.find(name, home)().describe()
            row = {"kind": "built in", "version": manifest.version, "versions": 1, "tools": len(manifest.tools)}
            rows.append({"name": name, **row, "added_at": None, "file": None})
        else:
            last = added.versions[-1]
            row = {"kind": added.mount["kind"], "version": last.version, "versions": len(added.versions)}
            rows.append({"name": name, **row, "tools": last.tools, "added_at": last.added_at, "file": added.file})
    if json:
        print_json_array(rows)
        return
    heads = ("name", "kind", "version", "versions", "tools", "added_at", "file")
    print_table(heads, [[_cell(row, head) for head in heads] for row in rows], right=("versions", "tools"))
    if all(row["file"] is None for row in rows):
        note("none is mounted yet: trajlog env add FILE")


@command("trajlog env tools airline", "trajlog env tools airline --json")
def tools(name: Name, json: Json = False) -> None:
    """List the tools of an environment, as a planner is shown them.

    JSON: [{name, description, parameters, schema_digest, reads, open_world}].
    """
    from backends import environments

    backend = environments.find(name, settings().home)()
    backend.close()
    manifest = backend.describe()
    if json:
        print_json_array(_tool(manifest, place) for place in range(len(manifest.tools)))
        return
    rows = [_tool(manifest, place) for place in range(len(manifest.tools))]
    table = [(row["name"], _parameters(row["parameters"]), _effect(row), _first(row["description"])) for row in rows]
    print_table(("tool", "parameters", "effect", "description"), table)


@command("trajlog env check airline", "trajlog env check airline --json")
def check(name: Name, json: Json = False) -> None:
    """Try an environment, everything twice, and compare.

    Both times everything must come out the same; tools that answer otherwise are named. Of BFCL every
    task's gold calls are made twice, and judged by the benchmark's state and response checks. Exit 0: it
    is sound; 1: it is not; 4: it cannot be used.

    JSON: {env, version, added, changed, tools, state, determinism, examples, tasks, calls, failing,
    nondeterministic, problems, printed}.
    """
    from backends import environments, mounts
    from backends.mounts import checking
    from cli.progress import Progress

    home = settings().home
    added = mounts.get(name, home)
    make = environments.find(name, home)
    with Progress("checking", unit="tasks") as bar:
        found = checking.check(make, bar.update)
    before = None if added is None else added.versions[-1].version
    changed = before is not None and before != found.version
    if json:
        print_json({**found.as_json(), "added": before, "changed": changed})
    else:
        _print_checked(found, before if changed else None)
    if found.problems:
        raise typer.Exit(1)


@command("trajlog env schema", "trajlog env schema > mount.schema.json")
def schema() -> None:
    """Print the JSON schema of a mount file."""
    from backends.mounts import mount
    from cli.output import json_text

    print_text(json_text(mount.schema(), indent=2))


def _print_checked(found: Any, before: str | None) -> None:
    print_text(
        f"{clean(found.env)}: {_count(found.tools, 'tool')}, {found.determinism}, state {found.state or 'hidden'}"
    )
    if before is not None:
        print_text(f"changed since it was added (then @{clean(before)}): trajlog env add makes it a new version")
    if found.tasks:
        print_text(f"{_count(found.tasks, 'task')}, {_count(found.calls, 'gold call')}, {found.failing:,} of them fail")
    elif found.examples:
        print_text(f"{_count(found.examples, 'example')}, each made twice")
    else:
        print_text("no [[examples]] in its mount file: no tool was tried")
    for problem in found.problems:
        print_text(f"{style('✗', 'red')} {clean(problem)}")
    if found.printed:
        note(f"its tools print; the last line: {found.printed.splitlines()[-1]}")


def _kind(mount: Any) -> str:
    return str(mount.__struct_config__.tag)


def _tool(manifest: "Manifest", place: int) -> dict[str, Any]:
    tool = manifest.tools[place]
    return {
        "name": tool.name,
        "description": tool.description,
        "parameters": tool.parameters,
        "schema_digest": tool.schema_digest,
        "reads": tool.name in manifest.reads,
        "open_world": manifest.open_world.get(tool.name, []),
    }


def _parameters(schema: Any) -> str:
    """The names, optional ones in brackets."""
    import msgspec

    found = msgspec.json.decode(schema) if isinstance(schema, msgspec.Raw) else {}
    required = found.get("required", [])
    names = found.get("properties", {})
    return ", ".join(name if name in required else f"[{name}]" for name in names) or "-"


def _effect(row: dict[str, Any]) -> str:
    reach = ",".join(row["open_world"])
    return reach or ("reads" if row["reads"] else "")


def _first(text: str | None) -> str | None:
    return text.strip().splitlines()[0] if text and text.strip() else None


def _cell(row: dict[str, Any], head: str) -> Any:
    return row[head][:19] + "Z" if head == "added_at" and row[head] else row[head]


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
