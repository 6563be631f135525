"""What the folds of this room read of the vocabulary, and who acted in an episode.

Whatever may be sealed has a default: of an owned event only the open part is read.
"""

from typing import Final

import msgspec
from msgspec import Raw

from eventlog.views import payloads
from eventlog.views.payloads import Count

HUMAN_SOURCES: Final = frozenset({"android-control"})
"""Formats of demonstrations by people."""

SCRIPT: Final = "script:"
"""Begins the policy of an episode in which a script acted."""

_ABSENT: Final = Raw(b"")
_NOTHING: Final = (b"", b"null", b"[]")


class Parent(msgspec.Struct, gc=False):
    stream: str


class Started(payloads.Started, gc=False):
    attempt: Count = 1
    tools: list[Raw] | None = None
    parent: Parent | None = None


class Said(msgspec.Struct, gc=False):
    role: str
    content: Raw = _ABSENT


class Usage(payloads.Usage, gc=False):
    thinking_tokens: Count | None = None


class Responded(msgspec.Struct, gc=False):
    step: Count
    content: Raw = _ABSENT
    thought: Raw = _ABSENT
    usage: Usage | None = None
    cost: float | None = None
    latency_ms: float | None = None
    copied: bool = False


class Sampled(Responded, gc=False):
    """With what was sampled, if that was recorded."""

    token_ids: Raw = _ABSENT
    logprobs: Raw = _ABSENT

    @property
    def sampled(self) -> bool:
        return bytes(memoryview(self.token_ids)[:5]) not in _NOTHING

    @property
    def scored(self) -> bool:
        return bytes(memoryview(self.logprobs)[:5]) not in _NOTHING


class Submitted(msgspec.Struct, gc=False):
    step: Count
    action: Raw = _ABSENT


class FeedbackWhole(payloads.FeedbackRead, gc=False):
    value: Raw = _ABSENT
    text: Raw = _ABSENT
    message: Raw = _ABSENT
    blobs: Raw = _ABSENT
    retryable: bool = False


class Answered(payloads.Answered, gc=False):
    feedback: FeedbackWhole


class VerificationRead(payloads.VerificationRead, gc=False):
    progress: float | None = None


class Verified(msgspec.Struct, gc=False):
    verification: VerificationRead
    source: str


class Marked(msgspec.Struct, gc=False):
    step: Count
    erroneous: bool
    source: str
    recovery: bool = False
    rule: str | None = None


class Curated(msgspec.Struct, gc=False):
    decision: str


def origin_of(started: Started) -> str:
    """Who acted: human, scripted or model."""
    if started.origin is not None and started.origin.format in HUMAN_SOURCES:
        return "human"
    return "scripted" if started.policy is not None and started.policy.startswith(SCRIPT) else "model"


def schemas(handlers: payloads.Handlers) -> dict[str, int]:
    """The event types that a fold reads, each with the schema number that it reads them as."""
    return dict.fromkeys(sorted(handlers), 1)
