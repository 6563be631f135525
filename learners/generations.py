"""How many trainings on our own releases a policy is away from a model that had none."""

from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    from eventlog.database import Connection

_PREFIX = "policy/"
_TRAININGS = """
SELECT s.stream, e.type, e.body FROM stream s CROSS JOIN LATERAL (
    SELECT version, type, body FROM event
    WHERE event.stream = s.stream AND type IN ('TrainingStarted', 'CheckpointCommitted') ORDER BY version) e
WHERE s.stream ^@ 'policy/' ORDER BY s.stream, e.version
"""
"""Stream by stream, as in `learners.heldout`."""


def generations(connection: "Connection") -> dict[str | None, int]:
    """Policy → its generation, for those that were trained here; any other has 0. A policy is named as in
    its stream, or by one of its checkpoints."""
    bases: dict[str, str | None] = {}
    trained_by: dict[str, str] = {}
    for stream, type_, body in connection.execute(_TRAININGS, binary=True):
        policy = str(stream).removeprefix(_PREFIX)
        said: dict[str, Any] = msgspec.json.decode(body)
        if type_ == "TrainingStarted":
            bases[policy] = said.get("base")
        else:
            trained_by[said.get("checkpoint", "")] = policy
    found: dict[str | None, int] = {policy: _depth(policy, bases, trained_by) for policy in bases}
    return found | {checkpoint: found.get(policy, 0) for checkpoint, policy in trained_by.items()}


def _depth(policy: str, bases: dict[str, str | None], trained_by: dict[str, str]) -> int:
    seen: set[str] = set()
    at: str | None = policy
    while at is not None and at in bases and at not in seen:
        seen.add(at)
        base = bases[at]
        at = None if base is None else trained_by.get(base, base)
    return len(seen)
