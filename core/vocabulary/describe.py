"""The catalogue of event types, read off the structs themselves.

A field that holds structs is followed by theirs: `context.digest`, `checks[].id`, and, for one of
several kinds, `action.kind` and `action(ToolCall).tool`. A `BlobRef` is always the same three.
"""

from collections.abc import Iterator
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from msgspec import Meta, Raw, Struct, UnsetType
from msgspec.structs import FieldInfo, fields

from core.vocabulary.base import BlobRef, Payload


def describe(name: str, type_: type[Payload]) -> dict[str, Any]:
    """`{type, status, fields: [{name, type, required, visibility, meaning}], example}`."""
    return {
        "type": name,
        "status": "provisional" if type_.provisional else "stable",
        "fields": _rows(type_, ""),
        "example": {"stream": type_.home, "type": name, "payload": _example(type_)},
    }


def marks(struct: type[Struct]) -> list[tuple[FieldInfo, Any, Meta]]:
    """Each field with its type and its mark; TypeError if a field has none."""
    hints = get_type_hints(struct, include_extras=True)
    found = []
    for field in fields(struct):
        hint = hints[field.name]
        meta = hint.__metadata__[0] if get_origin(hint) is Annotated else None
        if not isinstance(meta, Meta):
            raise TypeError(f"{struct.__name__}.{field.name} is neither open nor private")
        found.append((field, get_args(hint)[0], meta))
    return found


def _rows(struct: type[Struct], prefix: str) -> list[dict[str, Any]]:
    rows = []
    for field, hint, meta in marks(struct):
        name = prefix + field.encode_name
        rows.append(
            {
                "name": name,
                "type": type_name(hint),
                "required": field.required,
                "visibility": (meta.extra or {})["visibility"],
                "meaning": meta.description,
            }
        )
        parts = list(_parts(hint))
        if any(_tag(part) for _, part in parts):
            rows.append(_kind_row(name, [str(_tag(part)) for _, part in parts]))
        for suffix, part in parts:
            kind = f"({_tag(part)})" if _tag(part) else ""
            rows += _rows(part, f"{name}{suffix}{kind}.")
    return rows


def _kind_row(name: str, tags: list[str]) -> dict[str, Any]:
    return {
        "name": f"{name}.kind",
        "type": "|".join(tags),
        "required": True,
        "visibility": "open",
        "meaning": "which of them it is",
    }


def type_name(hint: Any) -> str:
    """The type in words: `int`, `list of BlobRef`, `pass|fail`, `json`. Absence is `required`'s to say."""
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Literal:
        return "|".join(str(value) for value in arguments)
    if origin in (Union, UnionType):
        return "|".join(type_name(member) for member in arguments if member not in (NoneType, UnsetType))
    if origin is list:
        member = type_name(arguments[0])
        return f"list of ({member}|null)" if NoneType in get_args(arguments[0]) else f"list of {member}"
    if origin is dict:
        return f"map of {type_name(arguments[1])}"
    if origin is tuple:
        return f"[{', '.join(type_name(member) for member in arguments)}]"
    return "json" if hint is Raw else _tag(hint) or str(hint.__name__)


def _tag(struct: Any) -> str | None:
    """The struct's tag in its union, if it is in one."""
    config = getattr(struct, "__struct_config__", None)
    return None if config is None or config.tag is None else str(config.tag)


def _parts(hint: Any) -> Iterator[tuple[str, type[Struct]]]:
    """The structs a field may hold, each with `[]` before it if in a list."""
    if get_origin(hint) in (Union, UnionType):
        for member in get_args(hint):
            yield from _parts(member)
    elif get_origin(hint) is list:
        for _, part in _parts(get_args(hint)[0]):
            yield "[]", part
    elif isinstance(hint, type) and issubclass(hint, Struct) and hint is not BlobRef:
        yield "", hint


def _example(struct: type[Struct]) -> dict[str, Any]:
    """The required fields, and the optional ones whose mark has an example."""
    config = struct.__struct_config__
    value = {config.tag_field: config.tag} if config.tag_field else {}
    for field, hint, meta in marks(struct):
        if meta.examples:
            value[field.encode_name] = meta.examples[0]
        elif field.required:
            value[field.encode_name] = _sample(hint, field.name)
    return value


def _sample(hint: Any, name: str) -> Any:
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Literal:
        return arguments[0]
    if origin in (Union, UnionType):
        return _sample(arguments[0], name)
    if origin is list:
        return [_sample(arguments[0], name)]
    if isinstance(hint, type) and issubclass(hint, Struct):
        return _example(hint)
    if name.endswith("digest"):
        return "sha256:" + "0" * 64
    samples: dict[Any, Any] = {int: 1, bool: False, float: 0.5}
    if hint not in samples:
        raise TypeError(f"field {name} needs an example in its mark")
    return samples[hint]
