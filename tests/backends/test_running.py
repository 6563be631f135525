"""An episode is recorded as it happens, whatever happens; what got lost is found again where it can be."""

import threading
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import Raw
from msgspec.structs import replace

from backends.contract import EnvironmentLost
from backends.conversation import Conversation, Situation
from backends.faults import Fault
from backends.jobs import Limits
from backends.phone import Phone
from backends.planners import PlannerFailed, PlannerLate, PlannerUnavailable, ScriptPlanner, Turn
from backends.running import Episode
from backends.script import Step
from core.errors import BadRecord, UsageError
from core.vocabulary import payload
from core.vocabulary.contract import (
    Action,
    AgentError,
    BudgetExhausted,
    Cancelled,
    Clarification,
    EnvFailure,
    ExecError,
    Feedback,
    Finished,
    Refused,
    ToolCall,
    ToolResult,
)
from core.vocabulary.episode import (
    ActionDispatched,
    ActionSubmitted,
    BudgetCharged,
    EpisodeEnded,
    EpisodeStarted,
    FaultInjected,
    FeedbackRecorded,
    MessageRecorded,
    ModelResponded,
    ToolSpec,
    Usage,
    VerificationRecorded,
)
from eventlog.inmemory import InMemoryLog
from tests.backends.plays import ALL, Wayward, gold, hidden, job, lost, of_type, play

FLIGHT = ALL["early-flight"]
MEETING = ALL["quiet-meeting"]


@pytest.mark.parametrize("name", ALL)
def test_a_gold_plan_is_recorded_and_passes(name: str) -> None:
    outcome, events = play(ALL[name])
    assert (outcome.end, outcome.verdict, outcome.progress) == ("finished", "pass", 1.0)
    [started] = of_type(events, EpisodeStarted)
    assert (started.task, started.task_digest, started.backend) == (f"phone/{name}", ALL[name].digest, "sandbox")
    assert started.environment == Phone().describe().name
    assert {tool.schema_digest for tool in started.tools} == {t.schema_digest for t in Phone().describe().tools}
    calls = [said for said in of_type(events, ActionSubmitted) if isinstance(said.action, ToolCall)]
    feedback = of_type(events, FeedbackRecorded)
    assert len(calls) == len(feedback) == len(of_type(events, ActionDispatched))
    assert [one.state_before for one in feedback[1:]] == [one.state_after for one in feedback[:-1]]
    assert feedback[0].state_before == started.state
    [ended] = of_type(events, EpisodeEnded)
    assert list(ended.runs.values()) == [len(events) - 1]


def test_the_same_plan_leads_to_the_same_feedback_and_states() -> None:
    said = [
        [(one.feedback, one.state_before, one.state_after) for one in of_type(play(MEETING)[1], FeedbackRecorded)]
        for _ in range(2)
    ]
    assert msgspec.json.encode(said[0]) == msgspec.json.encode(said[1])


def test_an_action_is_in_the_log_before_it_is_carried_out() -> None:
    log = InMemoryLog()
    seen = []

    def look(number: int, action: Action, real: Callable[[], Feedback]) -> Feedback:
        *_, submitted, dispatched = log.read_all()
        assert isinstance(said := payload(submitted), ActionSubmitted)
        assert bytes(said.action.args) == bytes(action.args)  # type: ignore[union-attr]
        assert dispatched.type == "ActionDispatched"
        seen.append(number)
        return real()

    play(MEETING, log=log, backend=Wayward(look))
    assert seen == [1, 2, 3, 4, 5, 6]


def test_arguments_are_recorded_as_they_were_written() -> None:
    args = Raw(b'{ "label":"\\u00e9", "time" : "05:45" }')
    _, events = play(FLIGHT, planner=ScriptPlanner([Step(tool="set_alarm", args=args)], "s"))
    assert bytes(of_type(events, ActionSubmitted)[0].action.args) == bytes(args)


# -- faults ----------------------------------------------------------------------------------------


def test_an_injected_fault_is_labelled_and_the_call_never_arrives() -> None:
    fault = Fault(fault="busy", tool="set_alarm", calls=[1], class_="transient", message="busy")
    outcome, events = play(FLIGHT, plan=[fault])
    assert (outcome.end, outcome.verdict, outcome.failed) == ("finished", "fail", ["alarm_set"])
    types = [event.type for event in events]
    at = types.index("FaultInjected")
    assert types[at - 1 : at + 2] == ["ActionDispatched", "FaultInjected", "FeedbackRecorded"]
    answer: Any = payload(events[at + 1])
    assert (answer.feedback.class_, answer.feedback.effect) == ("transient", "none")
    assert answer.state_before == answer.state_after
    [started] = of_type(events, EpisodeStarted)
    assert msgspec.json.decode(started.fault_plan, type=list[Fault]) == [fault]


def test_a_false_acknowledgement_does_not_make_a_pass() -> None:
    fault = Fault(fault="lie", tool="set_alarm", value=Raw(b'{"alarm_id":"a2"}'))
    outcome, events = play(FLIGHT, plan=[fault])
    assert isinstance(of_type(events, FeedbackRecorded)[-1].feedback, ToolResult)
    assert (outcome.end, outcome.verdict) == ("finished", "fail")


def test_an_injected_loss_is_left_to_the_planner_and_is_not_settled() -> None:
    fault = Fault(fault="lost", tool="set_alarm", class_="transport_lost", effect="unknown")
    outcome, events = play(FLIGHT, plan=[fault])
    assert outcome.verdict == "pass"  # it was carried out all the same
    assert [one.feedback.effect for one in of_type(events, FeedbackRecorded)[1:]] == ["unknown"]


# -- answers that get lost -----------------------------------------------------------------------------


@settings(max_examples=60, deadline=None)
@given(
    name=st.sampled_from(sorted(ALL)),
    when=st.dictionaries(st.integers(1, 12), st.sampled_from(["before", "after", "raise"]), max_size=6),
)
def test_whatever_gets_lost_on_a_reproducible_environment_the_episode_ends_where_it_would_have(
    name: str, when: dict[int, str]
) -> None:
    def lose(number: int, action: Action, real: Callable[[], Feedback]) -> Feedback:
        how = when.get(number)
        if how != "before":
            answer = real()
        if how == "raise":
            raise OSError("broken pipe")
        return answer if how is None else lost()

    log, clean = InMemoryLog(), InMemoryLog()
    outcome, events = play(ALL[name], log=log, backend=Wayward(lose))
    wanted, _ = play(ALL[name], log=clean)
    last = {said.action: said.feedback for said in of_type(events, FeedbackRecorded)}
    if outcome.end == "env_failure":
        return  # it was lost again while it was brought back
    given_up = [said for said in last.values() if isinstance(said, ExecError)]
    if not given_up:
        assert hidden(log, outcome.episode).after_digest == hidden(clean, wanted.episode).after_digest
        assert outcome.verdict == "pass"
    assert all(said.effect == "none" for said in given_up)


def test_a_lost_answer_is_recorded_as_unknown_and_then_settled() -> None:
    backend = Wayward(lambda n, action, real: (real(), lost())[1] if n == 2 else real())
    outcome, events = play(FLIGHT, backend=backend)
    first, second = of_type(events, FeedbackRecorded)[1:]
    assert (first.feedback.class_, first.feedback.effect) == ("transport_lost", "unknown")
    assert isinstance(second.feedback, ToolResult)
    assert first.action == second.action
    assert bytes(second.extra) == b'{"settled":"re-executed"}'
    assert outcome.verdict == "pass"
    assert len(msgspec.json.decode(backend.evidence().state)["alarms"]) == 2  # not three


def test_an_answer_that_gets_lost_twice_stands_as_an_error_without_effect() -> None:
    def lose(n: int, action: Action, real: Callable[[], Feedback]) -> Feedback:
        answer = real()
        return lost() if isinstance(action, ToolCall) and action.tool == "set_alarm" else answer

    log = InMemoryLog()
    outcome, events = play(FLIGHT, log=log, backend=Wayward(lose))
    last = of_type(events, FeedbackRecorded)[-1]
    assert (last.feedback.class_, last.feedback.effect) == ("transport_lost", "none")
    assert bytes(last.extra) == b'{"settled":"restored"}'
    assert last.state_after == of_type(events, EpisodeStarted)[0].state
    assert outcome.verdict == "fail"


def test_the_planner_is_told_what_was_settled() -> None:
    seen: list[Situation] = []

    class Watching(ScriptPlanner):
        def plan(self, situation: Situation, deadline: float) -> Turn:
            seen.append(situation)
            return super().plan(situation, deadline)

    backend = Wayward(lambda n, action, real: (real(), lost())[1] if n == 2 else real())
    play(FLIGHT, backend=backend, planner=Watching(FLIGHT.plans.gold, "s"))
    told = [said.text for said in seen[-1].said if said.role == "tool"]
    assert len(told) == 2
    assert '"alarm_id":"a2"' in (told[-1] or "")


def test_where_nothing_comes_back_the_planner_must_read_back() -> None:
    backend = Wayward(lambda n, action, real: (real(), lost())[1] if n == 2 else real(), determinism="D2")
    outcome, events = play(FLIGHT, backend=backend)
    assert [one.feedback.kind for one in of_type(events, FeedbackRecorded)] == ["ToolResult", "ExecError"]
    assert outcome.verdict == "pass"


def test_an_environment_that_is_gone_is_its_failure_and_not_the_agents() -> None:
    backend = Wayward(lambda n, action, real: lost() if n == 2 else real(), determinism="D2", well=False)
    outcome, events = play(FLIGHT, backend=backend)
    assert isinstance(of_type(events, EpisodeEnded)[0].end, EnvFailure)
    assert (outcome.verdict, outcome.infrastructure) == ("error", True)
    assert "the link is down" in (outcome.message or "")


def test_an_environment_that_does_not_come_back_is_said_to() -> None:
    class Forgetful(Wayward):
        def reset(self, spec: Any) -> str:
            state = super().reset(spec)
            return state if self.calls == 0 else "sha256:other"

    outcome, _ = play(FLIGHT, backend=Forgetful(lambda n, action, real: lost() if n == 1 else real()))
    assert outcome.end == "env_failure"
    assert "another state" in (outcome.message or "")


def test_a_backend_that_raises_is_a_backend_with_a_bug() -> None:
    def broken(n: int, action: Action, real: Callable[[], Feedback]) -> Feedback:
        raise ZeroDivisionError("division by zero")

    _, events = play(FLIGHT, backend=Wayward(broken))
    assert {one.feedback.class_ for one in of_type(events, FeedbackRecorded)} == {"backend_bug"}


# -- how an episode ends ----------------------------------------------------------------------------------


class Fixed(ScriptPlanner):
    """A planner that does the same at every step."""

    def __init__(self, turn: Turn | Exception) -> None:
        super().__init__([], "fixed")
        self._turn = turn

    def plan(self, situation: Situation, deadline: float) -> Turn:
        if isinstance(self._turn, Exception):
            raise self._turn
        return self._turn


@pytest.mark.parametrize(
    ("step", "end"),
    [
        (Step(answer="Done."), Finished()),
        (Step(clarify="Which one?"), Clarification()),
        (Step(refuse="unsafe"), Refused("unsafe")),
    ],
)
def test_an_episode_ends_as_the_planner_ends_it(step: Step, end: object) -> None:
    outcome, events = play(FLIGHT, planner=ScriptPlanner([step], "s"))
    assert of_type(events, EpisodeEnded)[0].end == end
    assert outcome.verdict == "fail"  # an end is no success


def test_a_script_that_ends_is_done() -> None:
    outcome, _ = play(FLIGHT, planner=ScriptPlanner([], "s"))
    assert (outcome.end, outcome.steps) == ("finished", 1)


@pytest.mark.parametrize(
    ("turn", "end", "verdict", "infrastructure"),
    [
        (PlannerFailed("no chat completion"), "agent_error", "fail", False),
        (PlannerLate("no answer within 1 s"), "agent_error", "fail", False),
        (PlannerUnavailable("connection refused"), "agent_error", "error", True),
        (Turn(failure="its answer was cut off"), "agent_error", "fail", False),
        (Turn(), "agent_error", "fail", False),
    ],
)
def test_a_planner_that_fails_ends_its_episode_and_says_why(
    turn: Turn | Exception, end: str, verdict: str, infrastructure: bool
) -> None:
    outcome, events = play(FLIGHT, planner=Fixed(turn))
    assert (outcome.end, outcome.verdict, outcome.infrastructure) == (end, verdict, infrastructure)
    assert outcome.message and isinstance(of_type(events, EpisodeEnded)[0].end, AgentError)


def test_steps_run_out() -> None:
    outcome, events = play(FLIGHT, planner=Fixed(Turn(actions=[ToolCall("get_time", Raw(b"{}"))])))
    assert (outcome.end, outcome.steps) == ("budget(steps)", 12)
    assert of_type(events, EpisodeEnded)[0].end == BudgetExhausted("steps")


def test_tokens_run_out_and_are_charged() -> None:
    task = replace(FLIGHT, spec=replace(FLIGHT.spec, budget={"tokens": 25}))
    turn = Turn(actions=[ToolCall("get_time", Raw(b"{}"))], usage=Usage(8, 2))
    outcome, events = play(task, planner=Fixed(turn))
    assert (outcome.end, outcome.steps, outcome.tokens) == ("budget(tokens)", 3, 30)
    assert [(one.amount, one.left, one.step) for one in of_type(events, BudgetCharged)] == [
        (10, 15, 1),
        (10, 5, 2),
        (10, 0, 3),
    ]


def test_wall_time_runs_out() -> None:
    task = replace(FLIGHT, spec=replace(FLIGHT.spec, budget={"wall": 0.05}))
    late: list[float] = []

    class Slow(ScriptPlanner):
        def plan(self, situation: Situation, deadline: float) -> Turn:
            late.append(deadline)
            threading.Event().wait(deadline + 0.01)
            raise PlannerLate("no answer")

    outcome, _ = play(task, planner=Slow([], "s"), limits=Limits(turn_s=60))
    assert outcome.end == "budget(wall)"
    assert late[0] <= 0.05


def test_who_is_told_to_stop_stops_and_says_so() -> None:
    stop = threading.Event()
    log = InMemoryLog()

    def halt(n: int, action: Action, real: Callable[[], Feedback]) -> Feedback:
        stop.set()
        return real()

    outcome = Episode(log, Wayward(halt), gold(MEETING), job(MEETING), stop=stop).run()
    events = list(log.read(f"episode/{outcome.episode}"))
    assert (outcome.end, outcome.verdict) == ("cancelled", "inconclusive")
    assert len(of_type(events, FeedbackRecorded)) == 1
    assert of_type(events, VerificationRecorded)[0].verification.verdict == "inconclusive"


def test_ctrl_c_in_the_middle_of_an_action_leaves_a_whole_record() -> None:
    log = InMemoryLog()

    def interrupt(n: int, action: Action, real: Callable[[], Feedback]) -> Feedback:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        play(FLIGHT, log=log, backend=Wayward(interrupt))
    events = list(log.read_all())
    [ended] = of_type(events, EpisodeEnded)
    assert isinstance(ended.end, Cancelled)
    assert list(ended.runs.values()) == [len(events)]


# -- conversations -----------------------------------------------------------------------------------------


def test_the_user_goes_on_after_each_answer() -> None:
    task = replace(FLIGHT, spec=replace(FLIGHT.spec, follow_ups=["And call it Flight.", "Sure?"]))
    script = [
        Step(clarify="Which label?"),
        Step(tool="set_alarm", args=Raw(b'{"time":"05:45","label":"Flight"}')),
        Step(answer="Set."),
        Step(answer="Sure."),
    ]
    outcome, events = play(task, planner=ScriptPlanner(script, "s"))
    assert (outcome.end, outcome.verdict, outcome.steps) == ("finished", "pass", 4)
    assert [bytes(said.content) for said in of_type(events, MessageRecorded)[1:]] == [b'"Sure?"']
    assert of_type(events, FeedbackRecorded)[0].feedback.text == "And call it Flight."


def test_calls_of_one_turn_share_its_step() -> None:
    task = ALL["shopping-list"]
    outcome, events = play(task, planner=ScriptPlanner(task.plans.others[0], "s"))
    assert outcome.verdict == "pass"
    assert [said.step for said in of_type(events, ActionSubmitted)] == [1, 2, 3, 3, 4]
    types = [event.type for event in events]
    third = types.index("ActionSubmitted", [i for i, t in enumerate(types) if t == "ModelResponded"][2])
    assert types[third : third + 2] == ["ActionSubmitted", "ActionSubmitted"]  # decided before either is done


def test_a_planner_sees_neither_criteria_nor_plans_nor_evidence() -> None:
    assert set(Situation.__struct_fields__) == {"goal", "tools", "said", "step"}
    with pytest.raises(UsageError, match="may not read"):
        Conversation("hidden/episode/x")
    seen: list[bytes] = []

    class Watching(ScriptPlanner):
        def plan(self, situation: Situation, deadline: float) -> Turn:
            seen.append(msgspec.json.encode(situation))
            return super().plan(situation, deadline)

    log = InMemoryLog()
    outcome, events = play(FLIGHT, log=log, planner=Watching(FLIGHT.plans.gold, "s"))
    assert b"old_alarms_stand" not in b"".join(seen)
    assert b"note_limit" not in b"".join(seen)  # of the state
    assert b"note_limit" in bytes(hidden(log, outcome.episode).after)
    assert not any(b"note_limit" in event.body for event in events)
    [verified] = of_type(events, VerificationRecorded)
    assert verified.verification.hidden_evidence == f"hidden/episode/{outcome.episode}@1"


# -- tools ---------------------------------------------------------------------------------------------------


def test_only_the_tools_of_the_task_can_be_seen_and_called() -> None:
    tools = [tool for tool in Phone().describe().tools if tool.name == "set_alarm"]
    task = replace(FLIGHT, spec=replace(FLIGHT.spec, tools=tools))
    outcome, events = play(task)
    assert [tool.name for tool in of_type(events, EpisodeStarted)[0].tools] == ["set_alarm"]
    assert of_type(events, FeedbackRecorded)[0].feedback.class_ == "unknown_tool"
    assert outcome.verdict == "pass"


@pytest.mark.parametrize(
    ("tool", "why"),
    [
        (ToolSpec("take_photo"), "needs the tool take_photo"),
        (ToolSpec("set_alarm", schema_digest="sha256:0"), "another schema"),
    ],
)
def test_a_task_whose_tools_are_not_there_is_not_begun(tool: ToolSpec, why: str) -> None:
    log = InMemoryLog()
    task = replace(FLIGHT, spec=replace(FLIGHT.spec, tools=[tool]))
    with pytest.raises(BadRecord, match=why):
        play(task, log=log)
    assert log.head().position == 0


def test_a_reset_that_fails_is_no_episode() -> None:
    class Broken(Phone):
        def reset(self, spec: Any) -> str:
            raise EnvironmentLost("no space left")

    log = InMemoryLog()
    with pytest.raises(EnvironmentLost):
        play(FLIGHT, log=log, backend=Broken())
    assert log.head().position == 0


def test_a_renamed_tool_is_shown_to_the_planner_under_its_new_name() -> None:
    initial = replace(FLIGHT.spec.initial, perturbations=Raw(b'{"renamed":{"set_alarm":"create_alarm"}}'))
    task = replace(FLIGHT, spec=replace(FLIGHT.spec, initial=initial))
    _, events = play(task)
    names = {tool.name for tool in of_type(events, EpisodeStarted)[0].tools}
    assert "create_alarm" in names and "set_alarm" not in names


def test_each_turn_is_recorded_with_what_it_said() -> None:
    _, events = play(MEETING)
    said = of_type(events, ModelResponded)
    assert [one.step for one in said] == [1, 2, 3, 4, 5, 6, 7]
    assert said[-1].content == MEETING.plans.gold[-1].answer
    assert of_type(events, FaultInjected) == []
