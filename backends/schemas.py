"""Tools by their JSON schemas: what names one exactly, and whether arguments fit.

Nothing is coerced: `25` and `25.0` are one number in JSON, `"25"` is none.
"""

from collections.abc import Iterable
from functools import cache
from hashlib import sha256
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import UNSET, Raw
from msgspec.structs import replace

from core.errors import UsageError
from core.vocabulary.contract import ExecError
from core.vocabulary.episode import ToolSpec

if TYPE_CHECKING:
    from jsonschema.protocols import Validator

NO_ARGUMENTS = Raw(b'{"type":"object","properties":{}}')
_SHOWN = 300


def canonical(value: Any) -> bytes:
    """JSON of plain values with sorted keys and no white space: equal values, equal bytes."""
    return msgspec.json.encode(value, order="sorted")


def plain(value: Any) -> Any:
    """Structs, and JSON kept verbatim in them, as plain values."""
    return msgspec.json.decode(msgspec.json.encode(value))


def digest(value: Any) -> str:
    """`sha256:…` of the canonical JSON."""
    return "sha256:" + sha256(canonical(value)).hexdigest()


def named(tool: ToolSpec) -> ToolSpec:
    """The tool with the digest of its name, description and parameters, however they were written."""
    parameters = None if tool.parameters is UNSET else msgspec.json.decode(tool.parameters)
    return replace(
        tool, schema_digest=digest({"name": tool.name, "description": tool.description, "parameters": parameters})
    )


class Schemas:
    """Checks arguments against the schemas of some tools."""

    def __init__(self, tools: Iterable[ToolSpec]) -> None:
        self.tools = {tool.name: tool for tool in tools}
        self._validators: dict[str, Validator] = {}

    def check(self) -> None:
        """`UsageError` naming the first tool whose schema is none."""
        for name in self.tools:
            self._validator(name)

    def refusal(self, tool: str, args: Raw | bytes) -> ExecError | None:
        """Why the call cannot be carried out as it stands; None if it can."""
        if tool not in self.tools:
            return refused("unknown_tool", f"there is no tool {tool!r}{_near(tool, self.tools)}")
        try:
            given = msgspec.json.decode(args)
        except (ValueError, RecursionError) as error:
            return refused("schema", f"the arguments are no JSON: {error}")
        if not isinstance(given, dict):
            return refused("schema", "the arguments are no JSON object")
        wrong = next(iter(self._validator(tool).iter_errors(given)), None)
        if wrong is None:
            return None
        return refused("schema", f"{wrong.json_path}: {_cut(wrong.message)}")

    def _validator(self, name: str) -> "Validator":
        found = self._validators.get(name)
        if found is None:
            parameters = self.tools[name].parameters
            found = _compiled(name, bytes(NO_ARGUMENTS if parameters is UNSET else parameters))
            self._validators[name] = found
        return found


@cache
def _compiled(name: str, schema: bytes) -> "Validator":
    """By the draft that the schema names, else the current one."""
    from jsonschema import SchemaError
    from jsonschema.validators import Draft202012Validator, validator_for

    try:
        parameters = msgspec.json.decode(schema)
        made: Any = validator_for(parameters, default=Draft202012Validator)
        made.check_schema(parameters)
    except (SchemaError, ValueError) as error:
        reason = error.message if isinstance(error, SchemaError) else str(error)
        raise UsageError(f"its parameters are no JSON schema: {_cut(reason)}", where=f"tool {name}") from error
    validator: Validator = made(parameters)
    return validator


def refused(class_: Any, message: str, *, retryable: bool = False) -> ExecError:
    """An error of an action that changed nothing."""
    return ExecError(class_, retryable, "none", message=message)


def _near(tool: str, known: Iterable[str]) -> str:
    from difflib import get_close_matches

    near = get_close_matches(tool, list(known), n=1)
    return f", but {near[0]!r}" if near else ""


def _cut(text: str) -> str:
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
