"""`python -m tests.bench [--only NAME] [--json FILE]`: run the benchmarks, print one row each."""

import argparse
import json
import sys
from collections.abc import Callable
from pathlib import Path

from tests.bench import (
    append,
    as_of,
    diff,
    eventsourcing,
    exec,
    grep,
    importing,
    kafka,
    kafka_producer,
    proof,
    reading,
    recording,
    release,
    report,
)
from tests.bench.harness import Row

BENCHMARKS: dict[str, Callable[[], list[Row]]] = {
    "append": append.run,
    "eventsourcing": eventsourcing.run,
    "fold": reading.fold,
    "rebuild": reading.rebuilding,
    "as_of": as_of.run,
    "verify": reading.verification,
    "commands": reading.commands,
    "import": importing.run,
    "grep": grep.run,
    "diff": diff.run,
    "report": report.run,
    "kafka": kafka.run,
    "record": recording.run,
    "kafka_producer": kafka_producer.run,
    "proof": proof.run,
    "exec": exec.run,
    "release": release.run,
}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__)
    parser.add_argument("--only", metavar="NAME", help=f"one of {', '.join(BENCHMARKS)}, or the start of a row's name")
    parser.add_argument("--json", metavar="FILE", help="write the rows there as one JSON array")
    chosen = parser.parse_args()
    names = [
        name for name in BENCHMARKS if not chosen.only or chosen.only.startswith(name) or name.startswith(chosen.only)
    ]
    if not names:
        parser.error(f"no benchmark {chosen.only!r}: {', '.join(BENCHMARKS)}")
    rows: list[Row] = []
    for name in names:
        print(f"{name} …", file=sys.stderr, flush=True)
        for found in BENCHMARKS[name]():
            rows.append(found)
            print(
                f"{found.name:20} {found.ours:>14,.1f} {found.limit:>14,.1f} {found.unit:10} ratio {found.ratio:.3f}",
                flush=True,
            )
    if chosen.json:
        Path(chosen.json).write_text(json.dumps([found._asdict() for found in rows], indent=2) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
