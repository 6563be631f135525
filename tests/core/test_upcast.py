"""A payload written long ago is read as today's, or the program does not start."""

from collections.abc import Iterator
from typing import Annotated, Any, ClassVar

import msgspec
import pytest
from msgspec import Raw

from core import vocabulary
from core.event import Event
from core.upcast import Fields, Step, check_steps, lift
from core.vocabulary import Unknown, payload
from core.vocabulary.base import Open, Payload


def same(fields: Fields) -> Fields:
    return fields


@pytest.mark.parametrize(
    ("current", "steps", "fault"),
    [
        (2, [], "gap"),
        (3, [Step(1, 2, same)], "gap"),
        (3, [Step(1, 3, same)], "gap"),
        (3, [Step(2, 3, same)], "gap"),
        (2, [Step(0, 2, same), Step(1, 2, same)], "gap"),
        (2, [Step(1, 3, same)], "gap"),
        (2, [Step(1, 2, same), Step(2, 3, same)], "gap"),
        (2, [Step(1, 1, same)], "cycle"),
        (3, [Step(1, 2, same), Step(2, 1, same)], "cycle"),
        (2, [Step(1, 2, same), Step(1, 2, same)], "duplicate"),
        (3, [Step(1, 2, same), Step(2, 3, same), Step(1, 3, same)], "duplicate"),
    ],
)
def test_a_chain_that_does_not_fit_is_an_error_at_import(current: int, steps: list[Step], fault: str) -> None:
    with pytest.raises(ValueError, match=fault):
        check_steps("Moved", current, steps)
    with pytest.raises(ValueError, match=f"Moved.*{fault}"):
        type("Moved", (Payload,), {"schema_number": current, "lifts": tuple(steps)})


@pytest.mark.parametrize(
    ("current", "steps"),
    [(1, []), (3, [Step(2, 3, same), Step(1, 2, same)]), (3, [Step(1, 3, same), Step(2, 3, same)])],
)
def test_a_chain_leads_from_every_older_schema_to_the_current_one(current: int, steps: list[Step]) -> None:
    check_steps("Moved", current, steps)


def test_steps_are_taken_in_order_from_where_the_payload_is() -> None:
    def note(n: int) -> Step:
        return Step(n, n + 1, lambda fields: {"seen": [*fields["seen"], n]})

    steps = [note(3), note(1), note(2)]
    assert lift({"seen": []}, 1, steps) == {"seen": [1, 2, 3]}
    assert lift({"seen": []}, 3, steps) == {"seen": [3]}
    assert lift({"seen": []}, 4, steps) == {"seen": []}


def rename(fields: Fields) -> Fields:
    return {"words" if name == "text" else name: value for name, value in fields.items()}


def split_words(fields: Fields) -> Fields:
    fields["words"] = msgspec.json.decode(fields["words"]).split()
    return fields


class Spoken(Payload, frozen=True):
    """A type with two older schemas."""

    schema_number: ClassVar[int] = 3
    lifts: ClassVar[tuple[Step, ...]] = (Step(1, 2, rename), Step(2, 3, split_words))

    words: Annotated[list[str], Open("one by one")]
    source: Annotated[Raw, Open("verbatim")]


@pytest.fixture
def spoken(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with monkeypatch.context() as patch:
        patch.setattr(vocabulary, "TYPES", {"Spoken": Spoken})
        vocabulary._reader.cache_clear()
        yield
    vocabulary._reader.cache_clear()


def event(schema: int, body: bytes) -> Event:
    return Event(
        event_id=bytes(16), stream="s", writer="w", run=bytes(16), seq=1, type="Spoken", schema=schema, body=body
    )


@pytest.mark.usefixtures("spoken")
@pytest.mark.parametrize(
    ("schema", "body"),
    [
        (1, b'{"text":"on my way","source":{ "n" : 1.0 }}'),
        (2, b'{"words":"on my way","source":{ "n" : 1.0 }}'),
        (3, b'{"words":["on","my","way"],"source":{ "n" : 1.0 }}'),
    ],
)
def test_every_older_schema_is_read_as_the_current_one_and_what_no_step_touches_is_verbatim(
    schema: int, body: bytes
) -> None:
    assert payload(event(schema, body)) == Spoken(["on", "my", "way"], Raw(b'{ "n" : 1.0 }'))


@pytest.mark.usefixtures("spoken")
@pytest.mark.parametrize(
    ("schema", "body"),
    [(1, b'{"source":1}'), (1, b'{"text":7,"source":1}'), (2, b'{"words":[],"source":1}'), (4, b'{"words":[]}')],
)
def test_what_cannot_be_lifted_is_shown_raw(schema: int, body: bytes) -> None:
    found: Any = payload(event(schema, body))
    assert isinstance(found, Unknown)
    assert (found.type, found.schema, found.raw) == ("Spoken", schema, body)
    assert found.why
