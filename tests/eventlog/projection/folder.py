"""A process that folds, to be killed: `python -m tests.eventlog.projection.folder URL WORK PROCESSES`.

It says `folded N` after each batch, and `done`. WORK is `catch_up` or `rebuild`.
"""

import sys

from eventlog.database import connect
from eventlog.ledger import Ledger
from eventlog.projection import rebuild, runner, shards
from eventlog.projection.runner import catch_up
from eventlog.views import registered


def main() -> None:
    url, work, processes = sys.argv[1:]
    runner.BATCH = 40
    shards.BULK = 100
    shards.POLL_S = 0.01

    def progress(done: int, total: int) -> None:
        print("folded", done, flush=True)

    with Ledger(url) as log, connect(url) as connection:
        print("ready", flush=True)
        if work == "rebuild":
            for projection in registered():
                rebuild.rebuild(log, connection, projection, progress=progress, processes=int(processes))
        else:
            catch_up(log, connection, registered(), progress=progress, processes=int(processes))
    print("done", flush=True)


if __name__ == "__main__":
    main()
