"""`make demo-cluster`: the demo through a Kafka and a Postgres that are started here, and stopped again.

Nothing but the addresses differs from `make demo`: what is listed is the same.
"""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from cli import settings
from cli.demo import alone, play
from cli.output import note, print_text, style
from core.errors import TrajlogError, Unavailable
from eventlog.embedded import Embedded
from tests.broker import Cluster
from tests.broker_jars import NoKafka

ROOT = Path(__file__).parents[1]
TOPIC = "trajlog-demo"
WHERE = "make demo-cluster"


def main() -> int:
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        with ExitStack() as stack:
            _run(stack)
    except KeyboardInterrupt:
        note("interrupted; all was stopped")
        return 130
    except TrajlogError as error:
        note(f"trajlog: {error}")
        return error.exit_code
    return 0


def _run(stack: ExitStack) -> None:
    note("starting Kafka and PostgreSQL (the first time, Kafka is fetched by Maven) …")
    broker = stack.enter_context(_broker())
    home = stack.enter_context(_folder()) / "home"
    server = stack.enter_context(_postgres(home))
    stack.enter_context(alone(home))
    os.environ["PYTHONPATH"] = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    _set("TRAJLOG_DB", server.url(owner=True))
    _show("init")
    _set("TRAJLOG_DB", server.url())
    _set("TRAJLOG_LOG", broker.address(TOPIC))
    # One partition: then the episodes lie in the order in which they were imported, as without Kafka.
    _show("kafka", "init", "--open", "--partitions", "1")
    stack.enter_context(_persister())
    play()
    _show("status")


@contextmanager
def _broker() -> Iterator[Cluster]:
    try:
        broker = Cluster()
    except NoKafka as reason:
        raise Unavailable(str(reason), where=WHERE, mend="install Java 17 and Maven, or: make demo") from None
    with broker:
        yield broker


@contextmanager
def _folder() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="trajlog-demo-"))
    folder.chmod(0o711)  # as root, the user that runs PostgreSQL must get through
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _postgres(home: Path) -> Iterator[Embedded]:
    server = Embedded(home)
    try:
        server.start()
        yield server
    finally:
        server.stop()


@contextmanager
def _persister() -> Iterator[None]:
    _print("trajlog persist &")
    process = subprocess.Popen(_command("persist"))
    try:
        yield
    finally:
        process.terminate()
        try:
            process.wait(20)
        finally:
            process.kill()


def _set(name: str, url: str) -> None:
    _print(f"export {name}='{settings.mask(url)}'")
    os.environ[name] = url


def _show(*arguments: str) -> None:
    """Run a command in a process of its own and show it."""
    _print(f"trajlog {' '.join(arguments)}")
    done = subprocess.run(_command(*arguments), check=False)
    if done.returncode:
        raise Unavailable(f"trajlog {arguments[0]} failed", where=WHERE, mend="see what it said above")
    print_text()


def _print(command: str) -> None:
    print_text(style(f"$ {command}", "bold"))
    sys.stdout.flush()


def _command(*arguments: str) -> Sequence[str]:
    return (sys.executable, "-m", "cli", *arguments)


if __name__ == "__main__":
    sys.exit(main())
