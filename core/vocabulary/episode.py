"""An episode in the log: all of it in the stream `episode/<id>`, late verdicts and notes too.

A step is one model turn, from 1; parallel calls share it. An action is durable before it is
dispatched, so that a crash between the two is seen as an unknown effect.
"""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from msgspec import Raw

from core.vocabulary.base import UNSET, BlobRef, MaybeRaw, Open, Part, Payload, Private, Provisional, Split, Text
from core.vocabulary.contract import Action, Budget, End, Feedback, Verification

IMPORT = "import/0192d3c4000070008000000000000002"

Role = Literal["system", "developer", "user", "assistant", "tool"]


class Origin(Part, frozen=True):
    """Where an imported episode came from."""

    format: Annotated[str, Open("of the source", "tau-bench")]
    mapping: Annotated[int, Open("version of the importer's mapping", 1)]
    generation: Annotated[int, Open("raised by a retraction, so that the record can come again")]
    import_id: Annotated[str, Open("the import, as in the stream import/<id>", "0192d3c4000070008000000000000002")]
    where: Annotated[str, Open("place in the source", "results.json[7]")]
    record: Annotated[BlobRef, Open("the record's original bytes")]


class Parent(Part, frozen=True):
    """What a fork starts from."""

    stream: Annotated[str, Open("the parent's stream", "episode/0192d3c4000070008000000000000003")]
    version: Annotated[int, Open("the last event it shares", 14)]


class ToolSpec(Part, frozen=True):
    """A tool as the model was shown it."""

    name: Annotated[str, Open("its name", "send_message")]
    description: Annotated[str | None, Open("as the model reads it")] = None
    parameters: Annotated[MaybeRaw, Open("JSON schema of its arguments, verbatim")] = UNSET
    schema_digest: Annotated[str | None, Open("of the whole specification")] = None


class EpisodeStarted(Payload, frozen=True):
    """An attempt at a task begins."""

    task: Annotated[str | None, Open("the task's id", "message-ann")] = None
    goal: Annotated[str | None, Private("what the user wants", "Tell Ann that I am on my way")] = None
    group: Annotated[str | None, Open("the rollouts of one task that are compared")] = None
    rollout: Annotated[int | None, Open("which of the group")] = None
    attempt: Annotated[int, Open("which try of the rollout, from 1")] = 1
    policy: Annotated[str | None, Open("the model or checkpoint that acts", "planner-27b")] = None
    backend: Annotated[str | None, Open("where actions run", "sandbox")] = None
    environment: Annotated[str | None, Open("the environment's name and version")] = None
    split: Annotated[Split, Open("what the episode may be used for")] = "train"
    origin: Annotated[Origin | None, Open("where it was imported from; null if live")] = None
    task_digest: Annotated[str | None, Open("of the task specification")] = None
    manifest: Annotated[MaybeRaw, Open("the backend's description of itself")] = UNSET
    seeds: Annotated[dict[str, int], Open("random seeds by name")] = {}
    clock: Annotated[str | None, Open("the environment's time at the start, RFC 3339")] = None
    fault_plan: Annotated[MaybeRaw, Open("the faults that will be injected")] = UNSET
    versions: Annotated[dict[str, str], Open("of harness, tokenizer, template and the like")] = {}
    tools: Annotated[list[ToolSpec] | None, Open("exposed at the start; null if unknown")] = None
    parent: Annotated[Parent | None, Open("what this episode was forked from")] = None
    extra: Annotated[MaybeRaw, Private("what the source held besides, verbatim")] = UNSET
    state: Annotated[str | None, Open("digest of the environment's state at the start")] = None


class MessageRecorded(Payload, frozen=True):
    """What entered the conversation and is neither a model turn nor a tool result."""

    role: Annotated[Role, Open("who speaks", "user")]
    content: Annotated[
        Raw, Private("a JSON string, null, or a list of parts, verbatim", "Tell Ann that I am on my way")
    ]
    name: Annotated[str | None, Private("of the speaker")] = None
    step: Annotated[int | None, Open("the step it came in")] = None
    extra: Annotated[MaybeRaw, Private("what the source held besides, verbatim")] = UNSET


class Usage(Part, frozen=True):
    """Tokens of one model call."""

    prompt_tokens: Annotated[int | None, Open("read")] = None
    completion_tokens: Annotated[int | None, Open("written, thinking included")] = None
    thinking_tokens: Annotated[int | None, Open("of those, thought")] = None
    cached_tokens: Annotated[int | None, Open("of those read, served from a cache")] = None


class ContextRef(Part, frozen=True):
    """The prompt of a model call, by reference: events of this stream, never a copy."""

    digest: Annotated[str, Open("of the whole prompt")]
    spans: Annotated[list[tuple[int, int]], Open("first and last version of each run of events in it")] = []
    prefix_digest: Annotated[str | None, Open("of the token ids that the last prompt already had")] = None
    prefix_tokens: Annotated[int | None, Open("how many those are")] = None
    prompt_ids: Annotated[list[int] | BlobRef | None, Private("token ids after the prefix")] = None


class WeightSpan(Part, frozen=True):
    """Tokens sampled from one version of the weights."""

    first: Annotated[int, Open("index of the first token, from 0", 0)]
    version: Annotated[str, Open("of the weights", "step-1200")]


class ModelResponded(Payload, frozen=True):
    """One model turn: one step."""

    step: Annotated[int, Open("its number, from 1")]
    content: Annotated[Text | None, Private("what it said", "I will write to her.")] = None
    thought: Annotated[Text | None, Private("what it thought")] = None
    model: Annotated[str | None, Open("which model answered", "planner-27b")] = None
    usage: Annotated[Usage | None, Open("tokens")] = None
    cost: Annotated[float | None, Open("money, in the source's currency")] = None
    finish_reason: Annotated[str | None, Open("why it stopped")] = None
    latency_ms: Annotated[float | None, Open("how long it took")] = None
    sampling: Annotated[MaybeRaw, Open("sampling parameters")] = UNSET
    context: Annotated[ContextRef | None, Open("its prompt")] = None
    token_ids: Annotated[list[int] | BlobRef | None, Private("as sampled")] = None
    logprobs: Annotated[
        list[float | None] | BlobRef | None, Private("float32, as sampled, one per token; null = not finite")
    ] = None
    weights: Annotated[list[WeightSpan], Open("which weights sampled which tokens")] = []
    copied: Annotated[bool, Open("copied from another episode: neither counts nor trains")] = False
    extra: Annotated[MaybeRaw, Private("what the source held besides, verbatim")] = UNSET


class ActionSubmitted(Payload, frozen=True):
    """An action the agent decided on, durable before it is dispatched."""

    step: Annotated[int, Open("the step that decided it")]
    action: Annotated[Action, Open("what to do")]


class ActionDispatched(Payload, frozen=True):
    """The action leaves for the backend: durable before it does, so that without it nothing was done."""

    step: Annotated[int, Open("the step that decided it")]
    call_id: Annotated[str | None, Open("of a tool call", "call_1")] = None


class FeedbackRecorded(Payload, frozen=True):
    """What came back."""

    step: Annotated[int, Open("the step it answers")]
    feedback: Annotated[Feedback, Open("what came back")]
    call_id: Annotated[str | None, Open("of the tool call it answers", "call_1")] = None
    action: Annotated[int | None, Open("version of its ActionSubmitted in this stream", 4)] = None
    state_before: Annotated[str | None, Open("digest of the state before")] = None
    state_after: Annotated[str | None, Open("digest of the state after")] = None
    latency_ms: Annotated[float | None, Open("from dispatch to feedback")] = None
    extra: Annotated[MaybeRaw, Private("what the source held besides, verbatim")] = UNSET


class Section(Part, frozen=True):
    """A part of an assembled context."""

    name: Annotated[str, Open("conversation, tools, guidance, memory or constraints", "memory")]
    digest: Annotated[str, Open("of its text")]
    refs: Annotated[list[str], Open("stream@version of what it shows")] = []


class MemoryRef(Part, frozen=True):
    """One version of one memory."""

    memory_id: Annotated[str, Open("its id", "m-17")]
    version: Annotated[int, Open("which version")]


class ContextAssembled(Provisional, frozen=True):
    """What the planner was given to decide on, by reference."""

    step: Annotated[int, Open("the step it is for")]
    digest: Annotated[str, Open("of the whole context")]
    sections: Annotated[list[Section], Open("in order")] = []
    memory: Annotated[list[MemoryRef], Open("memories shown")] = []
    tools: Annotated[dict[str, str], Open("exposed tools and their schema digests")] = {}
    skills: Annotated[dict[str, str], Open("skills shown and their versions")] = {}


class FaultInjected(Payload, frozen=True):
    """A fault of the fault plan took effect: the label of what follows."""

    fault: Annotated[str, Open("its name in the plan", "send-times-out-once")]
    step: Annotated[int | None, Open("when")] = None
    call_id: Annotated[str | None, Open("of the tool call it hit")] = None
    parameters: Annotated[MaybeRaw, Open("what it did exactly")] = UNSET


class BudgetCharged(Payload, frozen=True):
    """Part of a budget was used up."""

    dimension: Annotated[Budget, Open("which")]
    amount: Annotated[float, Open("how much, in its unit", 1.0)]
    left: Annotated[float | None, Open("what remains")] = None
    step: Annotated[int | None, Open("by which step")] = None


class EpisodeEnded(Payload, frozen=True):
    """The episode is over. Whether it succeeded is the verifier's to say."""

    end: Annotated[End, Open("how it ended")]
    runs: Annotated[dict[str, int], Open("last seq of each run in the stream, this event included")] = {}
    extra: Annotated[MaybeRaw, Private("what the source held besides, verbatim")] = UNSET


class VerificationRecorded(Payload, frozen=True):
    """A judgement; it may come late and be superseded by a later one."""

    verification: Annotated[Verification, Open("the judgement")]
    source: Annotated[Literal["machine", "human", "import"], Open("who judged; a human outranks any machine")]
    why: Annotated[str | None, Private("in words")] = None
    supersedes: Annotated[int | None, Open("version of the judgement it replaces")] = None


class EvidenceRecorded(Payload, frozen=True):
    """What the verifier read and the planner never sees."""

    home: ClassVar[str] = "hidden/episode/0192d3c4000070008000000000000001"

    before: Annotated[Raw, Private("the state after the reset; null if it cannot be read", {"messages": []})]
    after: Annotated[Raw, Private("the state at the end", {"messages": ["On my way"]})]
    before_digest: Annotated[str | None, Open("digest of the state after the reset")] = None
    after_digest: Annotated[str | None, Open("digest of the state at the end")] = None


class NoteAdded(Payload, frozen=True):
    """Somebody's remark."""

    text: Annotated[str, Private("the remark", "It never looked at the reply.")]
    target: Annotated[int | None, Open("version of the event it is about", 14)] = None


class EpisodeRetracted(Payload, frozen=True):
    """The import that brought this episode was a mistake."""

    import_id: Annotated[str, Open("the import", "0192d3c4000070008000000000000002")]
    why: Annotated[str | None, Open("the reason given")] = None


class ImportStarted(Payload, frozen=True):
    """An import begins; its stream is `import/<id>`."""

    home: ClassVar[str] = IMPORT

    format: Annotated[str, Open("of the sources", "tau-bench")]
    mapping: Annotated[int, Open("version of the importer's mapping", 1)]
    sources: Annotated[list[str], Open("files, in order", ["results.json"])]
    split: Annotated[Split, Open("of the episodes it brings")] = "train"


class ImportEnded(Payload, frozen=True):
    """An import is through."""

    home: ClassVar[str] = IMPORT

    episodes: Annotated[
        dict[str, int], Open("how many were new, present, rejected", {"new": 100, "present": 0, "rejected": 0})
    ]
    events: Annotated[int, Open("how many were appended", 2500)]
    unmapped: Annotated[dict[str, int], Open("what had no place in the vocabulary, and how often")] = {}


class ImportRetracted(Payload, frozen=True):
    """The import was a mistake; each of its episodes says so too."""

    home: ClassVar[str] = IMPORT

    why: Annotated[str | None, Open("the reason given")] = None
