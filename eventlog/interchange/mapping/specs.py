"""Tool definitions as traces quote them."""

from typing import Any

import msgspec
from msgspec import Raw

from core.vocabulary.base import UNSET
from core.vocabulary.episode import ToolSpec
from eventlog.interchange.mapping.messages import json_text


def specs_of(raw: Any) -> tuple[list[ToolSpec], bool]:
    """Tool definitions, flat or under `function`, and whether they say nothing besides."""
    listed = msgspec.json.decode(found) if isinstance(raw, str) and (found := json_text(raw)) is not None else raw
    specs: list[ToolSpec] = []
    whole = True
    for item in listed if isinstance(listed, list) else ():
        inner = item.get("function") if isinstance(item, dict) else None
        spec = inner if isinstance(inner, dict) else item
        name = spec.get("name") if isinstance(spec, dict) else None
        if not isinstance(name, str):
            return [], False
        about, parameters = spec.get("description"), spec.get("parameters")
        if isinstance(parameters, str):
            parameters = json_text(parameters) or parameters
        given = UNSET if parameters is None else Raw(msgspec.json.encode(parameters))
        specs.append(ToolSpec(name, description=about if isinstance(about, str) else None, parameters=given))
        whole &= {*item, *spec} <= {"type", "function", "name", "description", "parameters"}
        whole &= item.get("type", "function") == "function" and isinstance(about, str | None)
    return specs, whole
