"""The names that would have been right where msgspec refused one: it says only which was wrong, and where."""

import re
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec.inspect as inspect

_STEP = re.compile(r"\.([^.\[`]+)|\[([^\]]*)\]")


def choices(said: str, type_: Any) -> list[str]:
    """What a value of `type_` may be at the place that msgspec's message names; nothing if it is of something else."""
    what, _, place = said.partition(" - at `$")
    if "Invalid enum value" not in what:
        return []
    nodes = list(_members([inspect.type_info(type_)]))
    for field, _ in _STEP.findall(place):
        nodes = list(_members(_below(nodes, field)))
    return list(dict.fromkeys(str(value) for node in nodes for value in _values(node)))


def _members(nodes: Iterable[inspect.Type]) -> Iterator[inspect.Type]:
    """Unions and annotations taken apart."""
    for node in nodes:
        if isinstance(node, inspect.UnionType):
            yield from _members(node.types)
        elif isinstance(node, inspect.Metadata):
            yield from _members([node.type])
        else:
            yield node


def _below(nodes: Iterable[inspect.Type], field: str) -> Iterator[inspect.Type]:
    """The types of a field, or, without its name, of what is in a list or a dictionary."""
    for node in nodes:
        if isinstance(node, inspect.StructType):
            yield from (each.type for each in node.fields if each.encode_name == field)
        elif field:
            continue
        elif isinstance(node, inspect.DictType):
            yield node.value_type
        elif isinstance(node, inspect.TupleType):
            yield from node.item_types
        elif isinstance(node, inspect.ListType | inspect.VarTupleType | inspect.SetType | inspect.FrozenSetType):
            yield node.item_type


def _values(node: inspect.Type) -> Iterable[Any]:
    if isinstance(node, inspect.LiteralType):
        return node.values
    return [member.value for member in node.cls] if isinstance(node, inspect.EnumType) else ()
