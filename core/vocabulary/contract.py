"""The action–feedback–verification contract: what an agent may do, what comes back, how it is judged.

One contract for sandbox, simulator and device. `End` never implies success: only `Verification` does.
"""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Raw, field

from core.vocabulary.base import UNSET, BlobRef, MaybeRaw, Open, Part, Private, Text, Verdict

UiOp = Literal[
    "tap",
    "long_press",
    "double_tap",
    "swipe",
    "drag",
    "scroll",
    "text",
    "key",
    "open_app",
    "wait",
    "screenshot",
]

ErrorClass = Literal[
    "unknown_tool",  # no tool of that name is exposed
    "schema",  # the arguments do not fit the tool's schema
    "precondition",  # the state does not allow it now
    "permission",  # the caller may not
    "not_found",  # what it names does not exist
    "conflict",  # it contradicts what is there
    "transient",  # the same call may succeed later
    "timeout",  # no answer within the deadline
    "transport_lost",  # the link broke: the effect is unknown
    "blocked_by_dialog",  # something else is on top of the screen
    "secure_window",  # the screen may not be captured
    "observation_unavailable",  # nothing could be observed
    "lease_lost",  # the environment belongs to somebody else now
    "simulator_contradiction",  # the simulated environment contradicts itself
    "injected",  # a fault of the fault plan
    "backend_bug",  # the backend itself failed
]

Effect = Literal[
    "none",  # nothing was changed
    "applied",  # it was done
    "unknown",  # read back before retrying anything that is not idempotent
]

CheckPolicy = Literal[
    "call",  # the right calls with the right arguments
    "state",  # the final state
    "order",  # what had to come before what
    "answer",  # what the agent told the user
    "behaviour",  # how it went about it
    "no_collateral",  # nothing else was changed
    "rubric",  # a judge with a rubric
    "external",  # quoted from somewhere else, such as an imported reward
]

Budget = Literal["steps", "tokens", "wall", "money", "device_s"]


class ElementRef(Part, frozen=True, tag_field="kind", tag="element"):
    """An element of the screen, as the last observation numbered or named it."""

    ref: Annotated[str, Open("the observation's name for the element", "e12")]


class Point(Part, frozen=True, tag_field="kind", tag="point"):
    """A point on the screen; x = 0 is a valid one."""

    x: Annotated[float, Open("from the left")]
    y: Annotated[float, Open("from the top")]
    space: Annotated[str, Open("pixels, or the grid the coordinates are in, such as 0-1000")] = "pixels"
    rotation: Annotated[Literal[0, 90, 180, 270], Open("of the screen, degrees clockwise")] = 0


Target = ElementRef | Point


class Keep(Part, frozen=True):
    """What a sub-agent must not lose."""

    what: Annotated[Literal["artefact", "constraint", "dependency"], Open("why it must be kept")]
    text: Annotated[str | None, Private("in words")] = None
    blob: Annotated[BlobRef | None, Open("as bytes")] = None


class ToolCall(Part, frozen=True, tag_field="kind"):
    """A call of a typed tool. `args` is the recorded argument text, verbatim, when that is valid JSON."""

    tool: Annotated[str, Open("the tool's name", "send_message")]
    args: Annotated[
        Raw, Private("the arguments, verbatim; null when they were no JSON", {"to": "Ann", "text": "On my way"})
    ]
    call_id: Annotated[str | None, Open("the model's id for the call; not unique in an episode", "call_1")] = None
    args_text: Annotated[Text | None, Private("the argument text when it was no JSON")] = None
    schema_digest: Annotated[str | None, Open("of the tool's schema at the time")] = None


class MemoryRead(Part, frozen=True, tag_field="kind"):
    """A search of memory."""

    query: Annotated[str, Private("what is looked for")]


class MemoryWrite(Part, frozen=True, tag_field="kind"):
    """A change of memory."""

    op: Annotated[str, Open("add, replace or remove")]
    record: Annotated[Raw, Private("what to remember")]
    expected_version: Annotated[int | None, Open("of the slot; 0 = it must be new")] = None


class SkillLoad(Part, frozen=True, tag_field="kind"):
    """Reading a skill into the context, which may expose more tools."""

    skill: Annotated[str, Open("its name")]
    version: Annotated[str | None, Open("its version")] = None


class Delegate(Part, frozen=True, tag_field="kind"):
    """A hand-off to a sub-agent, with what it must keep."""

    subagent: Annotated[str, Open("which")]
    task: Annotated[str, Private("what it is asked")]
    context_refs: Annotated[list[int], Open("versions in this stream that it is given")] = []
    keep: Annotated[list[Keep], Open("what it must not lose")] = []


class Ui(Part, frozen=True, tag_field="kind"):
    """A touch, a key or a look at the screen."""

    op: Annotated[UiOp, Open("what is done")]
    target: Annotated[Target | None, Open("where")] = None
    to: Annotated[Target | None, Open("where a swipe or drag ends")] = None
    direction: Annotated[Literal["up", "down", "left", "right"] | None, Open("of a scroll or swipe")] = None
    text: Annotated[str | None, Private("what is typed")] = None
    key: Annotated[str | None, Open("which key")] = None
    app: Annotated[str | None, Open("which app")] = None
    duration_ms: Annotated[float | None, Open("how long")] = None


class Clarify(Part, frozen=True, tag_field="kind"):
    """A question to the user."""

    question: Annotated[str, Private("what is asked")]


class Refuse(Part, frozen=True, tag_field="kind"):
    """A request not carried out."""

    reason_code: Annotated[str, Open("why, as a code")]


class Finish(Part, frozen=True, tag_field="kind"):
    """The claim to be done. Only a claim: the verifier decides."""

    claim: Annotated[str, Private("what is claimed to be done")]
    answer: Annotated[Text | None, Private("what the user is told")] = None


Action = ToolCall | MemoryRead | MemoryWrite | SkillLoad | Delegate | Ui | Clarify | Refuse | Finish


class Reply(Part, frozen=True, kw_only=True):
    """What every feedback may carry besides its own fields."""

    deltas: Annotated[MaybeRaw, Private("visible changes of state")] = UNSET
    clock: Annotated[str | None, Open("the environment's time, RFC 3339")] = None
    cost: Annotated[float | None, Open("of this action, in the manifest's currency")] = None


class ToolResult(Reply, frozen=True, tag_field="kind"):
    """What a tool returned."""

    value: Annotated[Raw, Private("the result, verbatim", {"sent": True})]
    schema_valid: Annotated[bool | None, Open("whether it fits the tool's result schema; null if unchecked")] = None


class ExecError(Reply, frozen=True, tag_field="kind"):
    """An action that failed, and whether it may have changed something."""

    class_: Annotated[ErrorClass, Open("what kind of failure")] = field(name="class")
    retryable: Annotated[bool, Open("whether the same action may succeed later")]
    effect: Annotated[Effect, Open("whether anything was changed")]
    message: Annotated[Text | None, Private("as the environment said it")] = None


class Viewport(Part, frozen=True):
    """The screen that coordinates refer to."""

    width: Annotated[int, Open("pixels")]
    height: Annotated[int, Open("pixels")]
    rotation: Annotated[Literal[0, 90, 180, 270], Open("degrees clockwise")] = 0


class Observation(Reply, frozen=True, tag_field="kind"):
    """What was seen: screenshots, UI trees."""

    blobs: Annotated[list[BlobRef], Open("screenshots and UI trees")] = []
    flags: Annotated[list[str], Open("what is wrong with it, such as stale or secure_window")] = []
    viewport: Annotated[Viewport | None, Open("of the screen")] = None
    app: Annotated[str | None, Open("on top of the screen")] = None
    text: Annotated[Text | None, Private("the observation in words")] = None


class UserReply(Reply, frozen=True, tag_field="kind"):
    """What the user answered."""

    text: Annotated[Text, Private("verbatim")]


class SubagentResult(Reply, frozen=True, tag_field="kind"):
    """What a sub-agent brought back."""

    child_episode: Annotated[str, Open("its episode")]
    value: Annotated[MaybeRaw, Private("what it returned")] = UNSET
    kept: Annotated[list[Keep], Open("what came back of what it had to keep")] = []


class EnvNotice(Reply, frozen=True, tag_field="kind"):
    """Something the environment said unasked."""

    source: Annotated[str, Open("which app, timer or service")]
    text: Annotated[str | None, Private("what it said")] = None


Feedback = ToolResult | ExecError | Observation | UserReply | SubagentResult | EnvNotice


class Check(Part, frozen=True):
    """One question the verifier asked."""

    id: Annotated[str, Open("its name within the task", "message_sent")]
    policy: Annotated[CheckPolicy, Open("what it looks at")]
    verdict: Annotated[Verdict, Open("what it found")]
    gates: Annotated[bool, Open("whether the verification fails with it")] = True
    evidence_refs: Annotated[list[str], Open("stream@version or blob address of what it rests on")] = []
    detail: Annotated[MaybeRaw, Private("expected and actual, as the verifier put it")] = UNSET


class Verification(Part, frozen=True):
    """A verdict, with how far the episode got kept apart from it."""

    verdict: Annotated[Verdict, Open("whether the task was done")]
    checks: Annotated[list[Check], Open("what it rests on")] = []
    verifier_digest: Annotated[str | None, Open("which verifier, exactly")] = None
    progress: Annotated[float | None, Open("verified milestones, 0 to 1")] = None
    reward: Annotated[float | None, Open("as recorded by the source, quoted")] = None
    hidden_evidence: Annotated[str | None, Open("stream@version that the planner cannot read")] = None


class Finished(Part, frozen=True, tag_field="kind", tag="finished"):
    """The agent declared itself done."""


class Clarification(Part, frozen=True, tag_field="kind", tag="clarification"):
    """It ended on a question to the user."""


class Refused(Part, frozen=True, tag_field="kind", tag="refused"):
    """It ended on a refusal."""

    reason_code: Annotated[str | None, Open("why, as a code")] = None


class BudgetExhausted(Part, frozen=True, tag_field="kind", tag="budget"):
    """A budget ran out."""

    dimension: Annotated[Budget, Open("which")]


class AgentError(Part, frozen=True, tag_field="kind", tag="agent_error"):
    """The agent itself failed: no usable output, a crash."""

    message: Annotated[str | None, Private("as it was reported")] = None


class EnvFailure(Part, frozen=True, tag_field="kind", tag="env_failure"):
    """The environment failed: nothing can be said about the agent."""

    message: Annotated[str | None, Private("as it was reported")] = None


class LeaseLost(Part, frozen=True, tag_field="kind", tag="lease_lost"):
    """The environment was taken away."""


class Cancelled(Part, frozen=True, tag_field="kind", tag="cancelled"):
    """Somebody stopped it."""

    message: Annotated[str | None, Private("why")] = None


End = Finished | Clarification | Refused | BudgetExhausted | AgentError | EnvFailure | LeaseLost | Cancelled
