"""What people say about an episode once it is recorded: notes and verdicts, events in its stream.

A human's verdict outranks any machine's, a later one too; of equals the latest counts. All stay.
"""

from collections.abc import Iterable
from typing import Literal

import msgspec

from core.errors import NotFound, UsageError
from core.event import StoredEvent
from core.times import now
from core.vocabulary import Payload, payload
from core.vocabulary.contract import Verification
from core.vocabulary.episode import NoteAdded, VerificationRecorded
from eventlog.log import Appended, Log
from eventlog.views.named import Named
from eventlog.writer import Writer

WRITER = "review"
ACTOR = "reviewer"

Judgement = Literal["pass", "fail", "inconclusive"]
"""What a person may say."""


class Judged(msgspec.Struct, frozen=True):
    """A verdict as it was recorded. `rules`: it is the one that counts. Times are µs; `occurred_at` is
    None where the source had none."""

    version: int
    occurred_at: int | None
    committed_at: int
    source: str
    writer: str
    verdict: str
    reward: float | None
    progress: float | None
    why: str | None
    supersedes: int | None
    rules: bool = False


def note(log: Log, about: Named, text: str) -> Appended:
    """Note `text` about an episode, or about the event of its version. `UsageError`, `NotFound`."""
    if not text.strip():
        raise UsageError("the note is empty", where=about.episode, mend="say something")
    if about.version is not None:
        last = log.stream_head(about.stream)
        if about.version > last:
            raise NotFound(f"there is no event {about.version}: the episode has {last}", where=about.episode)
    return _append(log, about, NoteAdded(text, about.version))


def judge(log: Log, about: Named, verdict: Judgement, why: str | None = None) -> Appended:
    """Judge an episode as a person. What ruled before is named as superseded."""
    if about.version is not None:
        raise UsageError("an episode is judged as a whole", where=about.episode, mend="leave the @N out")
    ruling = next((judged.version for judged in history(log.read(about.stream)) if judged.rules), None)
    return _append(log, about, VerificationRecorded(Verification(verdict), "human", why or None, ruling))


def history(events: Iterable[StoredEvent]) -> list[Judged]:
    """Every verdict of an episode in order, given its events. What cannot be read is passed over."""
    found: list[Judged] = []
    ruling = None
    for event in events:
        said = payload(event)
        if not isinstance(said, VerificationRecorded):
            continue
        if ruling is None or said.source == "human" or found[ruling].source != "human":
            ruling = len(found)
        found.append(_judged(event, said))
    if ruling is not None:
        found[ruling] = msgspec.structs.replace(found[ruling], rules=True)
    return found


def _judged(event: StoredEvent, said: VerificationRecorded) -> Judged:
    verification = said.verification
    return Judged(
        event.version,
        event.occurred_at,
        event.committed_at,
        said.source,
        event.writer,
        verification.verdict,
        verification.reward,
        verification.progress,
        said.why,
        said.supersedes,
    )


def _append(log: Log, about: Named, said: Payload) -> Appended:
    return log.append(Writer(WRITER).event(about.stream, said, actor=ACTOR, occurred_at=now()))
