"""Recorded episodes run again: what comes out the same, what does not, and how that is said."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec import Raw

from backends.contract import Backend
from backends.execution import Environments, Executed, Options, execute, exit_code, summary
from backends.execution.comparing import compare
from backends.execution.run import Lines
from backends.mounts import opened
from backends.mounts.mount import read
from backends.phone import Phone
from core.errors import NotFound
from core.vocabulary import payload
from core.vocabulary.contract import ExecError, Feedback, ToolCall, ToolResult
from core.vocabulary.episode import (
    ActionSubmitted,
    EpisodeStarted,
    FeedbackRecorded,
    ModelResponded,
    Origin,
    Parent,
    ToolSpec,
)
from core.vocabulary.replay import DivergenceFound, EpisodeReexecuted
from eventlog.blobs import BlobStore
from eventlog.inmemory import InMemoryLog
from eventlog.interchange.importer import run as import_files
from eventlog.interchange.sources import expand
from eventlog.ledger import Ledger
from eventlog.log import Log
from tests.backends import recordings
from tests.backends.mounts.making import action, mount
from tests.backends.plays import ALL, play
from tests.databases import Databases
from tests.eventlog import samples


@pytest.fixture(scope="module")
def imported(databases: Databases, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ledger]:
    """A log with 24 imported episodes of the airline."""
    folder = tmp_path_factory.mktemp("imported")
    file = folder / "results.json"
    file.write_text(json.dumps(recordings.results(24)))
    with Ledger(databases.fresh("exec").url, blobs=folder / "blobs") as log:
        import_files(log, expand([str(file)], {".json"}), BlobStore(folder / "blobs"))
        yield log


@pytest.fixture
def airline(tmp_path: Path) -> Path:
    """A copy of the airline's code, to be changed."""
    return Path(shutil.copytree(recordings.AIRLINE, tmp_path / "airline"))


def ids(log: Ledger) -> list[str]:
    return sorted({event.stream.removeprefix("episode/") for event in log.read_all() if event.type == "EpisodeStarted"})


def again(log: Log, episodes: list[str], backend: Backend | None, **options: Any) -> list[Lines]:
    """Run episodes again in this environment."""

    def find(name: str) -> Any:
        if backend is None:
            raise NotFound("no such environment", where=name)
        return lambda: backend

    instances = Environments(find)
    try:
        return list(execute(log, episodes, instances, Options(env="there", **options), execution="x"))
    finally:
        instances.close()


def airlines(folder: Path = recordings.AIRLINE) -> Backend:
    return opened(read(folder / "mount.toml"))


def edit(file: Path, old: str, new: str) -> None:
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new))


def recorded(*pairs: tuple[ToolCall, Feedback | None], origin: bool = True, **started: Any) -> tuple[InMemoryLog, str]:
    """A log with one episode of these calls and what came back."""
    payloads: list[Any] = [EpisodeStarted(origin=samples.origin("i1") if origin else None, **started)]
    for step, (call, feedback) in enumerate(pairs, 1):
        payloads += [ModelResponded(step), ActionSubmitted(step, call)]
        if feedback is not None:
            payloads.append(FeedbackRecorded(step, feedback, action=len(payloads)))
    log = InMemoryLog()
    log.append_many(samples.events("episode/e", payloads))
    return log, "e"


def result(value: Any) -> ToolResult:
    return ToolResult(Raw(msgspec.json.encode(value)))


# -- imported episodes -------------------------------------------------------------------------------


def test_imported_episodes_come_again_their_errors_and_unknown_tools_too(imported: Ledger) -> None:
    found = [one.result for one in again(imported, ids(imported), airlines())]
    assert {one.exit for one in found} == {0}, [one for one in found if one.exit]
    assert {(one.steps, one.same, one.masked) for one in found} == {(8, 8, 0)}
    texts = " ".join(event.body.decode() for event in imported.read_all() if event.type == "FeedbackRecorded")
    assert all(sign in texts for sign in ("unknown_tool", "not_found", "unexpected keyword argument"))


def test_a_renamed_field_is_drift_and_named_by_its_place(imported: Ledger, airline: Path) -> None:
    edit(airline / "airline_tools" / "data.py", '"province": "VL"', '"state": "VL"')
    found = again(imported, ids(imported), airlines(airline))
    assert exit_code(one.result for one in found) == 1
    first = found[0]
    diverged = first.result.diverged[0]
    assert (diverged.step, diverged.tool, diverged.path) == (2, "get_user_details", "$.address.province")
    assert (diverged.expected, diverged.actual, diverged.class_) == ("VL", None, "environment_drift")
    assert first.lines == ["step=2 get_user_details $.address: -province +state  environment_drift"]
    told = summary([one.result for one in found])
    assert (told.episodes, told.same, told.diverged, told.incomplete) == (24, 0, 24, 0)
    assert [(one.tool, one.path, one.episodes) for one in told.by] == [("get_user_details", "$.address.province", 24)]


def test_an_error_that_does_not_come_again_is_drift(imported: Ledger, airline: Path) -> None:
    edit(airline / "airline_tools" / "__init__.py", "Error: reservation not found", "Error: no such reservation")
    found = [one.result for one in again(imported, ids(imported), airlines(airline))]
    diverged = [one for result in found for one in result.diverged]
    assert {(one.tool, one.path) for one in diverged} == {("get_reservation_details", "$")}
    assert {one.expected for one in diverged} == {"Error: reservation not found"}
    assert {one.actual for one in diverged} == {"Error: no such reservation"}


def test_a_tool_that_the_mount_lacks_is_said(imported: Ledger, airline: Path) -> None:
    edit(airline / "airline_tools" / "__init__.py", "    Calculate,\n", "")
    edit(airline / "mount.toml", '"calculate", ', "")
    found = [one.result for one in again(imported, ids(imported), airlines(airline))]
    assert {tuple(one.lacking) for one in found if one.exit} == {("calculate",)}
    assert {one.actual for result in found for one in result.diverged} == {"Unknown action calculate"}


def test_what_follows_the_first_divergence_is_marked_and_first_stops_there(imported: Ledger, airline: Path) -> None:
    edit(airline / "airline_tools" / "data.py", '"province": "VL"', '"province": "OS"')
    edit(airline / "airline_tools" / "__init__.py", "round(float(", "round(1 + float(")
    everything = [one.result for one in again(imported, ids(imported), airlines(airline))]
    more = next(one for one in everything if len(one.diverged) > 1)
    assert more.diverged[0].after is None
    assert {one.after for one in more.diverged[1:]} == {more.diverged[0].version}
    (only,) = again(imported, [more.episode], airlines(airline), first=True)
    assert [one.path for one in only.result.diverged] == ["$.address.province"]


def test_a_tool_that_hangs_or_crashes_spoils_its_own_call_alone(imported: Ledger, airline: Path) -> None:
    edit(airline / "airline_tools" / "__init__.py", 'return ""', "import os; os._exit(9)")
    edit(
        airline / "airline_tools" / "__init__.py",
        "from .data import load_data",
        "from .data import load_data\nimport time",
    )
    edit(
        airline / "airline_tools" / "__init__.py",
        'data["reservations"][reservation_id]["bags"] = bags',
        'time.sleep(60) if bags == 3 else data["reservations"][reservation_id].update(bags=bags)',
    )
    edit(airline / "mount.toml", 'kind = "python"', 'kind = "python"\ndeadline_s = 0.5')
    found = [one.result for one in again(imported, ids(imported)[:8], airlines(airline))]
    diverged = [one for result in found for one in result.diverged]
    assert diverged
    for one in diverged:
        assert one.tool in ("think", "update_bags", "get_reservation_details"), one
    assert any("exited with 9" in str(one.actual) for one in diverged if one.tool == "think")


def test_what_is_found_becomes_events_in_the_episode(imported: Ledger, airline: Path) -> None:
    edit(airline / "airline_tools" / "data.py", '"province": "VL"', '"province": "OS"')
    name = ids(imported)[0]
    head = imported.stream_head(f"episode/{name}")
    backend = airlines(airline)
    again(imported, [name], backend)
    *diverged, done = [payload(event) for event in imported.read(f"episode/{name}", after=head)]
    assert isinstance(done, EpisodeReexecuted)
    assert (done.execution, done.environment, done.divergences) == ("x", backend.describe().name, len(diverged))
    first = diverged[0]
    assert isinstance(first, DivergenceFound)
    assert (first.path, first.expected, first.actual) == ("$.address.province", Raw(b'"VL"'), Raw(b'"OS"'))
    action_ = next(event for event in imported.read(f"episode/{name}") if event.version == first.action)
    assert action_.type == "ActionSubmitted"


# -- cosmetic and not ----------------------------------------------------------------------------------

CLOCK = """
import time, uuid, random
def now(): return {"at": time.strftime("%Y-%m-%dT%H:%M:%SZ"), "id": uuid.uuid4().hex, "n": 1}
def opens(): return {"at": "2026-01-02T07:00:00Z"}
def roll(): return {"dice": random.SystemRandom().random()}
"""


def clocks(folder: Path) -> Backend:
    return opened(mount(folder, CLOCK, tools=["shop:now", "shop:opens", "shop:roll"]))


def test_times_and_ids_that_are_new_every_time_are_cosmetic_and_counted(tmp_path: Path) -> None:
    was = {"at": "2024-05-01T10:00:00Z", "id": "0" * 32, "n": 1}
    log, name = recorded((action("now"), result(was)))
    (one,) = again(log, [name], clocks(tmp_path))
    assert (one.result.exit, one.result.masked, one.result.same) == (0, 2, 1)
    assert one.result.nondeterministic == ["now"]
    done = payload(list(log.read("episode/e"))[-1])
    assert isinstance(done, EpisodeReexecuted)
    assert done.cosmetic == {"ids@1": 1, "time@1": 1}


def test_a_time_that_the_environment_gives_every_time_is_no_cosmetic_difference(tmp_path: Path) -> None:
    log, name = recorded((action("opens"), result({"at": "2026-01-02T08:00:00Z"})))
    (one,) = again(log, [name], clocks(tmp_path))
    assert [(d.path, d.expected) for d in one.result.diverged] == [("$.at", "2026-01-02T08:00:00Z")]
    assert (one.result.masked, one.result.nondeterministic) == (0, [])


def test_without_masks_everything_counts(tmp_path: Path) -> None:
    log, name = recorded((action("now"), result({"at": "2024-05-01T10:00:00Z", "id": "0" * 32, "n": 1})))
    (one,) = again(log, [name], clocks(tmp_path), masks=())
    assert one.result.diverged[0].path == "$.at"


def test_a_tool_that_is_not_deterministic_is_named(tmp_path: Path) -> None:
    log, name = recorded(
        (action("roll"), result({"dice": 0.25})), (action("opens"), result({"at": "2026-01-02T07:00:00Z"}))
    )
    (one,) = again(log, [name], clocks(tmp_path))
    assert one.result.exit == 1
    assert one.result.nondeterministic == ["roll"]


# -- what cannot be compared or run -----------------------------------------------------------------------


def test_an_action_that_nothing_answered_leaves_the_episode_incomplete(tmp_path: Path) -> None:
    lost = ExecError("transport_lost", False, "unknown")
    opens = action("opens"), result({"at": "2026-01-02T07:00:00Z"})
    log, name = recorded(opens, (action("opens"), None), (action("opens"), lost), opens)
    (one,) = again(log, [name], clocks(tmp_path))
    assert (one.result.exit, one.result.steps, one.result.same) == (3, 4, 2)
    assert [d.class_ for d in one.result.diverged] == ["missing_observation"] * 2


def test_an_episode_that_cannot_be_run_says_why(tmp_path: Path) -> None:
    log, name = recorded((action("opens"), result(1)))
    (one,) = again(log, [name], None)
    assert (one.result.exit, one.result.why) == (3, "there: no such environment")
    (none,) = execute(log, [name], Environments(lambda env: lambda: clocks(tmp_path)), Options())
    assert none.result.why == "it does not say which environment it ran in: give --env"
    empty = InMemoryLog()
    empty.append_many(samples.events("episode/e", [ActionSubmitted(1, action("opens"))]))
    (odd,) = again(empty, ["e"], clocks(tmp_path))
    assert odd.result.why == "it has no beginning"


def test_a_large_text_is_compared_whole_and_missed_when_it_is_gone(databases: Databases, tmp_path: Path) -> None:
    from eventlog.recorder import record

    code = "def page(n: int): return {'text': 'abc ' * n}"
    blobs = tmp_path / "blobs"
    with Ledger(databases.fresh("exec").url, blobs=blobs) as log:
        origin = Origin("made-up", 1, 1, "i", "here", samples.origin("i1").record)
        with record(log, id="large", origin=origin) as episode:
            episode.model("look")
            episode.feedback(episode.action("page", {"n": 40_000}), {"text": "abc " * 40_000})
        (one,) = again(log, ["large"], opened(mount(tmp_path, code)))
        assert one.result.exit == 0
        shutil.rmtree(blobs)
        (one,) = again(log, ["large"], opened(mount(tmp_path, code)))
        assert one.result.exit == 3
        assert "blob" in (one.result.why or "")


def test_an_environment_that_has_none_of_the_tools_is_not_compared_with(tmp_path: Path) -> None:
    gone = ExecError("unknown_tool", False, "none", message="there is no tool 'fly'")
    log, name = recorded((action("book"), result(1)), (action("fly"), gone), (action("pay"), result(2)))
    before = log.head().position
    (one,) = again(log, [name], clocks(tmp_path))
    assert (one.result.exit, one.result.lacking, one.lines) == (3, ["book", "pay"], [])
    assert (one.result.why or "").startswith("made@")
    assert "has none of the tools that were called, so nothing was compared" in (one.result.why or "")
    assert log.head().position == before


def test_where_some_tools_are_there_a_missing_one_is_drift(tmp_path: Path) -> None:
    opens = action("opens"), result({"at": "2026-01-02T07:00:00Z"})
    log, name = recorded(opens, (action("pay"), result(2)))
    (one,) = again(log, [name], clocks(tmp_path))
    assert (one.result.exit, one.result.lacking, one.result.same) == (1, ["pay"], 1)


def test_a_call_that_was_refused_as_unknown_comes_again_as_that(tmp_path: Path) -> None:
    log, name = recorded((action("fly"), ExecError("unknown_tool", False, "none", message="there is no tool 'fly'")))
    (one,) = again(log, [name], clocks(tmp_path))
    assert (one.result.exit, one.result.same) == (0, 1)


# -- what trajlog recorded itself --------------------------------------------------------------------------


def live(**more: Any) -> tuple[InMemoryLog, str]:
    log = InMemoryLog()
    outcome, _ = play(ALL["early-flight"], log=log, **more)
    return log, str(outcome.episode)


def given(log: Log, task: str) -> None:
    from backends import tasks
    from eventlog.writer import Writer

    tasks.store(log, ALL[task], Writer("tasks"))


def test_a_live_episode_comes_again_state_for_state() -> None:
    log, name = live()
    given(log, "early-flight")
    (one,) = again(log, [name], Phone())
    assert (one.result.exit, one.result.diverged) == (0, [])
    assert one.result.env == Phone().describe().name


def test_an_injected_fault_comes_again() -> None:
    from backends.faults import Fault

    log, name = live(plan=[Fault(fault="down", tool="set_alarm", calls=[1], class_="transient")])
    given(log, "early-flight")
    (one,) = again(log, [name], Phone())
    assert (one.result.exit, one.result.diverged) == (0, [])


def test_a_renamed_tool_and_another_state_are_found() -> None:
    log, name = live()
    given(log, "early-flight")
    (one,) = again(log, [name], Phone(environment="phone", renamed={"set_alarm": "create_alarm"}))
    first = one.result.diverged[0]
    assert (first.tool, first.path, first.class_) == ("set_alarm", "$", "code_change")
    assert first.actual["class"] == "unknown_tool"
    assert one.result.lacking == ["set_alarm"]


def test_the_state_is_compared_where_the_feedback_is_the_same() -> None:
    call = action("get_time")
    spec = ToolSpec("get_time")
    phone = Phone()
    from backends.contract import ResetSpec

    begun = phone.reset(ResetSpec())
    said = phone.execute(call, 5.0, "k")
    log = InMemoryLog()
    started = EpisodeStarted(environment="phone", tools=[spec], state=begun)
    wrong = FeedbackRecorded(1, said, action=3, state_before=begun, state_after="sha256:other")
    log.append_many(samples.events("episode/e", [started, ModelResponded(1), ActionSubmitted(1, call), wrong]))
    (one,) = again(log, ["e"], phone)
    assert [(d.path, d.expected, d.actual) for d in one.result.diverged] == [("state_after", "sha256:other", begun)]


def test_a_fork_runs_what_it_shares_first_and_compares_its_own(tmp_path: Path) -> None:
    code = "def load(): return {'n': 0}\ndef add(data, by: int):\n    data['n'] += by\n    return data['n']\n"
    log, _ = recorded((action("add", by=1), result(1)), (action("add", by=5), result(6)))
    fork = EpisodeStarted(origin=samples.origin("i1"), parent=Parent("episode/e", 4))
    own = [fork, ModelResponded(2), ActionSubmitted(2, action("add", by=2)), FeedbackRecorded(2, result(3), action=3)]
    log.append_many(samples.events("episode/f", own))
    (one,) = again(
        log,
        ["f"],
        opened(mount(tmp_path, code, tools=["shop:add"], state={"loader": "shop:load", "parameter": "data"})),
    )
    assert (one.result.exit, one.result.steps, one.result.same) == (0, 1, 1)


# -- comparing -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("was", "comes", "path"),
    [
        (result("255.0"), result("255.0"), None),
        (result({"a": 1}), result('{"a": 1.0}'), None),
        (ToolResult(Raw(b'{"a":  1}')), result('{"a":  1}'), None),
        (result("255.0"), result(255.0), None),
        (result("[1, 2]"), result([1, 3]), "$[1]"),
        (result({"a": [{"b": "x"}]}), result('{"a": [{"b": "y"}]}'), "$.a[0].b"),
        (result("yes"), result("no"), "$"),
        (ExecError("precondition", False, "none", message="Error: no"), result("Error: no"), None),
        (
            ExecError("not_found", False, "none", message="x"),
            ExecError("precondition", False, "none", message="x"),
            None,
        ),
        (ExecError("not_found", False, "none", message="x"), ExecError("not_found", False, "none", message="y"), "$"),
        (
            ExecError("unknown_tool", False, "none", message="a"),
            ExecError("unknown_tool", True, "none", message="b"),
            None,
        ),
        (result(True), result(1), "$"),
    ],
)
def test_imported_results_are_compared_as_text_or_as_json(was: Feedback, comes: Feedback, path: str | None) -> None:
    assert [one.path for one in compare(was, comes, imported=True)] == ([] if path is None else [path])


@pytest.mark.parametrize(
    ("was", "comes", "path"),
    [
        (result({"a": 1}), result({"a": 1}), None),
        (result({"a": 1}), result({"a": 2}), "$.a"),
        (ToolResult(Raw(b"1"), clock="2026-01-01T00:00:00Z", cost=1.0), ToolResult(Raw(b"1"), cost=2.0), None),
        (ToolResult(Raw(b"1"), deltas=Raw(b'{"n":1}')), ToolResult(Raw(b"1"), deltas=Raw(b'{"n":2}')), "deltas.n"),
        (
            ExecError("conflict", False, "none", message="x"),
            ExecError("permission", False, "none", message="x"),
            "$.class",
        ),
        (ExecError("conflict", False, "none", message="x"), result("x"), "$"),
        (ExecError("timeout", False, "none", message="x"), ExecError("timeout", False, "unknown", message="y"), None),
    ],
)
def test_our_own_feedback_is_compared_as_a_whole(was: Feedback, comes: Feedback, path: str | None) -> None:
    assert [one.path for one in compare(was, comes, imported=False)] == ([] if path is None else [path])


def test_rows_of_a_list_fall_together_in_the_summary() -> None:
    from backends.execution import Diverged

    found = [
        Executed(
            episode=f"e{n}",
            env="x",
            exit=1,
            diverged=[Diverged(3, 1, "t", f"$.rows[{n}].price", 1, 2, "environment_drift")],
        )
        for n in range(3)
    ]
    assert [(one.path, one.episodes) for one in summary(found).by] == [("$.rows[*].price", 3)]
