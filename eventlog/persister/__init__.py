"""From Kafka into the ledger, exactly once.

`worker` runs `session` after session; a session fetches records into an `intake`, where `decode` makes
rows or faults of them, and commits them by `transaction`: cursors, events, segments and `quarantine`
together. `source` is the topic and its cursors, `doubts` when not to go on, `loss` how to go on without
what Kafka lost. `workers` runs several processes, `allocator` keeps their memory flat; `metrics` and
`progress` say how it goes.
"""

import gc
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from eventlog.kafka.client import Client
    from eventlog.persister.metrics import Snapshot

__all__ = ["run"]


def run(
    ledger_url: str,
    client: "Client",
    *,
    stop: threading.Event,
    seal: bool = True,
    metrics: "Snapshot | None" = None,
    say: Callable[[str], None] | None = None,
) -> None:
    """One worker on this thread, until `stop` is set: see `worker.Worker`."""
    from eventlog.persister.allocator import large_blocks_apart
    from eventlog.persister.worker import Worker

    large_blocks_apart()
    gc.freeze()  # sessions collect often, and what is here now stays
    Worker(ledger_url, client, stop=stop, seal=seal, metrics=metrics, say=say).run()
