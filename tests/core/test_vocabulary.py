"""Every type can be written, read back, explained and tried; whatever is not understood is kept."""

import json
import pkgutil
import subprocess
import sys
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec import Raw

from core import vocabulary
from core.errors import BadEvent
from core.event import Event, check
from core.vocabulary import DOMAINS, TYPES, Unknown, body, catalogue, payload
from core.vocabulary.base import Payload
from core.vocabulary.contract import ToolCall
from core.vocabulary.describe import marks
from core.vocabulary.episode import ActionSubmitted, MessageRecorded, NoteAdded
from tests.core.strategies import json_texts, json_values, structs
from tests.examples import examples

CATALOGUE = {entry["type"]: entry for entry in catalogue()}


def event(type_: str, data: bytes, schema: int = 1) -> Event:
    return Event(event_id=bytes(16), stream="s", writer="w", run=bytes(16), seq=1, type=type_, schema=schema, body=data)


def written(said: Payload) -> Event:
    return event(type(said).__name__, body(said), said.schema_number)


@pytest.mark.parametrize("name", TYPES)
@settings(
    max_examples=examples(6), suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large], deadline=None
)
@given(data=st.data())
def test_decoding_what_was_encoded_gives_the_same_payload(name: str, data: st.DataObject) -> None:
    said = data.draw(structs(TYPES[name]))
    check(written(said))
    assert payload(written(said)) == said


@pytest.mark.parametrize("name", TYPES)
@settings(max_examples=examples(4))
@given(data=st.binary() | json_texts(st.dictionaries(st.text(), json_values)))
def test_any_bytes_are_a_payload_or_shown_raw(name: str, data: bytes) -> None:
    found = payload(event(name, data))
    assert isinstance(found, TYPES[name]) or found == Unknown(name, 1, data, getattr(found, "why", ""))


@given(st.sampled_from(list(TYPES)), st.sampled_from(list(TYPES)))
def test_the_payload_of_another_type_is_a_payload_or_shown_raw(name: str, other: str) -> None:
    data = msgspec.json.encode(CATALOGUE[other]["example"]["payload"])
    found = payload(event(name, data))
    assert isinstance(found, TYPES[name]) or found == Unknown(name, 1, data, getattr(found, "why", ""))


def test_an_unknown_type_is_shown_raw() -> None:
    found = payload(event("FromTomorrow", b'{"x": 1}', schema=4))
    assert isinstance(found, Unknown)
    assert (found.type, found.schema, found.raw) == ("FromTomorrow", 4, b'{"x": 1}')


def test_a_newer_schema_is_shown_raw() -> None:
    found = payload(event("NoteAdded", b'{"text":"x"}', schema=2))
    assert isinstance(found, Unknown)
    assert "newer" in found.why


def test_a_newer_choice_is_shown_raw() -> None:
    found = payload(event("EpisodeEnded", b'{"end":{"kind":"abducted"}}'))
    assert isinstance(found, Unknown)
    assert "abducted" in found.why


def test_a_field_of_a_newer_writer_does_not_hide_the_rest_and_stays_in_the_body() -> None:
    recorded = event("NoteAdded", b'{"text":"x","mood":"grim"}')
    assert payload(recorded) == NoteAdded("x")
    assert b'"mood":"grim"' in recorded.body


@pytest.mark.parametrize("args", [b'{ "a" : 1.0 }', b'{"a":1e0,"a":2}', b'"\\u00e9"', b"null", b"[1 , 2]"])
def test_tool_arguments_are_kept_verbatim(args: bytes) -> None:
    found = payload(written(ActionSubmitted(1, ToolCall("t", Raw(args)))))
    assert isinstance(found, ActionSubmitted)
    assert isinstance(found.action, ToolCall)
    assert bytes(found.action.args) == args


def test_a_null_content_is_not_an_empty_one() -> None:
    null, empty = MessageRecorded("user", Raw(b"null")), MessageRecorded("user", Raw(b'""'))
    assert payload(written(null)) == null != empty == payload(written(empty))


@pytest.mark.parametrize("said", [NoteAdded("\ud800"), NoteAdded(text=object())])  # type: ignore[arg-type]
def test_a_payload_that_is_no_json_is_one_error(said: Payload) -> None:
    with pytest.raises(BadEvent, match="NoteAdded"):
        body(said)


@pytest.mark.parametrize("entry", CATALOGUE.values(), ids=CATALOGUE)
def test_every_example_can_be_appended_and_read(entry: dict[str, Any]) -> None:
    example = entry["example"]
    assert list(entry) == ["type", "status", "fields", "example"]
    assert example["type"] == entry["type"]
    recorded = msgspec.structs.replace(
        event(entry["type"], msgspec.json.encode(example["payload"])), stream=example["stream"]
    )
    check(recorded)
    assert isinstance(payload(recorded), TYPES[entry["type"]])


@pytest.mark.parametrize("entry", CATALOGUE.values(), ids=CATALOGUE)
def test_every_field_says_what_it_means_and_whether_it_is_private(entry: dict[str, Any]) -> None:
    for field in entry["fields"]:
        assert list(field) == ["name", "type", "required", "visibility", "meaning"]
        assert field["visibility"] in {"open", "private"}
        assert field["meaning"] and field["type"]
    json.dumps(entry)


def test_every_type_and_part_has_a_line_of_its_own() -> None:
    for type_ in TYPES.values():
        assert type_.__doc__ and not type_.__doc__.startswith(f"{type_.__name__}(")
        marks(type_)


def test_what_people_say_type_and_see_is_private() -> None:
    private = {
        f"{name}.{field['name']}"
        for name, entry in CATALOGUE.items()
        for field in entry["fields"]
        if field["visibility"] == "private"
    }
    assert private >= {
        "EpisodeStarted.goal",
        "MessageRecorded.content",
        "ModelResponded.content",
        "ModelResponded.thought",
        "ModelResponded.token_ids",
        "ActionSubmitted.action(ToolCall).args",
        "ActionSubmitted.action(Ui).text",
        "FeedbackRecorded.feedback(ToolResult).value",
        "FeedbackRecorded.feedback(UserReply).text",
        "NoteAdded.text",
        "UserFeedback.text",
        "MemoryAccepted.value",
        "RecallServed.query",
    }


def test_lists_and_verdicts_need_no_private_field() -> None:
    needed = {
        "EpisodeStarted": ["task", "policy", "split", "origin", "group"],
        "ModelResponded": ["step", "usage", "usage.prompt_tokens", "usage.completion_tokens"],
        "ActionSubmitted": ["step", "action", "action.kind", "action(ToolCall).tool", "action(ToolCall).call_id"],
        "FeedbackRecorded": ["step", "call_id", "feedback.kind", "feedback(ExecError).class"],
        "EpisodeEnded": ["end.kind", "end(budget).dimension", "runs"],
        "VerificationRecorded": ["verification.verdict", "verification.reward", "verification.progress", "source"],
    }
    for name, fields in needed.items():
        marked = {field["name"]: field["visibility"] for field in CATALOGUE[name]["fields"]}
        assert {field: marked[field] for field in fields} == dict.fromkeys(fields, "open")


def test_only_what_is_written_today_is_stable() -> None:
    assert {name for name, entry in CATALOGUE.items() if entry["status"] == "stable"} == {
        "DivergenceFound",
        "EpisodeReexecuted",
        "EpisodeStarted",
        "MessageRecorded",
        "ModelResponded",
        "ActionSubmitted",
        "ActionDispatched",
        "FeedbackRecorded",
        "FaultInjected",
        "KeyRotated",
        "LogRestored",
        "BudgetCharged",
        "EvidenceRecorded",
        "TaskDefined",
        "PlanRecorded",
        "AdmissionDecided",
        "RolloutRequested",
        "ReleaseBuilt",
        "ReleaseApproved",
        "ReleaseRejected",
        "EpisodeEnded",
        "VerificationRecorded",
        "NoteAdded",
        "EpisodeRetracted",
        "ImportStarted",
        "ImportEnded",
        "ImportRetracted",
        "RecordDropped",
        "RecordRetried",
        "RecordsLost",
        "TurnMarked",
    }


def test_every_module_of_the_vocabulary_is_a_domain() -> None:
    modules = {module.name for module in pkgutil.iter_modules(vocabulary.__path__)}
    assert modules == {*DOMAINS, "base", "contract", "describe"}


def test_no_two_domains_share_a_type() -> None:
    found = [name for domain in DOMAINS for name in vocabulary._types(sys.modules[f"core.vocabulary.{domain}"])]
    assert len(found) == len(set(found)) == len(TYPES)


def test_reading_an_episode_imports_no_other_domain() -> None:
    code = (
        "import sys; from core import vocabulary; from core.vocabulary.episode import NoteAdded;"
        "from core.event import Event;"
        "note = NoteAdded('x'); seen = vocabulary.payload(Event(event_id=b'', stream='', writer='', run=b'', seq=1,"
        "type='NoteAdded', body=vocabulary.body(note))); assert seen == note;"
        "print(*[name for name in sys.modules if name.startswith('core.vocabulary.')])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert set(done.stdout.split()) == {f"core.vocabulary.{name}" for name in ("base", "contract", "episode")}
