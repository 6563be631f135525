"""What is put beside the unmapped rest in an event's `extra`."""

import msgspec
from msgspec import Raw

from core.vocabulary.base import UNSET, MaybeRaw
from eventlog.interchange.mapping.messages import joined

_fields = msgspec.json.Decoder(dict[str, Raw]).decode


def extended(rest: MaybeRaw = UNSET, **fields: Raw | None) -> MaybeRaw:
    """The rest with these fields before it, the absent ones left out; UNSET if there is nothing."""
    more = {name: raw for name, raw in fields.items() if raw is not None}
    if not more:
        return rest
    if isinstance(rest, Raw):
        more |= _fields(rest)
    return joined(more)


def raw(value: MaybeRaw) -> Raw | None:
    """JSON that may be absent, None if it is."""
    return value if isinstance(value, Raw) else None
