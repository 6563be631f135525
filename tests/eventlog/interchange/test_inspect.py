import io
import json
import sys
import zipfile
from pathlib import Path
from typing import Any

import msgspec
import pytest

from core.errors import BadRecord
from eventlog.interchange import archive as archive_module
from eventlog.interchange.inspect import fields as inspect_fields
from eventlog.interchange.inspect.importer import Inspect
from tests.eventlog.interchange.drafting import Imports, data_url, draft, drafts, of, png
from tests.eventlog.interchange.inspect_logs import (
    PLAN,
    SPEC,
    archive,
    at,
    entries,
    log,
    message,
    model,
    packed_with_zstd,
    sample,
    tool,
)


@pytest.fixture
def imports(tmp_path: Path) -> Imports:
    return Imports(tmp_path)


def record(**fields: Any) -> dict[str, Any]:
    return {"log": {"version": 2, "eval": SPEC, "plan": PLAN}, "sample": sample(**fields)}


def told(*types: str, **fields: Any) -> list[dict[str, Any]]:
    return of(draft(Inspect(), record(**fields)), *types)


def judged(**scores: Any) -> dict[str, Any]:
    (made,) = told("VerificationRecorded", scores=scores)
    verification: dict[str, Any] = made["verification"]
    return verification


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("a.eval", archive(entries(sample(), sample(epoch=2)))),
        ("b.eval", packed_with_zstd(entries(sample(), sample(epoch=2)))),
        ("c.json", json.dumps(log(sample(), sample(epoch=2)), indent=2).encode()),
    ],
)
def test_every_sample_of_every_epoch_is_an_episode(imports: Imports, name: str, data: bytes) -> None:
    report = imports.take(data, name)
    assert (report.format, report.episodes) == ("inspect", {"new": 2, "present": 0, "rejected": 0})
    assert imports.take(data, name).episodes["present"] == 2
    payloads = imports.payloads()
    half = payloads[: len(payloads) // 2]
    assert [type(payload).__name__ for payload in half] == [
        "EpisodeStarted",
        "MessageRecorded",
        "MessageRecorded",
        "ModelResponded",
        "ActionSubmitted",
        "FeedbackRecorded",
        "ModelResponded",
        "EpisodeEnded",
        "VerificationRecorded",
    ]
    started, _, user, first, action, feedback, second, ended, verdict = half
    assert (started.task, started.goal, started.rollout, started.policy) == ("sums/one", "what is 1+1?", 1, "mock/m")
    assert (started.seeds, started.versions) == ({"model": 7}, {"inspect_ai": "0.3.285", "task": "0"})
    assert started.tools[0].name == "add"
    assert msgspec.json.decode(user.content) == "what is 1+1?"
    assert (first.usage.prompt_tokens, first.usage.cached_tokens, first.latency_ms) == (9, 2, 1000.0)
    assert msgspec.json.decode(first.sampling) == {"temperature": 0.5, "tool_choice": "auto"}
    assert (action.action.tool, feedback.action, feedback.latency_ms) == ("add", 5, 1000.0)
    assert (second.step, second.thought, second.content) == (2, "hm", "2")
    assert (ended.end.kind, verdict.verification.verdict, verdict.source) == ("finished", "pass", "import")
    assert payloads[len(half)].rollout == 2
    assert payloads[len(half)].group == started.group
    kept = msgspec.json.decode(started.extra)["log"]["address"]
    assert "results" in json.loads(imports.blobs.get(kept))


def test_an_archive_that_grew_brings_only_what_is_new(imports: Imports) -> None:
    early = archive({name: value for name, value in entries(sample()).items() if name != "header.json"})
    assert imports.take(early, "a.eval").episodes == {"new": 1, "present": 0, "rejected": 0}
    report = imports.take(archive(entries(sample(), sample("two"))), "a.eval")
    assert report.episodes == {"new": 1, "present": 1, "rejected": 0}


def test_an_archive_cut_short_keeps_what_is_whole(imports: Imports) -> None:
    whole = archive(entries(sample(), sample("two")))
    start = whole.index(b"samples/two")
    report = imports.take(whole[: start + 200], "a.eval")
    assert report.episodes == {"new": 1, "present": 0, "rejected": 1}
    assert report.rejected[0].why == f"cut short: it ends at byte {start + 200} without the archive's directory"


def test_a_document_cut_short_keeps_what_is_whole(imports: Imports) -> None:
    text = json.dumps(log(sample(), sample("two"), sample("three")))
    report = imports.take(text[: text.index('"three"')])
    assert report.episodes == {"new": 2, "present": 0, "rejected": 1}
    assert "cut short" in report.rejected[0].why


def test_a_number_beyond_all_floats_refuses_its_sample_alone(imports: Imports) -> None:
    samples = [sample("far", scores={"exact": {"value": 10**400}}), sample("near")]
    report = imports.take(json.dumps(log(*samples)).encode(), "a.json")
    assert report.episodes == {"new": 1, "present": 0, "rejected": 1}
    assert "the importer of inspect cannot read it: OverflowError" in report.rejected[0].why


def test_a_zip_bomb_is_refused_unread(imports: Imports, monkeypatch: pytest.MonkeyPatch) -> None:
    bomb = b"0" * (3 << 20)
    report = imports.take(archive(entries(sample()) | {"samples/b_epoch_1.json": bomb}), "a.eval")
    assert report.episodes == {"new": 1, "present": 0, "rejected": 1}
    assert "zip bomb" in report.rejected[0].why
    monkeypatch.setattr(archive_module, "FREE_TOTAL", 1 << 20)
    with pytest.raises(BadRecord, match=r"a zip bomb: .* would unpack to"):
        imports.take(archive(entries() | {f"samples/{n}_epoch_1.json": bomb for n in range(9)}), "b.eval")


def test_an_entry_that_unpacks_to_more_than_it_says_is_refused(imports: Imports) -> None:
    data = bytearray(archive(entries(sample())))
    with zipfile.ZipFile(io.BytesIO(data)) as zipped:
        info = zipped.getinfo("samples/one_epoch_1.json")
    place = data.rindex(b"samples/one_epoch_1.json") - 46 + 24
    data[place : place + 4] = (info.file_size - 5).to_bytes(4, "little")
    report = imports.take(bytes(data), "a.eval")
    assert "unpacks to more than it declares" in report.rejected[0].why


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("/samples/x_epoch_1.json", "leads out of the archive"),
        ("samples/../../x_epoch_1.json", "leads out of the archive"),
        ("C:/samples/x.json", "leads out of the archive"),
        ("samples/inner.zip", "an archive inside the archive"),
        ("samples/y_epoch_1.json", "an archive inside the archive"),
        ("notes.txt", "no part of an Inspect log"),
    ],
)
def test_entries_that_do_not_belong_are_refused_in_one_line(imports: Imports, name: str, why: str) -> None:
    report = imports.take(
        archive(entries(sample()) | {name: archive({"x": 1}) if "txt" not in name else b"x"}), "a.eval"
    )
    assert report.episodes == {"new": 1, "present": 0, "rejected": 1}
    assert why in report.rejected[0].why
    assert report.rejected[0].where.startswith("a.eval:")


def test_encrypted_damaged_and_strangely_packed_entries_are_refused(imports: Imports) -> None:
    files = entries(sample())
    plain = archive(files, method=zipfile.ZIP_STORED)
    at_entry = plain.rindex(b"samples/one_epoch_1.json") - 46

    def changed(offset: int, value: bytes) -> bytes:
        return plain[: at_entry + offset] + value + plain[at_entry + offset + len(value) :]

    body = plain.index(b'"what is 1+1?"')
    cases = {
        "is encrypted": changed(8, b"\1\0"),
        "packed by a method that is not read here (12)": changed(10, b"\x0c\0"),
        "its checksum is wrong": plain[:body] + b'"what is 2+1?"' + plain[body + 14 :],
        "is not where the archive's directory says": changed(42, b"\xff\xff\xff\x7f"),
        "is larger than 64 MB": changed(24, (65 << 20).to_bytes(4, "little")),
    }
    for why, data in cases.items():
        assert why in imports.take(data, "a.eval").rejected[0].why


def test_a_sample_stored_in_pieces_is_said_with_the_mend(imports: Imports) -> None:
    pieces: dict[str, Any] = {"samples/p_epoch_1/sample.json": {}, "samples/p_epoch_1/events/0.json": []}
    report = imports.take(archive(entries(sample()) | pieces), "a.eval")
    assert report.episodes == {"new": 1, "present": 0, "rejected": 1}
    assert "inspect log convert --to json" in report.rejected[0].why


def test_archives_that_are_no_inspect_log_are_not_claimed(imports: Imports) -> None:
    with pytest.raises(BadRecord, match="a zip archive"):
        imports.take(archive({"word/document.xml": b"<x/>"}), "a.zip")
    with pytest.raises(BadRecord, match=r"neither its header\.json nor its _journal/start\.json"):
        imports.take(archive({"samples/one_epoch_1.json": sample()}), "b.eval")
    with pytest.raises(BadRecord, match="no eval that can be read"):
        imports.take({"samples": [sample()]}, "c.json", format="inspect")


def test_a_log_is_read_from_stdin_too(imports: Imports, monkeypatch: pytest.MonkeyPatch) -> None:
    from eventlog.interchange import Source
    from eventlog.interchange.importer import run

    class Stdin:
        buffer = io.BytesIO(archive(entries(sample())))

    monkeypatch.setattr(sys, "stdin", Stdin)
    assert run(imports.log, [Source("stdin", None)], imports.blobs).episodes["new"] == 1


def test_scores_say_pass_or_fail_only_on_a_scale_that_is_known() -> None:
    def verdict(value: Any, scorer: str = "exact") -> tuple[str, float | None]:
        made = judged(**{scorer: {"value": value}})
        return made["verdict"], made.get("reward")

    assert [verdict(letter) for letter in "CIPN"] == [("pass", 1.0), ("fail", 0.0), ("fail", 0.5), ("fail", 0.0)]
    assert [verdict(value) for value in (1, 0.25, 0)] == [("pass", 1.0), ("fail", 0.25), ("fail", 0.0)]
    assert [verdict(value)[0] for value in (True, False, "yes", "no")] == ["pass", "fail", "pass", "fail"]
    assert [verdict(value)[0] for value in (7, -1, "A", {"a": 1}, [1])] == ["inconclusive"] * 5
    assert [verdict(value, "tone") for value in (1, 0, True)] == [
        ("inconclusive", 1.0),
        ("inconclusive", 0.0),
        ("inconclusive", 1.0),
    ]
    assert judged(exact={"value": 0.25})["progress"] == 0.25


def test_several_scores_are_checks_of_one_verification() -> None:
    made = judged(exact={"value": "C"}, tone={"value": 4})
    assert made["verdict"] == "pass"
    assert [(check["id"], check["verdict"]) for check in made["checks"]] == [
        ("exact", "pass"),
        ("tone", "inconclusive"),
    ]
    assert made["checks"][0]["detail"] == {"value": "C"}
    assert judged(exact={"value": "C"}, other={"value": "I"})["verdict"] == "fail"


def test_a_score_that_is_not_a_number_is_read_as_null_and_decides_nothing(imports: Imports) -> None:
    text = json.dumps(log(sample(scores={"exact": {"value": float("nan"), "answer": "NaN"}})))
    report = imports.take(text)
    assert report.episodes["new"] == 1
    assert report.unmapped["NaN or Infinity: read as null"] == 1
    verification = imports.payloads()[-1].verification
    assert verification.verdict == "inconclusive"
    assert msgspec.json.decode(verification.checks[0].detail) == {"value": None, "answer": "NaN"}


def test_errors_and_limits_say_how_the_sample_ended() -> None:
    def end(**fields: Any) -> dict[str, Any]:
        (ended,) = told("EpisodeEnded", **fields)
        how: dict[str, Any] = ended["end"]
        return how

    assert end(error={"message": "boom", "traceback": "…"}) == {"kind": "agent_error", "message": "boom"}
    assert end(limit={"type": "token", "limit": 5}) == {"kind": "budget", "dimension": "tokens"}
    assert end(limit={"type": "message", "limit": 5}) == {"kind": "budget", "dimension": "steps"}
    assert end(limit={"type": "time", "limit": 5}) == {"kind": "budget", "dimension": "wall"}
    stopped = {"kind": "cancelled", "message": "stop"}
    assert end(limit={"type": "operator", "limit": 1, "reason": "stop"}) == stopped


def test_tool_errors_are_errors() -> None:
    events = sample()["events"]
    events[2] = tool(2, 3, "c1", "add", "", error={"type": "timeout", "message": "too slow"})
    (made,) = told("FeedbackRecorded", events=events)
    assert made["feedback"] == {
        "kind": "ExecError",
        "class": "timeout",
        "retryable": False,
        "effect": "unknown",
        "message": "too slow",
    }


def test_model_calls_of_a_scorer_and_calls_that_failed_are_no_steps() -> None:
    grader = message("assistant", "GRADE: C", "g")
    events = [
        *sample()["events"],
        {"event": "span_begin", "id": "scoring", "type": "scorers", "timestamp": at(6)},
        {"event": "span_begin", "id": "exact", "parent_id": "scoring", "type": "scorer", "timestamp": at(6)},
        model(6, 7, grader, [], span_id="exact"),
        model(7, 8, message("assistant", "", "e"), [], error="rate limit"),
    ]
    made = draft(Inspect(), record(events=events))
    assert len(of(made, "ModelResponded")) == 2
    assert made.unmapped["model call of a scorer: kept in the record"] == 1
    assert made.unmapped["model call that failed: kept in the record"] == 1


def test_a_log_without_events_is_told_by_its_messages() -> None:
    messages = [
        message("user", "hi", "1"),
        message("assistant", "ok", "2", tool_calls=[{"id": "c", "function": "f", "arguments": {"a": 1}}]),
        message("tool", "no", "3", tool_call_id="c", function="f", error={"type": "permission", "message": "no"}),
        message("user", "hi", "4"),
        message("assistant", "done", "5"),
    ]
    types = ("MessageRecorded", "ModelResponded", "ActionSubmitted", "FeedbackRecorded")
    made = told(*types, events=[], messages=messages)
    assert [each["type"] for each in made] == [
        "MessageRecorded",
        "ModelResponded",
        "ActionSubmitted",
        "FeedbackRecorded",
        "MessageRecorded",
        "ModelResponded",
    ]
    assert made[3]["feedback"]["class"] == "permission"


def test_an_old_log_with_one_score_and_a_transcript_is_read() -> None:
    old = sample()
    old["transcript"] = {"events": old.pop("events"), "content": old.pop("attachments")}
    old["score"] = {"value": "I"}
    del old["scores"]
    made = draft(Inspect(), {"log": {"version": 1, "eval": SPEC}, "sample": old})
    assert len(of(made, "ModelResponded")) == 2
    assert of(made, "VerificationRecorded")[0]["verification"]["verdict"] == "fail"


def test_attachments_that_would_come_to_far_too_much_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inspect_fields, "MAX_PUT_IN", 1_000)
    with pytest.raises(BadRecord, match="attachments come to more than"):
        told(attachments={"h1": "x" * 2_000})


def test_an_image_is_a_blob_and_one_that_is_none_is_refused() -> None:
    def heard(data: bytes) -> Any:
        content = [{"type": "image", "image": data_url(data)}]
        made = told("MessageRecorded", events=[], messages=[message("user", content, "1")])
        return made[0]["content"][0]["image"]

    assert heard(png())["media_type"] == "image/png"
    with pytest.raises(BadRecord, match="said to be an image"):
        heard(b"hello")


def test_bad_samples_are_one_line_each_and_the_rest_comes_in(imports: Imports) -> None:
    text = json.dumps(log(sample(), {"epoch": 1}, 5, sample("b", events=[{"event": 7}]), sample("c")))  # type: ignore[arg-type]
    report = imports.take(text)
    assert report.episodes == {"new": 2, "present": 0, "rejected": 3}
    assert [refusal.where for refusal in report.rejected] == ["a.json[1]", "a.json[2]", "a.json[3]"]


def test_the_same_sample_in_either_form_is_the_same_task() -> None:
    (one,) = drafts(Inspect(), record())
    (two,) = drafts(Inspect(), record(epoch=2, scores={}))
    assert one.started.group == two.started.group


def test_an_invalidated_sample_says_who_said_so() -> None:
    (note,) = told("NoteAdded", invalidation={"author": "Ann", "reason": "leaked", "timestamp": at(9)})
    assert note["text"] == "invalidated by Ann: leaked"


def test_an_empty_log_is_said(imports: Imports) -> None:
    report = imports.take(log())
    assert report.rejected[0].why == "holds no samples"
