"""`trajlog kafka accept`: go on without what Kafka lost."""

from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cli.frame import Json, command
from cli.output import note, print_json, print_table, print_text
from cli.settings import settings
from core.errors import UsageError

if TYPE_CHECKING:
    from eventlog.persister.loss import Plan


@command("trajlog kafka accept", "trajlog kafka accept --yes")
def accept(
    yes: Annotated[bool, typer.Option("--yes", help="Go on without what is shown.")] = False, json: Json = False
) -> None:
    """Show what Kafka lost, and with --yes go on without it.

    For a partition whose beginning was deleted, or whose end was cut off or written anew, and for a
    topic that was made anew or is another one: the persister refuses these until somebody decides. With
    --yes each loss becomes an event in the log, and running workers go on within seconds. What the log
    has already stays, and is never taken twice.
    """
    import eventlog
    from eventlog.kafka.address import KafkaAddress
    from eventlog.kafka.client import connect
    from eventlog.log import reader_of
    from eventlog.persister import loss
    from eventlog.watchdog import patiently

    chosen = settings()
    if chosen.log is None:
        raise UsageError("no topic was named", where="--log", mend="give it: kafka://host:9092/topic")
    client = connect(KafkaAddress.parse(chosen.log, chosen.kafka))
    with eventlog.open(chosen.db, home=chosen.home) as log:
        reader = reader_of(log)
        with reader.borrow() as connection:
            plan = loss.plan(connection, client)
        if yes and not plan.empty:
            patiently(reader, partial(loss.accept, plan=plan))
    if json:
        print_json(_object(plan, accepted=yes and not plan.empty))
        return
    if plan.empty:
        print_text("Nothing is lost: there is nothing to accept.")
        return
    if plan.losses:
        print_table(
            ("topic", "partition", "from offset", "up to", "cause"),
            [(each.topic, each.partition, each.first_offset, each.next_offset, each.cause) for each in plan.losses],
            right=("partition", "from offset", "up to"),
        )
    if plan.topic is not None:
        print_text(f"The log goes on with topic {plan.topic.name}, from its beginning.")
    if not yes:
        note("nothing was changed; --yes goes on without these")


def _object(plan: "Plan", *, accepted: bool) -> dict[str, Any]:
    from core.identity import uuid_text

    return {
        "accepted": accepted,
        "topic_id": None if plan.topic is None else uuid_text(plan.topic.id),
        "losses": [
            {
                "topic": each.topic,
                "topic_id": uuid_text(each.topic_id),
                "partition": each.partition,
                "first_offset": each.first_offset,
                "next_offset": each.next_offset,
                "cause": each.cause,
                "what": each.what,
            }
            for each in plan.losses
        ],
    }
