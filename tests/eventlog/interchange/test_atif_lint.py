import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eventlog.interchange.atif.lint import RULES, lint
from tests.core.strategies import json_values
from tests.eventlog.interchange.drafting import REAL, png
from tests.eventlog.interchange.trajectories import acted, call, result, said, trajectory

FILES = REAL / "atif"
Json = dict[str, Any]


def found(value: Any, folder: Path | None = None) -> list[tuple[str, str, str]]:
    """Severity, rule and path of each finding."""
    return [(finding.severity, finding.rule, finding.path) for finding in lint(value, folder)]


def image(path: str, kind: str = "image/png") -> Json:
    return {"type": "image", "source": {"media_type": kind, "path": path}}


def embedded(**fields: Any) -> Json:
    return trajectory(acted(), **fields)


def test_a_sound_trajectory_has_no_findings() -> None:
    assert found(trajectory()) == []


METRICS = {"prompt_tokens": 5, "completion_tokens": 2, "completion_token_ids": [1, 2], "logprobs": [-1, -0.5]}
STEP = "$.steps[1]"


@pytest.mark.parametrize(
    ("value", "severity", "rule", "path"),
    [
        ([], "error", "record", "$"),
        (trajectory(schema_version="ATIF-v1.9"), "error", "schema-version", "$.schema_version"),
        (trajectory(schema_version="1.4"), "error", "schema-version", "$.schema_version"),
        (trajectory(schema_version=None), "error", "required", "$.schema_version"),
        (trajectory(agent={"name": "a"}), "error", "required", "$.agent.version"),
        (trajectory(agent=[]), "error", "type", "$.agent"),
        (trajectory(version="1.6", session_id=None), "error", "required", "$.session_id"),
        (trajectory(mood="good"), "error", "unknown-field", "$.mood"),
        (trajectory() | {"a b": 1}, "error", "unknown-field", "$['a b']"),
        (trajectory(version="1.0", extra={}), "warning", "newer-field", "$.extra"),
        (trajectory(version="1.6", trajectory_id="t"), "warning", "newer-field", "$.trajectory_id"),
        (trajectory(steps=[]), "error", "steps", "$.steps"),
        (trajectory(said()), "warning", "steps", "$.steps"),
        (trajectory(said(), acted(step_id=3)), "error", "step-id", f"{STEP}.step_id"),
        (trajectory(said(), acted(step_id=1)), "error", "step-id", f"{STEP}.step_id"),
        (trajectory(said(), acted(step_id="2")), "error", "type", f"{STEP}.step_id"),
        (trajectory(acted(), said(metrics={})), "error", "agent-only", f"{STEP}.metrics"),
        (trajectory(said(), acted(llm_call_count=0, metrics={})), "error", "llm-call-count", f"{STEP}.metrics"),
        (trajectory(said(), acted(llm_call_count=-1)), "error", "type", f"{STEP}.llm_call_count"),
        (trajectory(said(), acted(timestamp="now")), "error", "type", f"{STEP}.timestamp"),
        (trajectory(said(), acted(timestamp="2026-01-02T03:04:05")), "warning", "time", f"{STEP}.timestamp"),
        (
            trajectory(said(timestamp="2026-01-02T00:00:00Z"), acted(timestamp="2026-01-01T00:00:00Z")),
            "warning",
            "time",
            f"{STEP}.timestamp",
        ),
        (trajectory(said(), acted(call(), call())), "error", "tool-call-id", f"{STEP}.tool_calls[1].tool_call_id"),
        (trajectory(acted(call()), acted(call())), "warning", "tool-call-id", f"{STEP}.tool_calls[0].tool_call_id"),
        (trajectory(said(), acted(call(id_=""))), "error", "tool-call-id", f"{STEP}.tool_calls[0].tool_call_id"),
        (
            trajectory(said(), acted(call() | {"arguments": "{}"})),
            "error",
            "type",
            f"{STEP}.tool_calls[0].arguments",
        ),
        (
            trajectory(said(), acted(call(), results=[result("x", "c9")])),
            "error",
            "source-call-id",
            f"{STEP}.observation.results[0].source_call_id",
        ),
        (
            trajectory(said(), acted(results=[result("x", "c1")])),
            "error",
            "source-call-id",
            f"{STEP}.observation.results[0].source_call_id",
        ),
        (trajectory(said(), acted(message=5)), "error", "type", f"{STEP}.message"),
        (trajectory(said(), acted(message=[5])), "error", "content", f"{STEP}.message[0]"),
        (trajectory(said(), acted(message=[{"type": "text"}])), "error", "content", f"{STEP}.message[0]"),
        (trajectory(said(), acted(message=[image("")])), "error", "content", f"{STEP}.message[0]"),
        (trajectory(said(), acted(message=[image("a", "image/bmp")])), "error", "content", f"{STEP}.message[0]"),
        (trajectory(said(), acted(message=[image("/a.png")])), "warning", "image", f"{STEP}.message[0].source.path"),
        (
            trajectory(said(), acted(message=[{"type": "text", "text": "a"}]), version="1.5"),
            "warning",
            "newer-field",
            f"{STEP}.message[0]",
        ),
        (
            trajectory(said(), acted(metrics=METRICS | {"logprobs": [-1]})),
            "error",
            "logprobs",
            f"{STEP}.metrics.logprobs",
        ),
        (
            trajectory(said(), acted(metrics={"completion_tokens": 2, "logprobs": [-1]})),
            "error",
            "logprobs",
            f"{STEP}.metrics.logprobs",
        ),
        (
            trajectory(said(), acted(metrics=METRICS | {"logprobs": [-1, 0.5]})),
            "warning",
            "logprobs",
            f"{STEP}.metrics.logprobs",
        ),
        (
            trajectory(said(), acted(metrics=METRICS | {"completion_tokens": 3})),
            "warning",
            "token-count",
            f"{STEP}.metrics.completion_token_ids",
        ),
        (
            trajectory(said(), acted(metrics=METRICS | {"cached_tokens": 6})),
            "warning",
            "token-count",
            f"{STEP}.metrics.cached_tokens",
        ),
        (trajectory(said(), acted(metrics={"prompt_tokens": True})), "error", "type", f"{STEP}.metrics.prompt_tokens"),
        (
            trajectory(acted(results=[{"subagent_trajectory_ref": [{"session_id": "s"}]}])),
            "error",
            "ref",
            "$.steps[0].observation.results[0].subagent_trajectory_ref[0]",
        ),
        (
            trajectory(acted(results=[{"subagent_trajectory_ref": [{"trajectory_id": "t"}]}])),
            "error",
            "ref",
            "$.steps[0].observation.results[0].subagent_trajectory_ref[0].trajectory_id",
        ),
        (
            trajectory(subagent_trajectories=[embedded()]),
            "error",
            "trajectory-id",
            "$.subagent_trajectories[0].trajectory_id",
        ),
        (
            trajectory(subagent_trajectories=[embedded(trajectory_id="t"), embedded(trajectory_id="t")]),
            "error",
            "trajectory-id",
            "$.subagent_trajectories",
        ),
        (
            trajectory(subagent_trajectories=[embedded(trajectory_id="t", steps=[])]),
            "error",
            "steps",
            "$.subagent_trajectories[0].steps",
        ),
        (trajectory(final_metrics={"total_steps": 9}), "warning", "total", "$.final_metrics.total_steps"),
        (trajectory(said(is_copied_context=True), acted()), "info", "copied-context", "$.steps[0]"),
    ],
)
def test_a_broken_rule_is_named_with_its_place(value: Any, severity: str, rule: str, path: str) -> None:
    assert (severity, rule, path) in found(value)
    assert rule in RULES


def test_every_rule_is_tried_here() -> None:
    source = Path(__file__).read_text()
    assert [rule for rule in RULES if f'"{rule}"' not in source] == []


def test_a_message_says_what_is_wrong() -> None:
    (finding,) = lint(trajectory(said(), acted(metrics=METRICS | {"logprobs": [-1]})))
    assert finding.message == "are 1 for 2 completion token ids"
    (finding,) = lint(trajectory(notes=5))
    assert finding.message == "is not a string: 5"


def test_an_embedded_trajectory_may_be_referred_to_from_deeper_ones() -> None:
    ref = {"subagent_trajectory_ref": [{"trajectory_id": "t"}]}
    inner = trajectory(acted(results=[ref]), trajectory_id="u")
    assert found(trajectory(subagent_trajectories=[embedded(trajectory_id="t"), inner])) == []


def test_files_beside_it_are_looked_at(tmp_path: Path) -> None:
    (tmp_path / "a.png").write_bytes(png())
    (tmp_path / "b.png").write_text("no image")
    (tmp_path / "next.json").write_text("{}")
    parts = [image("a.png"), image("b.png"), image("c.png"), image("https://x.test/d.png")]
    value = trajectory(said(parts), acted(), continued_trajectory_ref="next.json")
    at = "$.steps[0].message"
    assert found(value, tmp_path) == [
        ("error", "image", f"{at}[1].source.path"),
        ("warning", "image", f"{at}[2].source.path"),
    ]
    gone = trajectory(continued_trajectory_ref="gone.json")
    assert found(gone, tmp_path) == [("warning", "ref", "$.continued_trajectory_ref")]


@given(
    st.recursive(
        json_values,
        lambda inner: st.dictionaries(
            st.sampled_from(
                [
                    "steps",
                    "agent",
                    "observation",
                    "results",
                    "metrics",
                    "tool_calls",
                    "message",
                    "subagent_trajectories",
                ]
            ),
            inner | st.lists(inner, max_size=3),
        ),
    )
)
def test_any_json_is_linted(value: Any) -> None:
    lint(value)
    lint(trajectory() | (value if isinstance(value, dict) else {}))


@pytest.mark.skipif(not FILES.is_dir(), reason="the real ATIF files are not here")
def test_the_real_files_have_no_errors() -> None:
    for path in sorted(FILES.glob("*.json")):
        assert "error" not in {severity for severity, _, _ in found(json.loads(path.read_text()), path.parent)}
