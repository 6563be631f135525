"""What a mount says of its tools, as a manifest."""

from collections.abc import Callable
from fnmatch import fnmatchcase
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Raw

from backends.contract import Determinism, Manifest, Reach
from backends.mounts.mount import Mount, version
from backends.schemas import Schemas, named
from core.errors import Unavailable, UsageError
from core.vocabulary.episode import ToolSpec

if TYPE_CHECKING:
    from backends.mounts.hosted import Loaded

Specs = Callable[["Loaded"], dict[str, dict[str, Any]]]
"""What is known of tools besides their signatures: by name, `description` and `parameters`."""

_TYPES = {"dict": "object", "float": "number", "tuple": "array", "list": "array", "int": "integer", "str": "string"}
_ANY = frozenset({"any", "Any"})


def manifest(mount: Mount, loaded: "Loaded", listed: dict[str, dict[str, Any]]) -> Manifest:
    """The manifest of Python tools."""
    tools = []
    for tool in loaded.tools:
        spec = listed.get(tool.name, {})
        given = spec.get("parameters")
        parameters = tool.parameters if given is None else Raw(msgspec.json.encode(as_json_schema(given)))
        tools.append(ToolSpec(tool.name, description=spec.get("description", tool.description), parameters=parameters))
    found = files(mount, {name: Path(file) for name, file in loaded.files.items()})
    return made(mount, tools, found, "D0", state=loaded.readable, versions={"python": loaded.python})


def made(
    mount: Mount,
    tools: list[ToolSpec],
    files: dict[str, str],
    determinism: Determinism,
    *,
    state: bool,
    versions: dict[str, str],
    open_world: dict[str, list[Reach]] | None = None,
    reads: list[str] | None = None,
) -> Manifest:
    """The manifest of a mount with these tools. `Unavailable` where a schema is none."""
    tools = [named(tool) for tool in tools]
    try:
        Schemas(tools).check()
    except UsageError as error:
        raise Unavailable(str(error), where=f"mount {mount.name}") from error
    names = [tool.name for tool in tools]
    reaching = dict(open_world or {})
    for pattern, reach in mount.open_world.items():
        for name in _matching(pattern, names, mount, "open_world"):
            reaching[name] = reach
    reading = {name for pattern in mount.reads for name in _matching(pattern, names, mount, "reads")}
    chosen = mount.determinism or determinism
    return Manifest(
        environment=mount.name,
        version=version(mount, tools, files),
        backend="mount",
        determinism=chosen,
        tools=tools,
        snapshots=chosen == "D0",
        state=state,
        reads=[name for name in names if name in reading or name in (reads or ())],
        open_world={name: reaching[name] for name in names if reaching.get(name)},
        versions=versions,
    )


def files(mount: Mount, code: dict[str, Path]) -> dict[str, str]:
    """SHA-256 of each code file and of those that the mount names, by their place. `Unavailable`."""
    found = dict(code)
    for pattern in mount.files:
        folder, rest = (Path("/"), pattern[1:]) if pattern.startswith("/") else (Path(mount.folder), pattern)
        matching = [file for file in folder.glob(rest) if file.is_file()]
        if not matching:
            raise Unavailable(f"files: nothing matches {pattern}", where=f"mount {mount.name}")
        found.update((str(file.relative_to(folder)), file) for file in matching)
    try:
        return {name: sha256(file.read_bytes()).hexdigest() for name, file in sorted(found.items())}
    except OSError as error:
        raise Unavailable(f"{error.filename} cannot be read: {error.strerror}", where=f"mount {mount.name}") from error


def as_json_schema(schema: Any) -> Any:
    """A schema in which types may have Python's names, as function catalogues write them."""
    if isinstance(schema, list):
        return [as_json_schema(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    found = {name: as_json_schema(value) for name, value in schema.items()}
    kind = schema.get("type")
    if isinstance(kind, str):
        if kind in _ANY:
            del found["type"]
        else:
            found["type"] = _TYPES.get(kind, kind)
    return found


def _matching(pattern: str, names: list[str], mount: Mount, where: str) -> list[str]:
    found = [name for name in names if fnmatchcase(name, pattern)]
    if not found:
        raise Unavailable(f"{where} names {pattern!r}, but no tool is called so", where=f"mount {mount.name}")
    return found
