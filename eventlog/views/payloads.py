"""What the folds read of the vocabulary: a few fields of a few types, each decoded alone for speed."""

from collections.abc import Callable
from typing import Annotated, Any

import msgspec

from core.event import StoredEvent

Count = Annotated[int, msgspec.Meta(ge=-(2**53), le=2**53)]
"""An integer that any number of sums keeps within Postgres' bigint."""


class BlobRead(msgspec.Struct, gc=False):
    address: str


class OriginRead(msgspec.Struct, gc=False):
    format: str
    import_id: str
    generation: Count
    record: BlobRead


class Started(msgspec.Struct, gc=False):
    task: str | None = None
    goal: str | None = None
    group: str | None = None
    rollout: Count | None = None
    policy: str | None = None
    environment: str | None = None
    split: str = "train"
    origin: OriginRead | None = None


class ActionRead(msgspec.Struct, gc=False):
    kind: str
    tool: str | None = None
    op: str | None = None
    call_id: str | None = None


class Submitted(msgspec.Struct, gc=False):
    step: Count
    action: ActionRead


class FeedbackRead(msgspec.Struct, gc=False):
    kind: str
    class_: str | None = msgspec.field(name="class", default=None)


class Answered(msgspec.Struct, gc=False):
    step: Count
    feedback: FeedbackRead
    call_id: str | None = None
    action: Count | None = None
    latency_ms: float | None = None


class Usage(msgspec.Struct, gc=False):
    prompt_tokens: Count | None = None
    completion_tokens: Count | None = None

    @property
    def total(self) -> int | None:
        """Tokens read and written; None where the source counted neither."""
        if self.prompt_tokens is None and self.completion_tokens is None:
            return None
        return (self.prompt_tokens or 0) + (self.completion_tokens or 0)


class Responded(msgspec.Struct, gc=False):
    step: Count
    usage: Usage | None = None
    latency_ms: float | None = None
    copied: bool = False


class EndRead(msgspec.Struct, gc=False):
    kind: str
    dimension: str | None = None


class Ended(msgspec.Struct, gc=False):
    end: EndRead


class VerificationRead(msgspec.Struct, gc=False):
    verdict: str
    reward: float | None = None


class Verified(msgspec.Struct, gc=False):
    verification: VerificationRead
    source: str


class Retracted(msgspec.Struct, gc=False):
    import_id: str


Handlers = dict[str, tuple[msgspec.json.Decoder[Any], Callable[[Any, StoredEvent, Any], None]]]
"""Event type → how its payload is read (schema 1) and what it does to a state."""


def apply(handlers: Handlers, state: Any, event: StoredEvent) -> None:
    """Give the event's payload to the handler of its type, if there is one."""
    found = handlers.get(event.type)
    if found is not None:
        decoder, handle = found
        handle(state, event, decoder.decode(event.body if event.schema == 1 else lifted(event, 1)))


def lifted(event: StoredEvent, schema: int) -> bytes:
    """The payload as the type's `schema` has it. ValueError where it is newer."""
    if event.schema > schema:
        raise ValueError("written by a newer version")
    from core.upcast import lift
    from core.vocabulary import TYPES

    fields: dict[str, Any] = msgspec.json.decode(event.body, type=dict[str, msgspec.Raw])
    return msgspec.json.encode(lift(fields, event.schema, TYPES[event.type].lifts))


def handlers(*rows: tuple[str, type, Callable[[Any, StoredEvent, Any], None]]) -> Handlers:
    """The table of (event type, struct to read, handler)."""
    return {type_: (msgspec.json.Decoder(struct), handle) for type_, struct, handle in rows}
