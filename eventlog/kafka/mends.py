"""Faults of kafka-python (seen in 3.0.12, the newest) that are mended from outside. Each has a test.

They reach into the library, so each does nothing where it no longer looks as expected.
"""

from typing import Any

JOIN_MS = 1_000
ABANDON_S = 2


def make_no_topics(client: Any) -> None:
    """A consumer or producer asked brokers to create the topic that it names, `allow_auto_create_topics` or not:
    the setting never reached the part that asks."""
    for part in ("_cluster", "_metadata"):
        config = getattr(getattr(client, part, None), "config", None)
        if isinstance(config, dict) and "allow_auto_create_topics" in config:
            config["allow_auto_create_topics"] = False


def unpark(consumer: Any) -> None:
    """What was fetched of a paused partition is parked, and looked for again only when the slot for the batch in
    hand is None: a used-up batch in it kept a resumed partition silent for ever."""
    fetcher = getattr(consumer, "_fetcher", None)
    if fetcher is not None and not getattr(fetcher, "_next_partition_records", None):
        fetcher._next_partition_records = None


def join(consumer: Any) -> None:
    """Finish joining the group before records are asked for.

    A poll that ended while the group rebalanced left the join to the background. The next one threw its result away
    and joined again, or, if it was the metadata that had changed, never looked at it: no partitions, for ever.
    """
    coordinator = getattr(consumer, "_coordinator", None)
    if coordinator is None or not hasattr(coordinator, "_join_task"):
        return
    if coordinator._join_task is not None and not coordinator.need_rejoin():
        coordinator.request_rejoin()
    if coordinator.need_rejoin():
        coordinator.poll(timeout_ms=JOIN_MS)


def abandon(producer: Any) -> None:
    """Closing a producer that could not send everything raised, and left its thread and the records' fates hanging."""
    sender = getattr(producer, "_sender", None)
    if sender is not None and hasattr(sender, "force_close"):
        sender.force_close()
        sender.join(ABANDON_S)
