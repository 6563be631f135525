"""What Kafka's client libraries say, as our errors, one line each."""

import logging
import re
from collections.abc import Callable
from typing import TypeVar

from kafka import errors

from core.errors import TrajlogError, Unavailable, UsageError
from eventlog.kafka.client import RecordTooLarge, Refused, Undelivered

T = TypeVar("T")

LOOK = "see that Kafka runs there and can be reached (trajlog kafka check)"
LOGIN = "correct sasl_mechanism, sasl_plain_username and TRAJLOG_KAFKA_SASL_PLAIN_PASSWORD"
PORT = "see that this is the port for this security_protocol"
CREATE = "create it with trajlog kafka init"

_LOGIN = (
    errors.SaslAuthenticationFailedError,
    errors.UnsupportedSaslMechanismError,
    errors.IllegalSaslStateError,
)
_MANAGER = logging.getLogger("kafka.net.manager")
_ATTEMPT = re.compile(
    r"Bootstrap (?:attempt|connection) to \S+ failed: (?P<why>.*?)(?: \(backoff [\d.]+ secs\))?", re.DOTALL
)
_CLASSES = re.compile(r"^(?:\[Error \d+\] |\w+Error: )+")
_SECURE = ("certificate", "handshake failed", "ssl", "tls")


def reach(make: Callable[[], T], where: str) -> T:
    """Make a client of kafka-python, which asks a broker at once. Why none answered is in the library's log alone."""
    causes = _Causes()
    _MANAGER.addHandler(causes)
    try:
        return make()
    except (errors.KafkaError, OSError, AssertionError, ValueError) as error:
        raise translate(error, where, causes.said) from error
    finally:
        _MANAGER.removeHandler(causes)


def translate(error: Exception, where: str, cause: str | None = None) -> TrajlogError:
    """One of kafka-python's errors as ours; `where` names the log, `cause` says what lay behind it."""
    said = _short(cause or str(error)) or type(error).__name__
    if isinstance(error, errors.KafkaConfigurationError | AssertionError | ValueError | TypeError):
        return UsageError(f"the Kafka client refuses a setting: {said}", where=where, mend="correct the option")
    if isinstance(error, _LOGIN) or (cause and _login_fault(cause)):
        return Refused(f"the broker refuses the login: {said}", where=where, mend=LOGIN)
    if isinstance(error, errors.AuthorizationError):
        return Refused(
            f"the broker does not allow that: {said}", where=where, mend="let this user read and write the topic"
        )
    if isinstance(error, errors.UnknownTopicOrPartitionError):
        return Unavailable("there is no such topic", where=where, mend=CREATE)
    if isinstance(error, errors.MessageSizeTooLargeError | errors.RecordListTooLargeError):
        return RecordTooLarge("the broker takes no record that large", where=where, mend="keep large values as blobs")
    if secure_fault(said):
        return Refused(
            f"no secure connection: {said}", where=where, mend="correct security_protocol and the ssl_ options"
        )
    if cause and (
        "disconnected" in cause or "Invalid frame" in cause
    ):  # an answer that comes together with the end is not always read
        return Unavailable(f"the broker ends the connection ({said})", where=where, mend=f"{PORT}, or {LOGIN}")
    if isinstance(error, errors.RetriableError | OSError):
        return Unavailable(f"no broker answers ({said})", where=where, mend=LOOK)
    return Unavailable(f"Kafka refuses: {said}", where=where, mend=LOOK)


def undelivered(error: Exception, where: str) -> TrajlogError:
    """The fate of one record that was not confirmed."""
    found = translate(error, where)
    if isinstance(found, Refused | RecordTooLarge):
        return found
    return Undelivered(f"not confirmed: {line(error)}", where=where, mend="send the same event again")


def secure_fault(said: str) -> bool:
    """Whether a connection failed at TLS."""
    return any(word in said.lower() for word in _SECURE)


class _Causes(logging.Handler):
    """Hears why attempts to reach a broker failed: the last of the most telling kind."""

    said: str | None = None

    def emit(self, record: logging.LogRecord) -> None:
        found = _ATTEMPT.fullmatch(record.getMessage())
        if found and not (self.said and _telling(self.said) and not _telling(found["why"])):
            self.said = " ".join(found["why"].split())


def _telling(said: str) -> bool:
    return secure_fault(said) or _login_fault(said)


def _login_fault(said: str) -> bool:
    return any(kind.__name__ in said for kind in _LOGIN)


def line(error: Exception) -> str:
    """What the library said, on one line."""
    return _short(str(error)) or type(error).__name__


def _short(text: str) -> str:
    """On one line, without the classes that the library puts before it."""
    return _CLASSES.sub("", " ".join(text.split()))[:300]
