"""`trajlog append`: put events into the log from JSON lines."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from cli.frame import command
from cli.output import note
from cli.settings import settings

if TYPE_CHECKING:
    from eventlog.log import Accepted, Appended


@command(
    """echo '{"stream": "episode/a1", "type": "NoteAdded", "payload": {"text": "hi"}}' | trajlog append""",
    "trajlog append < events.jsonl > answers.jsonl",
    "trajlog append --log kafka://broker:9092/events --wait persisted < events.jsonl",
)
def append(
    wait: Annotated[
        Literal["accepted", "persisted"],
        typer.Option(help="With --log: answer when Kafka has an event, or when the ledger has."),
    ] = "accepted",
) -> None:
    """Append events from JSON lines on stdin.

    Each line is {stream, type, payload} and may have schema, event_id, occurred_at, actor, causation_id,
    correlation_id, conversation, expected_version. Each is answered by a line {event_id, stream, version,
    position} once it is durable, in order. It stops at the first bad line: what was answered stands. A
    line with an event_id can be sent again. `trajlog events` prints the types; one of a newer writer is
    kept and shown as it is, with a note.

    With --log kafka://HOST/TOPIC, an event that was accepted has no version and no position yet: both are null,
    and partition and offset say where it is. The persister may still refuse it (a wrong expected_version,
    an event_id of another event: see `trajlog quarantine`); --wait persisted waits for that.
    """
    import sys

    from cli.output import print_json
    from eventlog.intake import append_lines

    answered = 0
    with settings().open() as log:
        try:
            for answers in append_lines(log, _chunks(), _unknown, wait=wait):
                for answer in answers:
                    answered += 1  # first: who reads the line may interrupt at once
                    print_json(_json(answer))
                sys.stdout.flush()
        except KeyboardInterrupt:
            lines = "1 line was" if answered == 1 else f"{answered:,} lines were"
            note(f"{lines} answered; what was sent after that may be in the log as well")
            raise


def _json(answer: "Appended | Accepted") -> dict[str, Any]:
    from core.identity import uuid_text
    from eventlog.log import Appended

    row: dict[str, Any] = {"event_id": uuid_text(answer.event_id), "stream": answer.stream}
    if isinstance(answer, Appended):
        return row | {"version": answer.version, "position": answer.position}
    return row | {"version": None, "position": None, "partition": answer.partition, "offset": answer.offset}


def _unknown(number: int, type_: str) -> None:
    from difflib import get_close_matches

    from core.vocabulary import TYPES

    near = get_close_matches(type_, list(TYPES), 1)
    hint = f", did you mean {near[0]}?" if near else ""
    note(f"line {number}: this version knows no type {type_!r}{hint}; it is kept as it is")


def _chunks() -> Iterator[bytes]:
    """What stdin holds at the moment; waits only where that is nothing."""
    import os
    import select
    import sys

    source = sys.stdin.fileno()
    while chunk := os.read(source, 1 << 20):
        size = len(chunk)
        chunks = [chunk]
        while size < 4 << 20 and select.select([source], [], [], 0)[0]:
            chunk = os.read(source, 1 << 20)
            if not chunk:
                break
            chunks.append(chunk)
            size += len(chunk)
        yield b"".join(chunks)
