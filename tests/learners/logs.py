"""Logs made for tests of learning: everything that rows, groups and marks look at happens in them."""

import random
from collections.abc import Iterator
from typing import Any

from core.event import Event
from core.vocabulary import Payload
from core.vocabulary.base import BlobRef
from core.vocabulary.contract import Cancelled, Finish, Finished, ToolCall, UserReply, Verification
from core.vocabulary.curation import EpisodeCurated, TurnMarked
from core.vocabulary.episode import (
    ActionSubmitted,
    EpisodeEnded,
    EpisodeRetracted,
    EpisodeStarted,
    FeedbackRecorded,
    MessageRecorded,
    ModelResponded,
    NoteAdded,
    Parent,
    ToolSpec,
    Usage,
    VerificationRecorded,
)
from eventlog.writer import Writer
from tests.eventlog import samples

TOOL = ToolSpec("send", parameters=samples.raw({"type": "object", "properties": {"to": {"type": "string"}}}))


def marked(step: int, erroneous: bool = True, source: str = "rule", **fields: Any) -> TurnMarked:
    return TurnMarked(step, erroneous, source, **fields)  # type: ignore[arg-type]


def judged(verdict: str, source: str = "machine", **fields: Any) -> VerificationRecorded:
    return VerificationRecorded(Verification(verdict, **fields), source)  # type: ignore[arg-type]


def random_log(seed: int, streams: int = 30) -> Iterator[list[Event]]:
    """Commits of interleaved episodes: groups, attempts, forks, copied and marked turns, tokens, late
    verdicts, retractions, and events that no fold can take."""
    chance = random.Random(seed)
    writer = Writer("test")
    waiting = [_episode(chance, i) for i in range(streams)]
    batch: list[Event] = []
    while waiting:
        at = chance.randrange(min(len(waiting), 6))
        stream, payloads = waiting[at]
        for payload in payloads[: chance.randrange(1, 6)]:
            if isinstance(payload, bytes):
                batch.append(writer.raw(stream, "ModelResponded", payload))
            else:
                batch.append(writer.event(stream, payload))
            payloads.remove(payload)
        if not payloads:
            waiting.pop(at)
        if chance.random() < 0.4:
            yield batch
            batch = []
    if batch:
        yield batch


def _episode(chance: random.Random, number: int) -> tuple[str, list[Any]]:
    payloads: list[Any] = [NoteAdded("early")] if chance.random() < 0.1 else []
    group = chance.choice(["g1", "g2", "g3", None])
    payloads.append(
        EpisodeStarted(
            task=chance.choice(["alarm", "timer", None]),
            goal=chance.choice(["Set an alarm for 7", "Stop the timer", None]),
            group=group,
            rollout=chance.choice([0, 1, 2, None]),
            attempt=chance.choice([1, 1, 2]),
            policy=chance.choice(["p1", "script:gold.json", None]),
            split="train" if group == "g1" else chance.choice(["train", "train", "train", "dev"]),
            tools=chance.choice([None, [TOOL]]),
            parent=chance.choice([None, None, Parent(f"episode/e{number - 1:02}", 3)]),
        )
    )
    payloads.append(MessageRecorded("user", samples.raw("please")))
    for step in range(1, chance.randrange(2, 6)):
        payloads += _step(chance, step)
    if chance.random() < 0.1:
        payloads.append(b'{"step":"none"}')
    payloads.append(EpisodeEnded(Finished() if chance.random() < 0.7 else Cancelled()))
    for _ in range(chance.randrange(4)):
        verdict = chance.choice(["pass", "pass", "fail", "inconclusive"])
        source = chance.choice(["machine", "machine", "human"])
        payloads.append(
            judged(verdict, source, reward=chance.choice([None, 0.5]), progress=chance.choice([None, 0.25]))
        )
        if chance.random() < 0.4:
            payloads.append(_mark(chance))
    if chance.random() < 0.2:
        payloads.append(EpisodeCurated(chance.choice(["keep", "drop", "review"]), ["evidence_checked@1"]))
    if chance.random() < 0.15:
        payloads.append(EpisodeRetracted("i1"))
    return f"episode/e{number:02}", payloads


def _step(chance: random.Random, step: int) -> Iterator[Payload]:
    if chance.random() < 0.9:
        yield ModelResponded(
            step,
            content=chance.choice(["I will look.", None]),
            usage=chance.choice([None, Usage(100 * step, 10, 3)]),
            cost=chance.choice([None, 0.1]),
            token_ids=chance.choice([None, [1, 2], BlobRef("sha256:" + "0" * 64, 8, "application/octet-stream")]),
            logprobs=[-0.1, None] if chance.random() < 0.5 else None,
            copied=chance.random() < 0.15,
        )
    for call in range(chance.randrange(3)):
        id_ = chance.choice(["c1", f"c{step}{call}"])
        yield ActionSubmitted(step, ToolCall("send", samples.raw({"to": chance.choice(["Ann", 3])}), id_))
        if chance.random() < 0.6:
            class_ = chance.choice(["timeout", "schema", "not_found"])
            yield samples.ok(step, call_id=id_) if chance.random() < 0.6 else samples.failed(step, class_, call_id=id_)
    if chance.random() < 0.1:
        yield FeedbackRecorded(step, UserReply("and hurry"))
    if chance.random() < 0.1:
        yield ActionSubmitted(step, Finish("done"))


def _mark(chance: random.Random) -> TurnMarked:
    source = chance.choice(["rule", "judge", "human"])
    rule = chance.choice(["unknown_tool@1", "unknown_tool@2", "schema_violation@1"]) if source == "rule" else None
    return marked(chance.randrange(1, 5), chance.random() < 0.7, source, recovery=chance.random() < 0.2, rule=rule)
