"""The names that would have been right."""

from enum import StrEnum
from typing import Annotated, Any, Literal

import msgspec
import pytest
from msgspec import Meta

from core.choices import choices


class Mood(StrEnum):
    GOOD = "good"
    BAD = "bad"


class Cat(msgspec.Struct, tag="cat"):
    mood: Mood = Mood.GOOD
    colour: Literal["black", "white"] | None = None


class Dog(msgspec.Struct, tag="dog"):
    mood: Annotated[Literal["bad", "worse"], Meta(title="a mood")] = "bad"


class House(msgspec.Struct):
    cats: list[Cat] = []
    pets: dict[str, Cat | Dog] = {}
    pair: tuple[int, Cat] | None = None
    named: Annotated[str, Meta(min_length=2)] = "no"


@pytest.mark.parametrize(
    ("value", "right"),
    [
        ({"cats": [{"type": "cat"}, {"type": "cat", "mood": "x"}]}, ["good", "bad"]),
        ({"cats": [{"type": "cat", "colour": "x"}]}, ["black", "white"]),
        ({"pets": {"a": {"type": "dog", "mood": "good"}}}, ["good", "bad", "worse"]),
        ({"pair": [1, {"type": "cat", "mood": "x"}]}, ["good", "bad"]),
        ({"named": "x"}, []),
        ({"cats": 1}, []),
        ({"cats": [{"type": "x"}]}, []),
    ],
)
def test_they_are_those_of_the_place(value: Any, right: list[str]) -> None:
    with pytest.raises(msgspec.ValidationError) as refused:
        msgspec.convert(value, House)
    assert choices(str(refused.value), House) == right


def test_a_place_that_is_not_there_has_none() -> None:
    assert choices("Invalid enum value 'x' - at `$.nowhere[0].b`", House) == []
    assert choices("Invalid enum value 'x' - at `$[...].mood`", dict[str, Cat]) == ["good", "bad"]
    assert choices("Invalid enum value 'x'", Literal["a"]) == ["a"]
