"""`trajlog append`: put events into the log from JSON lines."""

from collections.abc import Iterator

from cli.frame import command
from cli.output import note
from cli.settings import settings


@command(
    """echo '{"stream": "episode/a1", "type": "NoteAdded", "payload": {"text": "hi"}}' | trajlog append""",
    "trajlog append < events.jsonl > answers.jsonl",
)
def append() -> None:
    """Append events from JSON lines on stdin.

    Each line is {stream, type, payload} and may have schema, event_id, occurred_at, actor, causation_id,
    correlation_id, conversation, expected_version. Each is answered by a line {event_id, stream, version,
    position} once it is durable, in order. It stops at the first bad line: what was answered stands. A
    line with an event_id can be sent again. `trajlog events` prints the types; one of a newer writer is
    kept and shown as it is, with a note.
    """
    import sys

    from cli.output import print_json
    from core.identity import uuid_text
    from eventlog.intake import append_lines

    with settings().open() as log:
        for answers in append_lines(log, _chunks(), _unknown):
            for answer in answers:
                print_json(
                    {
                        "event_id": uuid_text(answer.event_id),
                        "stream": answer.stream,
                        "version": answer.version,
                        "position": answer.position,
                    }
                )
            sys.stdout.flush()


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
