"""What commands that append one event print."""

from typing import TYPE_CHECKING

from cli.output import clean, print_json, print_text

if TYPE_CHECKING:
    from eventlog.log import Appended


def print_written(answer: "Appended", done: str, *, json: bool) -> None:
    """Where the event went: as `trajlog append` answers, or as EP@N."""
    if json:
        from core.identity import uuid_text

        print_json(
            {
                "event_id": uuid_text(answer.event_id),
                "stream": answer.stream,
                "version": answer.version,
                "position": answer.position,
            }
        )
    else:
        print_text(f"{done}: {clean(answer.stream.removeprefix('episode/'))}@{answer.version}")
