"""Other Python processes, and other users, for tests that need real ones."""

import os
import subprocess
import sys
import textwrap
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]


def python(code: str, *arguments: str, **options: Any) -> "subprocess.Popen[bytes]":
    """Run code that imports trajlog in a process of its own."""
    path = os.pathsep.join([str(ROOT), *sys.path])
    options["env"] = {**options.get("env", os.environ), "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.Popen([sys.executable, "-c", textwrap.dedent(code), *arguments], **options)


# What the embedded server imports when it comes to it, which is too late for another user.
LATE = ("secrets", "hashlib", "eventlog.embedded.init", "eventlog.embedded.install", "eventlog.embedded.launch")


def as_user(uid: int, action: Callable[[], object]) -> str:
    """What `action` returns or raises, as text, when another user does it; skips the test where
    that cannot be. A fork, as the other user may not reach this interpreter."""
    if os.geteuid() != 0:
        pytest.skip("acting as another user needs root")
    for name in LATE:
        import_module(name)
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.chdir("/")
            os.setgroups([])
            os.setgid(uid)
            os.setuid(uid)
            text = str(action())
        except BaseException as error:
            text = f"{type(error).__name__}: {error}"
        os.write(writer, text.encode())
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as file:
        text = file.read().decode()
    os.waitpid(child, 0)
    return text
