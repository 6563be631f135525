"""Shards come out the same, byte for byte, whether their rows were made or taken."""

from hashlib import sha256
from itertools import accumulate, pairwise
from pathlib import Path

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from learners.releases import arrow, chat

SCHEMA = pa.schema(
    [
        pa.field("n", pa.int64(), False),
        pa.field("word", pa.string()),
        pa.field("score", pa.float64()),
        pa.field("flags", pa.list_(pa.field("item", pa.bool_(), False)), False),
        pa.field("sparse", pa.list_(pa.field("item", pa.int64())), False),
        *chat.fields(),
    ]
)

texts = st.none() | st.text(max_size=9)
calls = st.lists(
    st.tuples(st.text(max_size=3), st.just("function"), st.tuples(st.text(max_size=3), st.text())), max_size=2
)
messages = st.tuples(
    st.sampled_from(["user", "tool"]), texts, texts, texts, texts, texts, calls, st.integers(0, 9), st.booleans()
)
rows = st.lists(
    st.tuples(
        st.integers(-(2**63), 2**63 - 1),
        texts,
        st.none() | st.floats(allow_nan=False),
        st.lists(st.booleans(), max_size=9),
        st.lists(st.none() | st.integers(0, 9), max_size=9),
        st.lists(messages, max_size=3),
        texts,
    ),
    min_size=1,
    max_size=20,
)


def stream(batch: pa.RecordBatch) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, SCHEMA) as writer:
        writer.write_batch(batch)
    return bytes(sink.getvalue())


@settings(max_examples=60, deadline=None)
@given(rows, st.lists(st.integers(0, 20), max_size=5))
def test_rows_taken_in_pieces_give_the_same_bytes(rows: list[tuple[object, ...]], cuts: list[int]) -> None:
    whole = arrow.batch(rows, SCHEMA)
    whole.validate(full=True)
    assert whole.to_pylist() == pa.RecordBatch.from_pylist([_named(row) for row in rows], schema=SCHEMA).to_pylist()
    read = pa.ipc.open_stream(stream(arrow.joined([whole]))).read_next_batch()
    ends = sorted({0, len(rows), *[cut for cut in cuts if cut < len(rows)]})
    pieces = [read.slice(a, b - a) for a, b in pairwise(ends)]
    mixed = [arrow.batch(rows[a:b], SCHEMA) if a % 2 else read.slice(a, b - a) for a, b in pairwise(ends)]
    expected = stream(arrow.joined([whole]))
    assert stream(arrow.joined(pieces)) == expected
    assert stream(arrow.joined(mixed)) == expected


def _named(row: tuple[object, ...]) -> dict[str, object]:
    return {field.name: _dicts(value, field.type) for field, value in zip(SCHEMA, row, strict=True)}


def _dicts(value: object, type_: pa.DataType) -> object:
    if isinstance(value, list):
        return [_dicts(item, type_.value_type) for item in value]
    if isinstance(value, tuple):
        return {type_.field(i).name: _dicts(item, type_.field(i).type) for i, item in enumerate(value)}
    return value


def test_a_file_says_what_went_into_it(tmp_path: Path) -> None:
    file = arrow.Written(tmp_path / "data.arrow", pa.schema([pa.field("n", pa.int64(), False)]))
    file.add(arrow.batch([(1,), (2,)], pa.schema([pa.field("n", pa.int64(), False)])))
    said = file.close()
    data = (tmp_path / "data.arrow").read_bytes()
    assert (said.sha256, said.bytes, said.rows) == (sha256(data).hexdigest(), len(data), 2)
    assert [batch.to_pylist() for batch in arrow.batches(tmp_path / "data.arrow")] == [[{"n": 1}, {"n": 2}]]


@given(st.lists(st.integers(0, 20), max_size=9))
@settings(max_examples=30, deadline=None)
def test_batches_of_any_size_come_out_in_those_of_a_shard(sizes: list[int]) -> None:
    total = sum(sizes) * 1000
    numbers = pa.record_batch([pa.array(range(total), pa.int64())], ["n"])
    starts = accumulate(sizes, initial=0)
    given_ = [numbers.slice(start * 1000, size * 1000) for start, size in zip(starts, sizes, strict=False)]
    found = list(arrow.by_shards(given_))
    assert [batch.num_rows for batch in found[:-1]] == [arrow.SHARD] * (len(found) - 1)
    assert [n for batch in found for n in batch.column(0).to_pylist()] == list(range(total))
