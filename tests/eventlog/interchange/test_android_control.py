import json
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from core.errors import BadRecord
from eventlog.interchange import Confidence
from eventlog.interchange.android_control.importer import AndroidControl
from tests.eventlog.interchange.drafting import REAL, Imports, data_url, draft, lines, of, png, real, told

FILE = REAL / "android-control/episodes-300.jsonl"
SCREENSHOTS = REAL / "screenshots"


@pytest.fixture
def imports(tmp_path: Path) -> Imports:
    return Imports(tmp_path)


def step(number: int = 0, /, instruction: str = "do it", **action: Any) -> dict[str, Any]:
    return {
        "action_content": action or {"action": "click", "coordinate": [0, 20]},
        "screenshot": f"/data/images/7_{number}.png",
        "step_instruction": instruction,
        "check_options": {"action": "click", "candidate_bbox": [[0, 0, 50, 40]]},
    }


def episode(*steps: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {
        "goal": "Open the clock",
        "is_successful": True,
        "steps": list(steps) or [step()],
        "episode_id": 7,
    } | fields


def acted(**action: Any) -> dict[str, Any]:
    (submitted,) = of(draft(AndroidControl(), episode(step(0, **action))), "ActionSubmitted")
    found: dict[str, Any] = submitted["action"]
    return found


def test_a_step_is_a_screen_and_the_action_taken_on_it() -> None:
    made = told(draft(AndroidControl(), episode(step(0), step(1, action="wait", time=2))))
    assert [(event["type"], event.get("step")) for event in made] == [
        ("EpisodeStarted", None),
        ("FeedbackRecorded", 1),
        ("ModelResponded", 1),
        ("ActionSubmitted", 1),
        ("FeedbackRecorded", 2),
        ("ModelResponded", 2),
        ("ActionSubmitted", 2),
        ("EpisodeEnded", None),
    ]
    assert (made[0]["task"], made[0]["goal"]) == ("android-control/7", "Open the clock")
    assert made[2]["content"] == "do it"
    assert all("action" not in event for event in made if event["type"] == "FeedbackRecorded")
    assert made[-1]["end"] == {"kind": "finished"}


@pytest.mark.parametrize(
    ("action", "ui"),
    [
        ({"action": "click", "coordinate": [0, 5]}, {"op": "tap", "target": {"x": 0.0, "y": 5.0}}),
        ({"action_type": "click", "x": 0, "y": 5}, {"op": "tap", "target": {"x": 0.0, "y": 5.0}}),
        (
            {"action": "long_press", "coordinate": [1, 2], "time": 2},
            {"op": "long_press", "target": {"x": 1.0, "y": 2.0}, "duration_ms": 2000.0},
        ),
        (
            {"action": "swipe", "coordinate": [540.0, 1800.0], "coordinate2": [540.0, 600.0]},
            {"op": "swipe", "target": {"x": 540.0, "y": 1800.0}, "to": {"x": 540.0, "y": 600.0}},
        ),
        ({"action_type": "scroll", "direction": "down"}, {"op": "scroll", "direction": "down"}),
        ({"action": "type", "text": "Ann"}, {"op": "text", "text": "Ann"}),
        ({"action": "type", "text": ""}, {"op": "text", "text": ""}),
        ({"action_type": "input_text", "text": "Ann"}, {"op": "text", "text": "Ann"}),
        ({"action": "system_button", "button": "Back"}, {"op": "key", "key": "back"}),
        ({"action_type": "navigate_home"}, {"op": "key", "key": "home"}),
        ({"action": "key", "text": "volume_up"}, {"op": "key", "key": "volume_up"}),
        ({"action": "open", "text": "Clock"}, {"op": "open_app", "app": "Clock"}),
        ({"action_type": "open_app", "app_name": "Clock"}, {"op": "open_app", "app": "Clock"}),
        ({"action": "wait", "time": 2}, {"op": "wait", "duration_ms": 2000.0}),
        ({"action_type": "wait"}, {"op": "wait"}),
    ],
)
def test_every_action_is_a_touch(action: dict[str, Any], ui: dict[str, Any]) -> None:
    found = acted(**action)
    assert found.pop("kind") == "Ui"
    for name in ("target", "to"):
        if name in found:
            assert found[name].pop("kind") == "point"
    assert found == ui


@pytest.mark.parametrize(
    ("action", "claim"),
    [
        ({"action": "terminate", "status": "success"}, {"claim": "success"}),
        ({"action_type": "status", "goal_status": "infeasible"}, {"claim": "infeasible"}),
        ({"action": "answer", "text": "42"}, {"claim": "answer", "answer": "42"}),
    ],
)
def test_a_last_word_is_a_claim(action: dict[str, Any], claim: dict[str, Any]) -> None:
    assert acted(**action) == {"kind": "Finish"} | claim


def test_an_action_that_is_no_touch_is_kept_as_a_tool_call() -> None:
    made = draft(AndroidControl(), episode(step(0, action="pinch", scale=2)))
    (submitted,) = of(made, "ActionSubmitted")
    assert submitted["action"] == {"kind": "ToolCall", "tool": "pinch", "args": {"action": "pinch", "scale": 2}}
    assert made.unmapped["action pinch: kept as a tool call"] == 1


def test_boxes_and_whatever_else_is_recorded_are_kept_and_counted() -> None:
    odd = step(0, action="click", coordinate=[1, 2], pressure=3) | {"low_level": "x"}
    made = draft(AndroidControl(), episode(odd, source="lab"))
    assert of(made, "ModelResponded")[0]["extra"] == {
        "action_content": {"pressure": 3},
        "check_options": odd["check_options"],
        "low_level": "x",
    }
    assert of(made, "EpisodeEnded")[0]["extra"] == {"is_successful": True, "source": "lab"}
    assert made.unmapped == {
        "steps[].screenshot: no such file beside the import, path kept in extra": 1,
        "steps[].action_content.pressure: kept in extra": 1,
        "steps[].check_options: kept in extra": 1,
        "steps[].low_level: kept in extra": 1,
        "source: kept in extra": 1,
        "is_successful: kept in extra, since nobody verified it": 1,
    }


def test_what_the_data_set_calls_successful_is_unverified() -> None:
    assert not of(draft(AndroidControl(), episode()), "VerificationRecorded")


def test_a_screen_without_its_picture_says_so() -> None:
    seen = of(draft(AndroidControl(), episode()), "FeedbackRecorded")[0]
    assert seen["feedback"] == {"kind": "Observation", "flags": ["screenshot_absent"]}
    assert seen["extra"] == {"screenshot": "/data/images/7_0.png"}


def test_width_and_height_are_kept_with_the_screen() -> None:
    record = episode(step(0), step(1) | {"width": 720, "height": 1280}, width=1080, height=2400)
    screens = of(draft(AndroidControl(), record), "FeedbackRecorded")
    assert [screen["feedback"]["viewport"] for screen in screens] == [
        {"width": 1080, "height": 2400},
        {"width": 720, "height": 1280},
    ]


def test_screenshots_beside_the_file_are_taken_along_once_each(imports: Imports) -> None:
    (imports.folder / "images").mkdir()
    for number in (0, 1):
        (imports.folder / f"images/7_{number}.png").write_bytes(png())
    report = imports.take(lines(episode(step(0), step(1), step(2))), "a.jsonl")
    assert report.rejected == []
    seen = [said.feedback for said in imports.payloads() if hasattr(said, "feedback")]
    assert seen[0].blobs == seen[1].blobs and seen[2].blobs == []
    assert imports.blobs.get(seen[0].blobs[0].address) == png()
    assert (seen[0].blobs[0].media_type, seen[0].viewport.width, seen[0].viewport.height) == ("image/png", 2, 3)
    assert (seen[0].flags, seen[2].flags) == ([], ["screenshot_absent"])


def test_a_screenshot_in_the_record_itself_is_taken_out() -> None:
    record = episode(step() | {"screenshot": data_url(png())})
    (seen,) = of(draft(AndroidControl(), record), "FeedbackRecorded")
    assert seen["feedback"]["blobs"][0]["size"] == len(png())
    assert "extra" not in seen


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"<html>", "is no image: it is text/html"),
        (b"", "is no image"),
        (png()[:20], "is a PNG cut short"),
    ],
)
def test_an_image_that_is_none_rejects_its_record_alone(imports: Imports, content: bytes, why: str) -> None:
    (imports.folder / "7_0.png").write_bytes(content)
    report = imports.take(lines(episode(), episode(step(5))), "a.jsonl")
    assert report.episodes == {"new": 1, "present": 0, "rejected": 1}
    (refused,) = report.rejected
    assert refused.where.endswith(":1") and why in refused.why and "7_0.png" in refused.why


@pytest.mark.parametrize("recorded", ["../secret.png", "/x/../secret.png", "link.png", "a\0b.png", "x" * 5000, ""])
def test_nothing_outside_the_files_folder_is_read(imports: Imports, recorded: str) -> None:
    secret = imports.folder / "secret.png"
    secret.write_bytes(png())
    folder = imports.folder / "in"
    folder.mkdir()
    (folder / "link.png").symlink_to(secret)
    (folder / "a.jsonl").write_text(lines(episode(step() | {"screenshot": recorded})))
    assert imports.take_file(folder / "a.jsonl").rejected == []
    assert [said.feedback.blobs for said in imports.payloads() if hasattr(said, "feedback")] in ([[]], [])


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"goal": None}, "goal is null"),
        ({"goal": 5}, "goal: expected `str"),
        ({"steps": []}, "steps is empty"),
        ({"steps": {}}, "steps: expected `array"),
        ({"steps": [5]}, "expected `object`, got `int`"),
        ({"steps": [{}]}, r"steps\[0\]\.action_content: action is missing"),
        ({"steps": [step(), step(0, action="click")]}, r"steps\[1\]\.action_content: coordinate is missing"),
        ({"steps": [step(0, action="click", coordinate=[1])]}, r"steps\[0\]\.action_content: coordinate: expected"),
        ({"steps": [step(0, action="click", coordinate=["1", 2])]}, "coordinate: expected `float`, got `str`"),
        ({"steps": [step(0, action="click", x=1)]}, "y is missing"),
        ({"steps": [step(0, action="swipe", coordinate=[1, 2])]}, "say where it goes"),
        ({"steps": [step(0, action="scroll", direction="sideways")]}, "direction: invalid enum value 'sideways'"),
        ({"steps": [step(0, action="type")]}, "text is missing"),
        ({"steps": [step(0, action="wait", time=-1)]}, "time: not between"),
        ({"steps": [step() | {"screenshot": 5}]}, r"steps\[0\]: screenshot: expected `str"),
        ({"steps": [step() | {"screenshot": "data:image/png;base64,@@"}]}, "base64 is malformed"),
    ],
)
def test_what_is_wrong_is_refused_with_its_place(fields: dict[str, Any], why: str) -> None:
    with pytest.raises(BadRecord, match=why):
        draft(AndroidControl(), episode(**fields))


def test_bad_lines_are_rejected_alone(imports: Imports) -> None:
    whole = json.dumps(episode())
    bad = [
        whole[:-20],
        "[1]",
        '{"goal": NaN, "steps": []}',
        '{"goal": "\\ud800", "steps": []}',
        '{"goal": "a", "deep": ' + "[" * 5000 + "]" * 5000 + ', "steps": []}',
        '{"goal": "a"}',
        "time,action\n1,click",
    ]
    report = imports.take(lines(whole, *bad, episode(step(3))), "a.jsonl")
    assert report.format == "android-control"
    assert report.episodes == {"new": 2, "present": 0, "rejected": 8}
    assert all(refused.why and "\n" not in refused.why for refused in report.rejected)


def test_the_same_file_twice_adds_nothing(imports: Imports) -> None:
    data = lines(episode(), episode(step(1)))
    assert imports.take(data, "a.jsonl").episodes["new"] == 2
    count = len(imports.events())
    again = imports.take(data, "b.jsonl")
    assert (again.episodes, again.events) == ({"new": 0, "present": 2, "rejected": 0}, 0)
    assert len(imports.events()) == count


@pytest.mark.parametrize(
    ("first", "sure"),
    [
        (episode(), Confidence.CERTAIN),
        (episode() | {"steps": []}, Confidence.LIKELY),
        ({"goal": "x", "steps": [{"action": "click"}]}, Confidence.NO),
        ({"goal": "x", "steps": 5}, Confidence.NO),
        ({"schema_version": "ATIF-v1.6", "steps": []}, Confidence.NO),
        (None, Confidence.NO),
    ],
)
def test_only_its_own_files_are_claimed(first: dict[str, Any] | None, sure: Confidence) -> None:
    assert AndroidControl().sniff(b"", first) is sure


@pytest.mark.skipif(not FILE.exists(), reason="the real AndroidControl file is not here")
def test_three_hundred_real_episodes_come_whole() -> None:
    seen: Counter[str] = Counter()
    recorded = [json.loads(line) for line in FILE.read_text().splitlines()]
    for made, record in zip(real(AndroidControl(), FILE), recorded, strict=True):
        seen["episodes"] += 1
        actions = [event["action"] for event in of(made, "ActionSubmitted")]
        assert len(actions) == len(record["steps"]) == len(of(made, "FeedbackRecorded"))
        for action, done in zip(actions, record["steps"], strict=True):
            seen[action["op"]] += 1
            if "coordinate" in done["action_content"]:
                assert [action["target"]["x"], action["target"]["y"]] == done["action_content"]["coordinate"]
        boxes = [event["extra"]["check_options"] for event in of(made, "ModelResponded")]
        assert boxes == [done["check_options"] for done in record["steps"]]
        assert all(event.occurred_at is None for event in made.events)
    assert seen == {
        "episodes": 300,
        "tap": 976,
        "swipe": 213,
        "open_app": 127,
        "text": 125,
        "wait": 101,
        "key": 69,
        "long_press": 3,
    }


@pytest.mark.skipif(not SCREENSHOTS.exists(), reason="the real screenshots are not here")
def test_real_screenshots_are_seen_on_their_steps(imports: Imports) -> None:
    names = sorted(path.name for path in SCREENSHOTS.glob("*.png"))
    for name in names:
        shutil.copy(SCREENSHOTS / name, imports.folder / name)
    steps = [step() | {"screenshot": f"/data/images/{name}"} for name in names]
    assert imports.take(lines(episode(*steps)), "a.jsonl").rejected == []
    seen = [said.feedback for said in imports.payloads() if hasattr(said, "feedback")]
    assert {(screen.viewport.width, screen.viewport.height) for screen in seen} == {(1080, 2280)}
    assert len({screen.blobs[0].address for screen in seen}) == len(names) - 1
