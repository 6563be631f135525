"""Projection `verdict`: one row per judgement of an episode, with what was known of it when.

Two times: when the log learned it (`position`, `committed_at`) and when it was made in the world
(`occurred_at`). A verdict counted from `ruled_from` until `ruled_until` (positions; null: never, still).
A human's counts before any machine's, a later one too; of equals the latest counts. All stay.
"""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import msgspec

from core.event import StoredEvent
from eventlog.database import Connection
from eventlog.projection import Column, Row, relation
from eventlog.views import PREFIX, VERDICTS, payloads
from eventlog.views.calls import clip
from eventlog.views.payloads import Count

_RULING = """
SELECT version, position, source, verdict, reward FROM {verdict}
WHERE episode = %s AND position <= %s AND coalesce(occurred_at, committed_at) <= %s
ORDER BY source = 'human' DESC, version DESC LIMIT 1
"""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_EVER = 2**62


class VerificationRead(msgspec.Struct, gc=False):
    verdict: str
    reward: float | None = None
    progress: float | None = None
    verifier_digest: str | None = None


class Judged(msgspec.Struct, gc=False):
    verification: VerificationRead
    source: str
    supersedes: Count | None = None


class Verdict(msgspec.Struct, array_like=True, gc=False):
    """One judgement; `last` is the version of the latest event that changed its row."""

    version: int
    last: int
    position: int
    committed_at: int
    occurred_at: int | None
    source: str
    verdict: str
    reward: float | None
    progress: float | None
    verifier: str | None
    supersedes: int | None
    ruled_from: int | None = None
    ruled_until: int | None = None
    superseded_by: int | None = None


class State(msgspec.Struct, array_like=True, gc=False):
    """An episode's judgements by version, and the one that counts."""

    episode: str
    verdicts: dict[int, Verdict] = {}
    ruling: int | None = None


def _on_verified(state: State, event: StoredEvent, said: Judged) -> None:
    found = said.verification
    verdict = state.verdicts[event.version] = Verdict(
        event.version,
        event.version,
        event.position,
        event.committed_at,
        event.occurred_at,
        clip(said.source),
        clip(found.verdict),
        found.reward,
        found.progress,
        found.verifier_digest and clip(found.verifier_digest),
        said.supersedes,
    )
    ruling = None if state.ruling is None else state.verdicts[state.ruling]
    if ruling is None or said.source == "human" or ruling.source != "human":
        state.ruling = event.version
        verdict.ruled_from = event.position
        if ruling is not None:
            ruling.ruled_until = event.position
            _supersede(ruling, event)
    if said.supersedes is not None and said.supersedes in state.verdicts and said.supersedes != event.version:
        _supersede(state.verdicts[said.supersedes], event)


def _supersede(verdict: Verdict, event: StoredEvent) -> None:
    verdict.last = event.version
    if verdict.superseded_by is None:
        verdict.superseded_by = event.version


_HANDLERS = payloads.handlers(("VerificationRecorded", Judged, _on_verified))


class Verdicts:
    """The fold."""

    name, version, prefix, _ = VERDICTS
    lean = True
    key = ("episode", "version")
    columns: Sequence[Column] = (
        Column("episode"),
        Column("version", "bigint"),
        Column("position", "bigint"),
        Column("committed_at", "timestamptz"),
        Column("occurred_at", "timestamptz"),
        Column("source"),
        Column("verdict"),
        Column("reward", "double precision"),
        Column("progress", "double precision"),
        Column("verifier"),
        Column("supersedes", "bigint"),
        Column("ruled_from", "bigint"),
        Column("ruled_until", "bigint"),
        Column("superseded_by", "bigint"),
    )
    indexes = ("position",)

    _encode = msgspec.msgpack.Encoder().encode
    _decode = msgspec.msgpack.Decoder(State).decode

    def initial(self, stream: str) -> State:
        return State(stream.removeprefix(PREFIX))

    def apply(self, state: State, event: StoredEvent) -> State:
        payloads.apply(_HANDLERS, state, event)
        return state

    def rows(self, state: State, after: int) -> Iterable[Row]:
        for verdict in state.verdicts.values():
            if verdict.last > after:
                version, _, *rest = msgspec.structs.astuple(verdict)
                yield state.episode, version, *rest

    def dump(self, state: State) -> bytes:
        return self._encode(state)

    def load(self, data: bytes) -> Any:
        return self._decode(data)


VERDICT: Final = Verdicts()


def ruling(
    connection: Connection, episode: str, *, known: int | None = None, at: int | None = None
) -> dict[str, Any] | None:
    """The verdict that counted by what the log held at position `known`, of those made by the time `at` (µs);
    None leaves either open. {version, position, source, verdict, reward}, or None where nobody had judged.
    On a connection of `eventlog.views.reading` with `VERDICTS`."""
    made = datetime.max.replace(tzinfo=UTC) if at is None else _EPOCH + timedelta(microseconds=at)
    query = _RULING.format(verdict=relation(VERDICTS))
    row = connection.execute(query, (episode, _EVER if known is None else known, made)).fetchone()
    return None if row is None else dict(zip(("version", "position", "source", "verdict", "reward"), row, strict=True))
