"""SWE-agent trajectories: `{trajectory, history, info, environment, replay_config}`, any of the first two.

`history` is the conversation, `trajectory` what was run. An entry of it and the assistant's message
that it came from are one step; the entry's observation answers the step's action, and the message
that showed it to the model is kept beside it. Turns that the model was made to repeat are in
`trajectory` alone. Demonstrations are copied context. Prompts (`query`) are not copied into events.
"""

from collections.abc import Iterator
from typing import Any, ClassVar

import msgspec
from msgspec import Raw

from core.vocabulary.contract import End, Finished
from core.vocabulary.episode import EpisodeEnded, EpisodeStarted
from eventlog.interchange import Confidence, Context, EpisodeDraft, Importer, Record
from eventlog.interchange.mapping.extras import extended, raw
from eventlog.interchange.mapping.messages import Fields, json_text
from eventlog.interchange.swe import runs as swe
from eventlog.interchange.swe.steps import Steps

_VERSIONS = ("swe_agent_version", "swe_agent_hash", "swe_rex_version", "swe_rex_hash")


class SweAgent(Importer):
    """The `.traj` files of SWE-agent 0.x and 1.x."""

    name: ClassVar[str] = "swe-agent"
    mapping: ClassVar[int] = 1
    suffixes: ClassVar[tuple[str, ...]] = (".traj", ".json", ".jsonl", ".ndjson")

    def sniff(self, head: bytes, first: dict[str, Any] | None) -> Confidence:
        match first:
            case {"attempts": [dict(attempt), *_]}:
                first = attempt
            case None:
                return Confidence.NO
        match first.get("trajectory"), first.get("history"):
            case [{"action": _, "observation": _}, *_], _:
                return Confidence.CERTAIN
            case None | [], [{"role": _, "content": _, "agent": _}, *_]:
                return Confidence.CERTAIN
            case None | [], [{"role": _, "content": _}, *_]:
                return Confidence.POSSIBLE
            case [], _ if isinstance(first.get("info"), dict):
                return Confidence.LIKELY
        return Confidence.NO

    def episodes(self, record: Record, context: Context) -> Iterator[EpisodeDraft]:
        run = Fields(record.data, record.where)
        if not any(name in run for name in ("trajectory", "history", "attempts")):
            raise run.fault("trajectory and history are missing: this is no SWE-agent trajectory")
        attempts = list(run.each("attempts"))
        drafts = [_Run(attempt, context, number).draft for number, attempt in enumerate(attempts, 1)]
        if drafts:
            names = (reason.partition(":")[0] for reason in run.unmapped())
            drafts[0].unmapped.update(f"{name}: in the record alone, beside its attempts" for name in names)
        yield from drafts or [_Run(run, context, 1).draft]


class _Stats(msgspec.Struct):
    instance_cost: float | None = None
    tokens_sent: float | None = None
    tokens_received: float | None = None


class _Run:
    """One attempt, being turned into a draft."""

    def __init__(self, run: Fields, context: Context, attempt: int) -> None:
        entries, history = list(run.each("trajectory")), list(run.each("history"))
        info = Fields(run.raw("info") or Raw(b"null"), run.where, _at(run, "info"))
        status = info.peek("exit_status", int | str)
        status = None if status is None else str(status)
        end = _end(history, info, status)
        self.draft = EpisodeDraft(_started(run, info, history, attempt))
        self.draft.left(run.unmapped())
        step = Steps(self.draft, context, entries, history).add()
        if swe.submit(self.draft, step, status, info.peek("submission", Any)):
            info.raw("submission")
        stats = info.peek("model_stats", _Stats) or _Stats()
        swe.charge(self.draft, "money", stats.instance_cost or 0.0)
        swe.charge(self.draft, "tokens", (stats.tokens_sent or 0) + (stats.tokens_received or 0))
        known = {name: info.raw(name) for name in ("exit_status", "model_stats")}
        self.draft.left(info.unmapped())
        rest = extended(info.rest(), **known)
        if end is not None:
            self.draft.add(EpisodeEnded(end, extra=rest))
        else:
            swe.begin_with(self.draft, info=raw(rest))


def _started(run: Fields, info: Fields, history: list[Fields], attempt: int) -> EpisodeStarted:
    config = run.peek("replay_config", Any)
    if isinstance(config, str):
        text = json_text(config)
        config = None if text is None else msgspec.json.decode(text)
    versions = {name: info.take(name, str) for name in _VERSIONS}
    return EpisodeStarted(
        task=run.take("instance_id", str) or swe.text_at(config, "problem_statement", "id"),
        goal=swe.goal_of(swe.text_at(config, "problem_statement", "text") or _request(history)),
        attempt=attempt,
        policy=swe.text_at(config, "agent", "model", "name"),
        environment=run.take("environment", str),
        versions={name: version for name, version in versions.items() if version},
        extra=extended(run.rest(), agent=_agent(history)),
    )


def _request(history: list[Fields]) -> str | None:
    """The first thing that the user said."""
    for message in history:
        if message.peek("role", Any) == "user" and not message.peek("is_demo", Any):
            return swe.text_of(message.peek("content", Any), message.fault)
    return None


def _agent(history: list[Fields]) -> Raw | None:
    """The agent's name, which every message repeats."""
    name = history[0].peek("agent", str) if history else None
    return None if name is None else Raw(msgspec.json.encode(name))


def _end(history: list[Fields], info: Fields, status: str | None) -> End | None:
    """None where nothing says that it ended: the file of a run that was killed has no exit status."""
    if status is not None:
        return swe.end_of(status, info.peek("submission", Any))
    turns = [message for message in history if message.peek("role", Any) == "assistant"]
    action = turns[-1].peek("action", Any) if turns else None
    return Finished() if isinstance(action, str) and action.split()[:1] == ["submit"] else None


def _at(run: Fields, name: str) -> str:
    return f"{run.path}.{name}" if run.path else name
