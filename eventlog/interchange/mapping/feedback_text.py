"""Feedback as the text that a model was shown, for formats that know nothing else."""

import msgspec
from msgspec import Raw, UnsetType

from core.vocabulary import BlobRef
from core.vocabulary.contract import EnvNotice, ExecError, Feedback, Observation, SubagentResult, ToolResult, UserReply


def text_of(feedback: Feedback) -> str | None:
    """What came back, in words; None if there are none."""
    match feedback:
        case ToolResult():
            return of_json(feedback.value)
        case ExecError():
            return f"error: {feedback.class_}" if feedback.message is None else _text(feedback.message)
        case Observation():
            return None if feedback.text is None else _text(feedback.text)
        case UserReply():
            return _text(feedback.text)
        case SubagentResult():
            return None if isinstance(feedback.value, UnsetType) else of_json(feedback.value)
        case EnvNotice():
            return feedback.text
    raise AssertionError


def of_json(raw: Raw) -> str | None:
    """A JSON string's text, null as None, anything else as JSON."""
    text = bytes(raw)
    if text == b"null":
        return None
    return msgspec.json.decode(raw, type=str) if text.startswith(b'"') else text.decode()


def _text(text: str | BlobRef) -> str:
    return text if isinstance(text, str) else f"[{text.media_type} {text.address} {text.size:,} bytes]"
