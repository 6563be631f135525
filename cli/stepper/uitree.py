"""UI trees as indented text: Android's XML, trees in JSON, and whatever else as it is."""

from collections.abc import Iterator
from typing import Any
from xml.parsers import expat

import msgspec

from eventlog.wording import unfolded

_FIRST = ("class", "text", "content-desc", "resource-id", "bounds")
_FLAGS = ("clickable", "checked", "selected", "focused", "scrollable", "long-clickable")


class _Refused(Exception):
    """The XML defines entities: it is shown as it is."""


def tree_lines(text: str) -> Iterator[str]:
    """The tree, one element a line."""
    start = text.lstrip("\ufeff \t\r\n")
    if start.startswith("<"):
        try:
            yield from _xml(start)
            return
        except (expat.ExpatError, _Refused, ValueError):
            pass
    elif start.startswith(("{", "[")):
        try:
            yield from unfolded(msgspec.json.decode(start))
            return
        except (msgspec.DecodeError, RecursionError):
            pass
    yield from text.splitlines()


def _xml(text: str) -> list[str]:
    lines: list[str] = []
    depth = 0

    def start(name: str, attributes: dict[str, str]) -> None:
        nonlocal depth
        lines.append("  " * min(depth, 40) + _element(name, attributes))
        depth += 1

    def end(name: str) -> None:
        nonlocal depth
        depth -= 1

    def refuse(*about: Any) -> None:
        raise _Refused

    parser = expat.ParserCreate()
    parser.StartElementHandler = start
    parser.EndElementHandler = end
    parser.EntityDeclHandler = refuse
    parser.Parse(text.encode(errors="replace"), True)
    return lines


def _element(name: str, attributes: dict[str, str]) -> str:
    kind = attributes.get("class", name).rpartition(".")[2]
    parts = [kind]
    for key in ("text", "content-desc"):
        if attributes.get(key):
            parts.append(f'"{attributes[key]}"')
    if attributes.get("resource-id"):
        parts.append(f"#{attributes['resource-id'].rpartition('/')[2]}")
    parts += [flag for flag in _FLAGS if attributes.get(flag) == "true"]
    if attributes.get("enabled") == "false":
        parts.append("disabled")
    if attributes.get("bounds"):
        parts.append(attributes["bounds"])
    if kind == name:
        known = {*_FIRST, *_FLAGS, "enabled"}
        parts += [f"{key}={value}" for key, value in attributes.items() if key not in known]
    return " ".join(parts)
