"""Which action a feedback answers.

A call id alone does not say: real episodes use one twice. The version of the action does; where the
writer left it out, the latest unanswered action of that call id, else the step's oldest unanswered.
"""

from typing import Final

from eventlog.views.payloads import ActionRead, Answered, Submitted

TEXT: Final = 500
"""Characters kept of a text in a row: what an index can hold."""

MAX_PENDING: Final = 256

FINAL: Final = frozenset({"Refuse", "Finish"})
"""Actions that nothing answers."""

Pending = dict[int, tuple[int, str | None, str]]
"""Unanswered actions: version → (step, call id, name)."""


def name(action: ActionRead) -> str:
    """The tool's name, a touch's op, else the kind of action."""
    if action.kind == "ToolCall":
        return clip(action.tool or action.kind)
    return clip(action.op or action.kind) if action.kind == "Ui" else clip(action.kind)


def submit(pending: Pending, version: int, submitted: Submitted) -> str:
    """Remember an action as unanswered; returns its name."""
    called = name(submitted.action)
    if submitted.action.kind in FINAL:
        return called
    pending[version] = (submitted.step, submitted.action.call_id, called)
    if len(pending) > MAX_PENDING:
        del pending[next(iter(pending))]
    return called


def answer(pending: Pending, feedback: Answered) -> tuple[int, str | None, str] | None:
    """Take out and return the action that this feedback answers."""
    version = answered(pending, feedback)
    return None if version is None else pending.pop(version)


def answered(pending: Pending, feedback: Answered) -> int | None:
    """The version of the action that this feedback answers."""
    if feedback.action is not None:
        return feedback.action if feedback.action in pending else None
    kind = feedback.feedback.kind
    if kind == "EnvNotice":
        return None
    version = None
    for at, (step, call_id, called) in pending.items():
        if feedback.call_id is not None:
            if call_id == feedback.call_id:
                version = at
        elif step == feedback.step and (kind != "UserReply" or called == "Clarify"):
            return at
    return version


def clip(text: str) -> str:
    """The text as a row keeps it."""
    return text if len(text) <= TEXT else text[: TEXT - 1] + "…"
