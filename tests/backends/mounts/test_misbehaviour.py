"""Tools that hang, exit, crash, print, flood or fork: each is one clear line, and nothing else suffers."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from backends.contract import EnvironmentLost, ResetSpec
from backends.mounts import opened
from backends.replaying import Plan
from core.errors import UsageError
from tests.backends.mounts.making import action, call, failed, mount, mounted, value

BAD = """
import os, sys, time, signal, random, uuid

def load(): return {"count": 0}

def add(data, by: int):
    data["count"] += by
    return data["count"]

def hang(data):
    data["count"] += 100
    while True: time.sleep(1)

def leave(data):
    data["count"] += 100
    os._exit(3)

def exit(data): sys.exit("enough")

def crash(data):
    data["count"] += 100
    os.kill(os.getpid(), signal.SIGSEGV)

def shout(data, lines: int):
    for _ in range(lines): print("x" * 99)
    sys.stdout.flush()
    os.write(1, b"raw\\n"); os.write(2, b"raw\\n")
    return "done"

def flood(data, size: int): return "y" * size

def fork(data):
    data["count"] += 1
    if os.fork() == 0: return "child"
    return "parent"

def fork_and_stay(data):
    if os.fork() == 0:
        while True: time.sleep(1)
    return "parent"

def ask(data): return input("name? ")

def deep(data):
    made = []
    for _ in range(100000): made = [made]
    return made

def chance(data): return random.random()

def draw(data): return str(uuid.uuid4())

def pid(data): return os.getpid()
"""
STATE = {"loader": "shop:load", "parameter": "data"}
TOOLS = [
    f"shop:{name}"
    for name in [
        "add",
        "hang",
        "leave",
        "exit",
        "crash",
        "shout",
        "flood",
        "fork",
        "fork_and_stay",
        "ask",
        "deep",
        "chance",
        "draw",
        "pid",
    ]
]
MODES = pytest.mark.parametrize("fresh", ["copy", "fork"])


@MODES
@pytest.mark.parametrize(
    ("tool", "class_", "said"),
    [
        ("hang", "timeout", "did not return"),
        ("leave", "backend_bug", "exited with 3"),
        ("crash", "backend_bug", "SIGSEGV"),
    ],
)
def test_a_tool_that_takes_its_process_with_it_is_undone(
    tmp_path: Path, tool: str, class_: str, said: str, fresh: str
) -> None:
    made = mounted(tmp_path, BAD, tools=TOOLS, state=STATE, fresh=fresh)
    assert value(call(made, "add", by=1)) == 1
    state = made.observe().state
    assert said in failed(call(made, tool, deadline=0.5), class_, "unknown")
    assert made.observe().state == state
    assert value(call(made, "add", by=1)) == 2
    assert made.health().ok
    made.close()


def test_the_effect_is_unknown_where_calls_cannot_be_made_again(tmp_path: Path) -> None:
    made = mounted(tmp_path, BAD, tools=TOOLS, state=STATE, determinism="D2")
    with pytest.raises(UsageError, match="no snapshot"):
        made.snapshot()
    failed(call(made, "leave"), "backend_bug", "unknown")
    assert not made.health().ok
    assert "cannot be done again" in failed(call(made, "add", by=1), "transport_lost")
    assert made.observe().state is None
    made.reset(ResetSpec())
    assert value(call(made, "add", by=1)) == 1
    made.close()


def test_an_environment_that_only_claims_to_be_deterministic_is_found_out(tmp_path: Path) -> None:
    code = "import uuid\ndef load(): return {}\ndef put(data):\n    data['id'] = uuid.uuid4().hex\n    return 1\n"
    code += "def leave(data):\n    import os\n    os._exit(1)\n"
    made = mounted(tmp_path, code, tools=["shop:put", "shop:leave"], state=STATE)
    snapshot = made.snapshot()
    call(made, "put")
    later = made.snapshot()
    failed(call(made, "leave"), "backend_bug", "unknown")
    with pytest.raises(EnvironmentLost, match="not deterministic"):
        made.restore(later)
    assert made.restore(snapshot) == snapshot.state
    made.close()


def test_exit_is_an_error_of_the_tool(tmp_path: Path) -> None:
    made = mounted(tmp_path, BAD, tools=TOOLS, state=STATE)
    assert "called exit (enough)" in failed(call(made, "exit"), "backend_bug", "none")
    assert value(call(made, "add", by=1)) == 1
    made.close()


@MODES
def test_what_is_printed_disturbs_nothing_and_is_bounded(tmp_path: Path, fresh: str) -> None:
    made = mounted(tmp_path, BAD, tools=TOOLS, state=STATE, fresh=fresh)
    assert value(call(made, "shout", lines=30_000)) == "done"
    assert value(call(made, "add", by=1)) == 1
    until = time.monotonic() + 10
    while not made.printed().endswith("raw"):  # it is read beside the answers
        assert time.monotonic() < until, made.printed()[-100:]
        time.sleep(0.01)
    assert len(made.printed()) < 20_000
    made.close()


def test_a_flood_is_refused(tmp_path: Path) -> None:
    made = mounted(tmp_path, BAD, tools=TOOLS, state=STATE, result_bytes=100_000)
    assert len(value(call(made, "flood", size=90_000))) == 90_000
    assert "more than the 100,000 allowed" in failed(call(made, "flood", size=200_000), "backend_bug", "unknown")
    assert value(call(made, "add", by=1)) == 1
    made.close()


@MODES
def test_a_tool_that_forks_answers_once(tmp_path: Path, fresh: str) -> None:
    made = mounted(tmp_path, BAD, tools=TOOLS, state=STATE, fresh=fresh)
    for count in range(1, 4):
        assert value(call(made, "fork")) == "parent"
        assert value(call(made, "add", by=1)) == 2 * count
    made.close()


def test_what_tools_start_ends_with_them(tmp_path: Path) -> None:
    made = mounted(tmp_path, BAD, tools=TOOLS, state=STATE)
    group = value(call(made, "pid"))
    assert value(call(made, "fork_and_stay")) == "parent"
    assert "exited with 3" in failed(call(made, "leave"), "backend_bug", "unknown")
    made.close()
    _gone(group)


def _gone(group: int) -> None:
    until = time.monotonic() + 10
    while time.monotonic() < until and _alive(group):
        time.sleep(0.05)
    assert not _alive(group)


def _alive(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return any(_state(pid) not in ("Z", "") and _group(pid) == group for pid in Path("/proc").glob("[0-9]*"))


def _state(process: Path) -> str:
    try:
        return process.joinpath("stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return ""


def _group(process: Path) -> int:
    try:
        return int(process.joinpath("stat").read_text().rpartition(")")[2].split()[2])
    except (OSError, IndexError):
        return 0


def test_nothing_can_be_asked_of_a_user(tmp_path: Path) -> None:
    made = mounted(tmp_path, BAD, tools=TOOLS, state=STATE)
    assert "EOF" in failed(call(made, "ask"), "backend_bug", "none")
    made.close()


def test_a_result_too_deep_to_write_is_no_crash(tmp_path: Path) -> None:
    made = mounted(tmp_path, BAD, tools=TOOLS, state=STATE)
    assert "<deeper>" in str(value(call(made, "deep")))
    assert value(call(made, "add", by=1)) == 1
    made.close()


def test_chance_is_seeded(tmp_path: Path) -> None:
    made = mounted(tmp_path, BAD, tools=TOOLS, state=STATE)

    def drawn(seed: int) -> object:
        made.reset(ResetSpec(seeds={"environment": seed}))
        return value(call(made, "chance"))

    assert drawn(1) == drawn(1) != drawn(2)
    made.close()


@MODES
def test_plans_go_on_after_one_that_took_the_process_down(tmp_path: Path, fresh: str) -> None:
    made = opened(mount(tmp_path, BAD, tools=TOOLS, state=STATE, fresh=fresh, deadline_s=1.0))
    add, by = action("add", by=1), [1, 2, 3]
    plans = [
        Plan(ResetSpec(), [add, add, add], states=True),
        Plan(ResetSpec(), [add, action("leave"), add]),
        Plan(ResetSpec(), [add, add, add]),
        Plan(ResetSpec(), [add, action("hang"), add]),
        Plan(ResetSpec(), [add, action("exit"), action("fork"), add], states=True),
    ]
    found = list(made.replay(iter(plans), 20.0))
    assert [value(one) for one in found[0].feedback] == by
    assert len(found[0].states) == 4
    for index, class_ in ((1, "backend_bug"), (3, "timeout")):
        first, bad, last = found[index].feedback
        assert (value(first), value(last)) == (1, 2)
        failed(bad, class_, "unknown")
    assert [value(one) for one in found[2].feedback] == by
    assert value(found[4].feedback[3]) == 3
    assert len(found[4].states) == 5
    made.close()


def test_tools_end_with_whoever_called_them(tmp_path: Path) -> None:
    mount(tmp_path, BAD)
    code = f"""
import os, threading, time
from pathlib import Path
from tests.backends.mounts.making import call, mounted, value
made = mounted(Path({str(tmp_path)!r}), {BAD!r}, tools={TOOLS!r}, state={STATE!r})
group = value(call(made, "pid"))
threading.Timer(0.5, lambda: (print(group, flush=True), os.kill(os.getpid(), 9))).start()
call(made, "hang", deadline=60.0)
"""
    owner = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert owner.returncode == -9, owner.stderr
    _gone(int(owner.stdout))
