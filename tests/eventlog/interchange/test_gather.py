"""Parts come back in their groups, whether they were written to disk or not."""

from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eventlog.interchange import gather
from eventlog.interchange.gather import Gather, Group, Part
from tests.examples import examples

Added = tuple[bytes, Part, str | None, int]

texts = st.sampled_from(["", "a", "b", "é\0"])
parts = st.builds(Part, texts, st.binary(max_size=6), st.sampled_from([b"", b"s", b"t"]), texts, texts)
added = st.lists(
    st.tuples(st.sampled_from([b"k", b"l", b"m", b"n"]), parts, st.sampled_from([None, "x", "y"]), st.integers(0, 1)),
    max_size=12,
)


def groups(given: list[Added], memory: int, limit: int = 1_000, batch: int = gather.BATCH) -> list[Group]:
    with pytest.MonkeyPatch.context() as patch, Gather() as whole:
        patch.setattr(gather, "MEMORY", memory)
        patch.setattr(gather, "BATCH", batch)
        for key, part, group, rank in given:
            whole.add(key, part, group=group, rank=rank)
        return list(whole.groups(limit))


class Said(NamedTuple):
    """What a key was said to belong to, and how much that counts."""

    rank: int
    name: str


def expected(given: list[Added]) -> list[tuple[str | bytes, list[Part]]]:
    """The groups, by what `gather` promises: of two names the one of the lower rank, none of two of the same."""
    said: dict[bytes, list[Said]] = {}
    for key, _, group, rank in given:
        said.setdefault(key, [])
        if group is not None:
            said[key].append(Said(rank, group))
    names: dict[bytes, str | bytes] = {}
    for key, each in said.items():
        best = {name for rank, name in each if rank == min(each).rank}
        names[key] = best.pop() if len(best) == 1 else key
    found: dict[str | bytes, list[Part]] = {}
    for key, part, _, _ in given:
        found.setdefault(names[key], []).append(part)
    return list(found.items())


@settings(max_examples=examples(150))
@given(added, st.integers(0, 3_000), st.integers(0, 2_000))
def test_groups_are_the_same_on_disk_and_in_memory(given: list[Added], memory: int, batch: int) -> None:
    here = groups(given, 1 << 20)
    assert [(each.name or each.key, each.parts) for each in here] == expected(given)
    assert groups(given, memory, batch=batch) == here
    assert groups(given, 0, batch=batch) == here


@pytest.mark.parametrize("memory", [0, 1 << 20])
def test_a_group_that_is_too_large_comes_without_parts(memory: int) -> None:
    given: list[Added] = [(b"k", Part("a:1", b"xxx"), None, 0), (b"l", Part("a:2", b"x"), None, 0)]
    given.append((b"k", Part("a:3", b"xx"), None, 0))
    large, small = groups(given, memory, limit=4)
    assert (large.key, large.place, large.parts) == (b"k", "a:1", None)
    assert small.parts == [Part("a:2", b"x")]
