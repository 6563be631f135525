"""librdkafka's errors as ours."""

from typing import Any

from confluent_kafka import KafkaError

from core.errors import TrajlogError, Unavailable, UsageError
from eventlog.kafka.client import RecordTooLarge, Refused, Undelivered
from eventlog.kafka.faults import CREATE, LOGIN, LOOK, secure_fault

_TOPIC_GONE = (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC, KafkaError._UNKNOWN_PARTITION)
_FORBIDDEN = (
    KafkaError.TOPIC_AUTHORIZATION_FAILED,
    KafkaError.GROUP_AUTHORIZATION_FAILED,
    KafkaError.CLUSTER_AUTHORIZATION_FAILED,
)
_LOGIN = (KafkaError._AUTHENTICATION, KafkaError.SASL_AUTHENTICATION_FAILED, KafkaError.UNSUPPORTED_SASL_MECHANISM)
_SETTING = (KafkaError._INVALID_ARG, KafkaError._CONFLICT, KafkaError._NOT_IMPLEMENTED)


def translate(error: Any, where: str) -> TrajlogError:
    """One librdkafka error as ours."""
    code, said = error.code(), " ".join(error.str().split())[:300]
    if code in _SETTING:
        return UsageError(f"the Kafka client refuses a setting: {said}", where=where, mend="correct the option")
    if code in _LOGIN:
        return Refused(f"the broker refuses the login: {said}", where=where, mend=LOGIN)
    if code in _FORBIDDEN:
        return Refused(
            f"the broker does not allow that: {said}", where=where, mend="let this user read and write the topic"
        )
    if code == KafkaError.MSG_SIZE_TOO_LARGE:
        return RecordTooLarge("the broker takes no record that large", where=where, mend="keep large values as blobs")
    if code in _TOPIC_GONE:
        return Unavailable("there is no such topic", where=where, mend=CREATE)
    if code == KafkaError._SSL or secure_fault(said):
        return Refused(
            f"no secure connection: {said}", where=where, mend="correct security_protocol and the ssl_ options"
        )
    return Unavailable(f"no broker answers ({said})", where=where, mend=LOOK)


def undelivered(error: Any, where: str) -> TrajlogError:
    """The fate of one record that was not confirmed."""
    found = translate(error, where)
    if isinstance(found, Refused | RecordTooLarge):
        return found
    return Undelivered(f"not confirmed: {error.str()}", where=where, mend="send the same event again")


def refusal(error: Any, where: str) -> Refused | None:
    """What will not pass by itself; the rest librdkafka tries again."""
    found = translate(error, where)
    return found if isinstance(found, Refused) else None
