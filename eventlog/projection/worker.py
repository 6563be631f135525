"""A process that folds one shard: `python -m eventlog.projection.worker`, its work as a line on stdin.

It ends when its work is done, or when the process that started it is gone and closes the pipe.
"""

import json
import os
import sys
import threading
from typing import Any


def main() -> None:
    work: dict[str, Any] = json.loads(sys.stdin.readline())
    threading.Thread(target=_end_with_the_parent, daemon=True).start()
    from eventlog.database import connect
    from eventlog.ledger import Ledger
    from eventlog.projection.registry import named
    from eventlog.projection.runner import fold_shard
    from eventlog.projection.shards import Shard

    projections = [named(*name) for name in work["names"]]
    with Ledger(work["url"]) as log, connect(work["url"]) as connection:
        fold_shard(log, connection, projections, work["target"], Shard(*work["shard"]))


def _end_with_the_parent() -> None:
    sys.stdin.read()
    os._exit(1)


if __name__ == "__main__":
    main()
