"""Searching a log of a million events: against psql running the same query on the same index."""

import random
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from itertools import accumulate

import msgspec

from core.event import Event
from eventlog.embedded import Embedded
from eventlog.ledger import Ledger
from eventlog.search.grams import required
from eventlog.search.index import NARROW, catch_up, parameters
from tests.bench.harness import Row, episodes, row, seconds, server
from tests.bench.reading import BARE, MANY, filled, processes

NEEDLE = "quixotic-lighthouse"
EVERY = 50_000
"""One event in so many says it."""
ROUNDS = 15
_QUERY = """
SELECT e.stream, e.version, convert_from(e.body, 'UTF8') FROM ({narrow}) block
CROSS JOIN generate_series(block.after + 1, block.until) at JOIN trajlog.event e ON e.position = at
WHERE convert_from(e.body, 'UTF8') LIKE '%{needle}%' ORDER BY e.position DESC LIMIT 50
"""


def run() -> list[Row]:
    """Rows `grep.process` (ms, against a bare process and psql's query) and `grep.index` (events/s of
    making the index, against reading and decoding the same events)."""
    with server() as embedded:
        url = filled(embedded, "grep", MANY, worded(MANY))
        index = _index(url)
        command = [sys.executable, "-m", "cli", "--db", url, "grep", NEEDLE]
        bare = processes([sys.executable, str(BARE), "start", url, "-"], ROUNDS)
        ours = processes(command, ROUNDS)
        query = _psql(embedded, url)
        limit = [a + b for a, b in zip(sorted(bare), sorted(query), strict=True)]
        return [row("grep.process", ours, limit, "ms"), index]


def worded(count: int) -> Iterator[Event]:
    """The harness's events with words as texts have them: few often, most seldom, ids once."""
    chance = random.Random(3)
    letters = "etaoinshrdlucmfwypvbgkjqxz"
    weights = list(accumulate(1 / (rank + 1) for rank in range(26)))
    words = ["".join(chance.choices(letters, cum_weights=weights, k=chance.randrange(2, 11))) for _ in range(30_000)]
    often = list(accumulate(1 / (rank + 10) for rank in range(len(words))))
    for number, event in enumerate(episodes(count)):
        payload = msgspec.json.decode(event.body)
        text = chance.choices(words, cum_weights=often, k=90)
        text[chance.randrange(90)] = f"{chance.getrandbits(48):012x}"
        if number % EVERY == EVERY // 2:
            text[10] = NEEDLE
        if event.type == "ModelResponded":
            payload["content"] = " ".join(text)
        elif event.type == "FeedbackRecorded":
            payload["feedback"]["value"] = " ".join(text)
        yield msgspec.structs.replace(event, body=msgspec.json.encode(payload))


def _index(url: str) -> Row:
    def read(log: Ledger) -> None:
        for page in log.reader.raw_pages(after=0, until=MANY):
            for found in page:
                msgspec.json.decode(found[17])

    with Ledger(url) as log, log.reader.borrow() as connection:
        limit = MANY / seconds(read, log)
        ours = MANY / seconds(catch_up, log, connection, lambda address: None)
    return row("grep.index", [ours], [limit], "events/s")


def _psql(embedded: Embedded, url: str) -> list[float]:
    """Milliseconds that psql says the query takes."""
    values = parameters(sorted(required([NEEDLE])), MANY)
    literals = [f"'{{{','.join(map(str, value))}}}'" if isinstance(value, list) else str(value) for value in values]
    narrow = NARROW.replace("%s", "{}").format(*literals)
    query = _QUERY.format(narrow=narrow, needle=NEEDLE)
    program, environment = embedded.psql()
    psql = [str(program), "-X", "-q", url, "-c", "\\timing on", "-c", query]
    times = []
    for _ in range(ROUNDS + 1):
        shown = subprocess.run(psql, check=True, capture_output=True, text=True, env=environment).stdout
        assert NEEDLE in shown
        times.append(float(re.findall(r"Time: ([0-9.]+) ms", shown)[-1]))
        time.sleep(0.01)
    return times[1:]
