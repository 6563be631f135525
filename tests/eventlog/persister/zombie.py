"""A worker in a process of its own that stops itself (SIGSTOP) in the middle of its first transaction.

Arguments: database, log's address, and where: `in_copy`, `before_copy` or `before_commit`.
"""

import os
import signal
import sys
import threading
from typing import Any

import psycopg

from eventlog.kafka.address import KafkaAddress
from eventlog.kafka.client import connect
from eventlog.persister.transaction import Point
from eventlog.persister.worker import Worker


def main() -> None:
    url, address, where = sys.argv[1:]
    stopped = False

    def stop_once() -> None:
        nonlocal stopped
        if not stopped:
            stopped = True
            print("stopping", flush=True)
            os.kill(os.getpid(), signal.SIGSTOP)

    def hook(point: Point) -> None:
        if point == where:
            stop_once()

    if where == "in_copy":
        write = psycopg.Copy.write

        def write_and_stop(self: Any, data: Any) -> None:
            write(self, data)
            stop_once()

        psycopg.Copy.write = write_and_stop  # type: ignore[method-assign, assignment]
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: threading.Thread(target=stop.set).start())
    Worker(
        url, connect(KafkaAddress.parse(address)), stop=stop, hook=hook, say=lambda line: print(line, flush=True)
    ).run()


if __name__ == "__main__":
    main()
