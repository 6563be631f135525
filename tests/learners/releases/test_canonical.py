"""What a release is named after never changes: golden vectors, and what the id does not depend on."""

import json
from pathlib import Path
from typing import Any

import msgspec

from learners.releases import canonical
from learners.releases.order import order

GOLDEN = json.loads((Path(__file__).parents[1] / "golden" / "releases.json").read_text())


def rows() -> list[tuple[str, int, int, tuple[Any, ...]]]:
    return [(row["stream"], row["version"], row["row"], tuple(row["values"])) for row in GOLDEN["rows"]]


def section(found: list[tuple[str, int, int, tuple[Any, ...]]]) -> bytes:
    digests = canonical.Rows()
    for row in found:
        digests.add(canonical.row_digest(canonical.row_bytes(*row)))
    return digests.digest()


def named(*logs: bytes, view: str = "sft_row", version: int = 1, text: str | None = "chat@1", seed: int = 7) -> str:
    return canonical.release_id(view, version, text, msgspec.json.encode({"seed": seed}), logs).hex()


def ordered(seed: int, count: int) -> list[int]:
    return [row for part in order(seed, count) for row in part.to_pylist()]


def test_golden_vectors() -> None:
    for row, expected in zip(rows(), GOLDEN["rows"], strict=True):
        data = canonical.row_bytes(*row)
        assert data.hex() == expected["bytes"]
        assert canonical.row_digest(data).hex() == expected["digest"]
        assert canonical.reference(row[3]).hex() == expected["reference"]
    assert section(rows()).hex() == GOLDEN["log"]
    assert named(section(rows())) == GOLDEN["id"]
    assert named(section(rows()), section(rows()[:1])) == GOLDEN["id_of_two_logs"]
    assert canonical.files_digest([("b", "11"), ("a", "22")]) == GOLDEN["files"]
    assert ordered(7, 10) == GOLDEN["order"]
    assert ordered(-1, 3) == GOLDEN["order_of_minus_one"]


def test_the_order_of_logs_is_none_of_it() -> None:
    one, two = section(rows()), section(rows()[:1])
    assert named(one, two) == named(two, one)


def test_everything_else_is() -> None:
    one, two = section(rows()), section(list(reversed(rows())))
    ids = [
        named(one),
        named(two),
        named(one, seed=8),
        named(one, version=2),
        named(one, view="x"),
        named(one, text=None),
    ]
    assert len(set(ids)) == len(ids)


def test_every_row_is_used_once() -> None:
    assert sorted(ordered(3, 1000)) == list(range(1000))
    assert ordered(3, 1000) != ordered(4, 1000)
    assert ordered(3, 0) == []
