"""OTLP/JSON: requests, spans and attribute values, as the protocol's JSON encoding has them.

Ids are hex (base64 where a plain protobuf encoder wrote them), 64-bit integers are decimal strings
or numbers, and every value is an object with one field that names its type.
"""

from base64 import b64decode
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Generic, NamedTuple, TypeVar

import msgspec
from msgspec import Raw, Struct

from eventlog.interchange.mapping.messages import json_text

_encode = msgspec.json.encode
_SPECIAL = {"NaN": None, "Infinity": None, "-Infinity": None}


_T = TypeVar("_T")


class _Scope(Struct, Generic[_T]):
    scope: Raw = Raw(b"{}")
    spans: list[_T] = []
    log_records: list[Raw] = msgspec.field(default_factory=list, name="logRecords")
    schema: Raw = msgspec.field(default=Raw(b""), name="schemaUrl")


class _Resource(Struct, Generic[_T]):
    resource: Raw = Raw(b"{}")
    scope_spans: list[_Scope[_T]] = msgspec.field(default_factory=list, name="scopeSpans")
    old_spans: list[_Scope[_T]] = msgspec.field(default_factory=list, name="instrumentationLibrarySpans")
    scope_logs: list[_Scope[_T]] = msgspec.field(default_factory=list, name="scopeLogs")
    schema: Raw = msgspec.field(default=Raw(b""), name="schemaUrl")


class Request(Struct, Generic[_T]):
    """An ExportTraceServiceRequest, an ExportLogsServiceRequest, or both in one; spans are read as `_T`."""

    spans: list[_Resource[_T]] | None = msgspec.field(default=None, name="resourceSpans")
    logs: list[_Resource[_T]] | None = msgspec.field(default=None, name="resourceLogs")

    def scopes(self) -> Iterator[tuple[_Resource[_T], _Scope[_T]]]:
        """What lies together, in order."""
        for resources in (self.spans, self.logs):
            for resource in resources or ():
                for scopes in (resource.scope_spans, resource.old_spans, resource.scope_logs):
                    for scope in scopes:
                        yield resource, scope


class AnyValue(Struct, gc=False):
    """The value of an attribute: one field is set, and names its type."""

    string: str | None = msgspec.field(default=None, name="stringValue")
    boolean: bool | None = msgspec.field(default=None, name="boolValue")
    integer: int | str | None = msgspec.field(default=None, name="intValue")
    double: float | str | None = msgspec.field(default=None, name="doubleValue")
    array: "_Values | None" = msgspec.field(default=None, name="arrayValue")
    pairs: "_Pairs | None" = msgspec.field(default=None, name="kvlistValue")
    octets: str | None = msgspec.field(default=None, name="bytesValue")


class KeyValue(Struct, gc=False):
    """An attribute. Its value is absent where it is null."""

    key: str = ""
    value: AnyValue | None = None


class _Values(Struct, gc=False):
    values: list[AnyValue | None] = []


class _Pairs(Struct, gc=False):
    values: list[KeyValue] = []


class Ids(Struct):
    """The ids of a span or a log record, as they are written."""

    trace: str = msgspec.field(default="", name="traceId")
    span: str = msgspec.field(default="", name="spanId")

    def raw(self) -> tuple[bytes, bytes]:
        """Their bytes. `ValueError` if they are none; that of a span may be absent."""
        return id_bytes(self.trace, 16, "traceId"), id_bytes(self.span, 8, "spanId") if self.span else b""


class _Begun(Struct):
    span: str = msgspec.field(default="", name="spanId")
    start: int | str = msgspec.field(default=0, name="startTimeUnixNano")


_request = msgspec.json.Decoder(Request[Raw]).decode
_any = msgspec.json.Decoder(AnyValue | None).decode
_ids = msgspec.json.Decoder(Ids).decode
_begun = msgspec.json.Decoder(_Begun).decode


class Entry(NamedTuple):
    """A span or a log record of a request: its bytes, and those of its resource and scope."""

    data: Raw
    context: bytes
    is_log: bool


class Stretch(NamedTuple):
    """Spans or log records of a request that share a resource and a scope, and the bytes of these."""

    entries: list[Raw]
    context: bytes
    is_log: bool


def stretches(data: bytes) -> list[Stretch] | None:
    """What a request holds; None if it holds neither spans nor log records."""
    request = _request(data)
    if request.spans is None and request.logs is None:
        return None
    found = []
    for resource, scope in request.scopes():
        context = _context(resource, scope)
        if scope.spans:
            found.append(Stretch(scope.spans, context, False))
        if scope.log_records:
            found.append(Stretch(scope.log_records, context, True))
    return found


def entries(data: bytes) -> list[Entry]:
    """The spans and log records of a request."""
    found = stretches(data) or ()
    return [Entry(entry, context, is_log) for listed, context, is_log in found for entry in listed]


def ids_of(data: bytes | Raw) -> tuple[bytes, bytes]:
    """The trace's and the span's id, as `Ids.raw` has them."""
    return _ids(data).raw()


def begun(data: bytes | Raw) -> tuple[int, str]:
    """When a span began (ns, 0 if that is not known) and its id, to sort by."""
    try:
        span = _begun(data)
        return int(span.start), span.span
    except ValueError:
        return 0, ""


def id_bytes(text: str, size: int, name: str) -> bytes:
    """An id's bytes. `ValueError` if it is none, or all zeros."""
    raw = b""
    try:
        if len(text) == 2 * size:
            raw = bytes.fromhex(text)
        elif len(text) == (size + 2) // 3 * 4:
            raw = b64decode(text, validate=True)
    except ValueError:
        raw = b""
    if len(raw) != size or not any(raw):
        raise ValueError(f"{name} {text[:40]!r} is not {2 * size} hex digits")
    return raw


def plain(raw: bytes | Raw) -> Any:
    """A value as Python has it."""
    return value_of(_any(raw))


def value_of(value: AnyValue | None) -> Any:
    """A value as Python has it; bytes stay base64, what is not finite becomes None."""
    if value is None:
        return None
    if value.string is not None:
        return value.string
    if value.boolean is not None:
        return value.boolean
    if value.integer is not None:
        return int(value.integer)
    if value.double is not None:
        return _SPECIAL[value.double] if value.double in _SPECIAL else float(value.double)
    if value.array is not None:
        return [value_of(item) for item in value.array.values]
    if value.pairs is not None:
        return {pair.key: value_of(pair.value) for pair in value.pairs.values}
    return value.octets


def as_json(value: Any) -> Raw:
    """A value as JSON: a text that holds an object or a list, verbatim; any other value written."""
    if isinstance(value, str) and value.lstrip()[:1] in ("{", "["):
        return json_text(value) or Raw(_encode(value))
    return Raw(_encode(value))


def attribute(key: str, value: Any) -> dict[str, Any]:
    """An attribute as OTLP/JSON writes it."""
    return {"key": key, "value": typed(value)}


def typed(value: Any) -> dict[str, Any]:
    """A value as OTLP/JSON writes it: under the name of its type."""
    if value is None:
        return {}
    if isinstance(value, str):
        return {"stringValue": value}
    if isinstance(value, bool):
        return {"boolValue": value}
    if isinstance(value, int):
        return {"intValue": str(value)}
    if isinstance(value, float):
        return {"doubleValue": value}
    if isinstance(value, dict):
        return {"kvlistValue": {"values": [attribute(name, item) for name, item in value.items()]}}
    return {"arrayValue": {"values": [typed(item) for item in value]}}


def merged(context: bytes) -> dict[str, Raw]:
    """A context's parts: `resource`, `scope` and their schemas."""
    return msgspec.json.decode(context, type=dict[str, Raw])


def request(contexts: Mapping[tuple[bytes, bool], Iterable[bytes]]) -> bytes:
    """One request of spans and log records, by (context, is_log)."""
    parts: dict[str, list[dict[str, Any]]] = {}
    for (context, is_log), found in contexts.items():
        names = merged(context or b"{}")
        scope: dict[str, Any] = {"scope": names["scope"]} if "scope" in names else {}
        scope |= {"logRecords" if is_log else "spans": list(map(Raw, found))}
        if "scopeSchemaUrl" in names:
            scope["schemaUrl"] = names["scopeSchemaUrl"]
        resource: dict[str, Any] = {"resource": names["resource"]} if "resource" in names else {}
        resource |= {"scopeLogs" if is_log else "scopeSpans": [scope]}
        if "schemaUrl" in names:
            resource["schemaUrl"] = names["schemaUrl"]
        parts.setdefault("resourceLogs" if is_log else "resourceSpans", []).append(resource)
    return _encode(parts)


def _context(resource: _Resource[Raw], scope: _Scope[Raw]) -> bytes:
    parts = {"resource": resource.resource, "scope": scope.scope}
    if bytes(resource.schema):
        parts["schemaUrl"] = resource.schema
    if bytes(scope.schema):
        parts["scopeSchemaUrl"] = scope.schema
    return _encode({name: raw for name, raw in parts.items() if bytes(raw) not in (b"{}", b'""', b"null")})
