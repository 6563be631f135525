"""Recorded episodes run again, against calling the same tools bare: in one process, on copies of the state.

The airline's world is as large as that of the benchmark it is made after; BFCL's gold plans need
bfcl-eval (in this interpreter, or that of TRAJLOG_TEST_BFCL) and are left out without it.
"""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from msgspec.structs import replace

from backends.contract import ResetSpec
from backends.execution import Environments, Options, execute
from backends.mounts import bfcl, opened
from backends.mounts.hosted import Hosted
from backends.mounts.mount import Bfcl, Python, State, read
from backends.replaying import Plan
from eventlog.blobs import BlobStore
from eventlog.interchange.importer import run as import_files
from eventlog.interchange.sources import expand
from eventlog.ledger import Ledger
from tests.backends import recordings
from tests.bench.harness import Row, fresh, row, seconds, server

EPISODES = 200
USERS = 500
ROUNDS = 5
BFCL = os.environ.get("TRAJLOG_TEST_BFCL", sys.executable)
BARE = Path(__file__).with_name("exec_bare.py")


def run() -> list[Row]:
    """Rows `exec.episodes` (s; at most 3 times as long) and `exec.bfcl` (s; at most twice)."""
    return [_episodes(), *_gold()]


def _episodes() -> Row:
    found = recordings.results(EPISODES, users=USERS)
    plans, world = recordings.plans(found), recordings.airline().load_data(USERS)
    mount = read(recordings.MOUNT)
    assert isinstance(mount, Python)
    large = replace(mount, state=State(loader="airline_tools:load_data", arguments={"users": USERS}))
    with server() as embedded, tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "results.json").write_text(json.dumps(found))
        with Ledger(fresh(embedded, "exec")[0], blobs=folder) as log:
            import_files(log, expand([str(Path(folder) / "results.json")], {".json"}), BlobStore(folder))
            ids = [event.stream.removeprefix("episode/") for event in log.read_all() if event.type == "EpisodeStarted"]

            def again() -> None:
                environments = Environments(lambda name: lambda: opened(large))
                results = [one.result for one in execute(log, ids, environments, Options(env="airline"))]
                environments.close()
                assert all(result.exit == 0 for result in results)

            ours, bare = [], []
            for _ in range(ROUNDS):
                ours.append(seconds(again))
                bare.append(seconds(recordings.bare, plans, world))
    return row("exec.episodes", ours, bare, "s")


def _gold() -> list[Row]:
    installed = subprocess.run([BFCL, "-s", "-c", "import bfcl_eval, mpmath"], capture_output=True, check=False)
    if installed.returncode:
        print("exec.bfcl is left out: no bfcl-eval", file=sys.stderr)
        return []
    backend = opened(Bfcl(name="bfcl", python=BFCL, folder="/"))
    assert isinstance(backend.engine, Hosted)
    tasks = list(bfcl.tasks(backend.engine))
    plans = [Plan(ResetSpec(task=task.id, initial=task.initial), task.calls, verbatim=True) for task in tasks]
    loop = subprocess.Popen([BFCL, "-s", str(BARE)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert loop.stdin is not None and loop.stdout is not None
    assert loop.stdout.readline() == f"{sum(len(task.calls) for task in tasks)}\n"
    ours, bare = [], []
    for _ in range(ROUNDS + 1):
        ours.append(seconds(lambda: list(backend.replay(iter(plans), 60.0))))
        loop.stdin.write("again\n")
        loop.stdin.flush()
        bare.append(float(loop.stdout.readline()))
    loop.stdin.close()
    loop.wait()
    backend.close()
    return [row("exec.bfcl", ours[1:], bare[1:], "s")]
