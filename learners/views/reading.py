"""Rows of a projection as a stream, and the declared schema of what a release holds of them."""

from collections.abc import Collection, Iterator, Sequence
from itertools import count
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa

    from eventlog.database import Connection
    from eventlog.projection import Column

_FETCH = 2_000
_numbers = count(1)


def stream(connection: "Connection", query: str, values: Sequence[Any] = ()) -> Iterator[tuple[Any, ...]]:
    """The rows of a query as of one moment, a page of them held at a time. The connection may be used meanwhile."""
    from psycopg.pq import TransactionStatus

    alone = connection.info.transaction_status == TransactionStatus.IDLE
    with connection.cursor(f"stream_{next(_numbers)}", binary=True, withhold=alone) as cursor:
        cursor.execute(query, values)
        while page := cursor.fetchmany(_FETCH):
            yield from page


def schema(columns: Sequence["Column"], nullable: Collection[str], sparse: Collection[str] = ()) -> "pa.Schema":
    """The columns as Arrow has them. Only those `nullable` may be null, and only in lists that are `sparse`
    an item may. `UsageError` where pyarrow is not installed."""
    pa = arrow()
    types = {
        "text": pa.string(),
        "bigint": pa.int64(),
        "double precision": pa.float64(),
        "boolean": pa.bool_(),
        "bytea": pa.binary(),
    }
    fields = []
    for name, type_ in columns:
        made = types[type_.removesuffix("[]")]
        if type_.endswith("[]"):
            made = pa.list_(pa.field("item", made, nullable=name in sparse))
        fields.append(pa.field(name, made, nullable=name in nullable))
    return pa.schema(fields)


def arrow() -> Any:
    """pyarrow. `UsageError` where it is not installed."""
    try:
        import pyarrow
    except ImportError as error:
        from core.errors import UsageError

        raise UsageError("pyarrow is not installed", where="release", mend="pip install 'trajlog[data]'") from error
    return pyarrow
