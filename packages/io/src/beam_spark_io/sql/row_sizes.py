"""Check of row sizes for `WriteToSql`, because MariaDB closes the connection if a statement is too
large.

The driver then reports a lost connection, for which a commit would wait. So a committer checks the sizes
after a failure.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


def check_row_sizes(rows: Sequence[Sequence[Any]], limit: int) -> None:
    """Checks that the database accepts a statement with each row.

    Args:
        rows: values of the rows.
        limit: maximum size of a statement, bytes.

    Raises:
        ValueError: A row is too large.
    """
    for row in rows:
        size = sum(map(_measure_value, row))
        if size > limit:
            raise ValueError(
                f"a row has {size} bytes, and the database accepts statements of {limit} bytes: "
                "increase"
                " max_allowed_packet of the server and of the driver, or write smaller rows"
            )


def _measure_value(value: Any) -> int:
    if isinstance(value, str):
        return len(value.encode("utf-8", "replace"))
    return len(value) if isinstance(value, bytes) else 0
