"""Puts what an importer kept in `extra` back to where it stood."""

import re
from typing import Any

from eventlog.interchange.atif.schema import OBJECTS, TYPES, Field

Json = dict[str, Any]

_ITEM = re.compile(r"(.+)\[(\d+)\]", re.DOTALL)


def put_back(target: Json, rest: Json, kind: str | None = None) -> None:
    """Put the fields of `rest` into `target`, inside what is there already. With a `kind`, an object
    of ATIF's, only those that it may have."""
    for name, value in rest.items():
        found = _ITEM.fullmatch(name) if name not in (OBJECTS[kind] if kind else target) else None
        base, index = (found[1], int(found[2])) if found else (name, None)
        field = OBJECTS[kind].get(base) if kind else None
        if kind and field is None:
            continue
        inner = field.type if field and field.type in OBJECTS else None
        there = target.get(base)
        if index is not None and isinstance(there, list):
            there = there[index] if index < len(there) else None
        if isinstance(there, dict) and isinstance(value, dict):
            put_back(there, value, inner)
        elif base not in target and (field is None or _fits(field, value)):
            target[name if field is None else base] = value


def _fits(field: Field, value: Any) -> bool:
    items = value if field.many and isinstance(value, list) else [value]
    if field.many != isinstance(value, list):
        return field.type == "content"
    if field.type in OBJECTS:
        return all(isinstance(item, dict) for item in items)
    return all(TYPES[field.type][1](item) for item in items)
