"""The phone passes the contract of backends, and does what a phone does."""

import msgspec
import pytest
from msgspec import Raw

from backends.contract import Make, ResetRefused, ResetSpec
from backends.phone import Phone
from backends.testing import BackendContract, Sample, call, do
from core.vocabulary.contract import ExecError, ToolResult
from core.vocabulary.task import InitialConditions


class TestPhone(BackendContract):
    @pytest.fixture
    def make(self) -> Make:
        return Phone

    @pytest.fixture
    def sample(self) -> Sample:
        return Sample(
            read=call("list_alarms"), write=call("create_note", title="x"), wrong=call("create_note", title=["x"])
        )


class TestPhoneWithToolsRenamed(TestPhone):
    @pytest.fixture
    def make(self) -> Make:
        return lambda: Phone(environment="phone-next", renamed={"create_note": "add_note"})

    @pytest.fixture
    def sample(self) -> Sample:
        return Sample(read=call("list_notes"), write=call("add_note", title="x"), wrong=call("add_note", title=1))


def phone(**initial: object) -> Phone:
    made = Phone()
    conditions = {
        name: Raw(msgspec.json.encode(value)) if name != "clock" else value for name, value in initial.items()
    }
    made.reset(ResetSpec(initial=InitialConditions(**conditions)))  # type: ignore[arg-type]
    return made


def result(backend: Phone, tool: str, **args: object) -> object:
    feedback = do(backend, call(tool, **args))
    assert isinstance(feedback, ToolResult), feedback
    return msgspec.json.decode(feedback.value)


def error(backend: Phone, tool: str, **args: object) -> str:
    feedback = do(backend, call(tool, **args))
    assert isinstance(feedback, ExecError), feedback
    assert feedback.effect == "none"
    return feedback.class_


def test_it_has_a_dozen_tools() -> None:
    assert len(Phone().describe().tools) == 12


def test_what_rings_while_it_is_silenced_is_seen_only_in_the_list() -> None:
    backend = phone(
        state={"alarms": [{"time": "14:30", "label": "Tea"}]},
        clock="2026-03-02T14:00:00Z",
        perturbations={"arrivals": [{"at": "2026-03-02T14:10:00Z", "source": "messages", "text": "Hi"}]},
    )
    assert result(backend, "wait", minutes=5) == {"time": "2026-03-02T14:05:00Z", "notifications": []}
    result(backend, "set_do_not_disturb", on=True)
    assert result(backend, "wait", minutes=60) == {"time": "2026-03-02T15:05:00Z", "notifications": []}
    rang = result(backend, "list_notifications")
    assert [(one["at"][11:16], one["source"], one["silenced"]) for one in rang] == [  # type: ignore[attr-defined]
        ("14:10", "messages", True),
        ("14:30", "alarms", True),
    ]
    assert error(backend, "wait", minutes=0) == "schema"


def test_an_alarm_rings_once_also_tomorrow() -> None:
    backend = phone(state={"alarms": [{"time": "14:00"}]}, clock="2026-03-02T14:00:00Z")
    assert result(backend, "wait", minutes=1439)["notifications"] == []  # type: ignore[index]
    assert len(result(backend, "wait", minutes=1)["notifications"]) == 1  # type: ignore[index]
    assert result(backend, "wait", minutes=1440)["notifications"] == []  # type: ignore[index]


def test_what_the_state_does_not_allow_is_refused_by_its_class() -> None:
    backend = phone(state={"note_limit": 1, "alarms": [{"time": "07:00"}]}, perturbations={"revoked": ["settings"]})
    result(backend, "create_note", title="one")
    assert error(backend, "create_note", title="two") == "precondition"
    assert error(backend, "set_alarm", time="07:00") == "conflict"
    assert error(backend, "delete_note", note_id="n9") == "not_found"
    assert error(backend, "set_do_not_disturb", on=True) == "permission"
    assert error(backend, "set_alarm", time="7:00") == "schema"


def test_ids_come_from_the_seed_and_are_never_given_twice() -> None:
    backend = Phone()
    backend.reset(ResetSpec(seeds={"environment": 3}))
    assert result(backend, "create_note", title="a") == {"note_id": "n301"}
    result(backend, "delete_note", note_id="n301")
    assert result(backend, "create_note", title="a") == {"note_id": "n302"}


def test_perturbations_rename_tools_and_turn_lists_round() -> None:
    backend = phone(
        state={"notes": [{"title": "a"}, {"title": "b"}]},
        perturbations={"renamed": {"list_notes": "notes"}, "reordered": True},
    )
    assert [one["title"] for one in result(backend, "notes")] == ["b", "a"]  # type: ignore[attr-defined]
    assert error(backend, "list_notes") == "unknown_tool"
    assert "notes" in {tool.name for tool in backend.observe().tools or []}


@pytest.mark.parametrize(
    "initial",
    [
        {"state": Raw(b'{"notes":[{"text":"no title"}]}')},
        {"state": Raw(b'{"alarms":[{"time":"25:00"}]}')},
        {"state": Raw(b'{"contacts":[]}')},
        {"state": Raw(b"[]")},
        {"clock": "tomorrow"},
        {"perturbations": Raw(b'{"renamed":{"no_tool":"x"}}')},
        {"perturbations": Raw(b'{"revoked":["camera"]}')},
    ],
)
def test_initial_conditions_that_it_cannot_have_are_refused(initial: dict[str, object]) -> None:
    with pytest.raises(ResetRefused) as raised:
        Phone().reset(ResetSpec(initial=InitialConditions(**initial)))  # type: ignore[arg-type]
    assert "\n" not in str(raised.value)


def test_another_name_for_a_tool_is_another_version() -> None:
    assert Phone().describe().version != Phone(renamed={"wait": "sleep"}).describe().version
