"""Waits of table reads for catalogs and storage that don't respond, so that an outage doesn't count as a
failed attempt at a bundle.
"""

from __future__ import annotations

import itertools
import logging
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

import pyarrow as pa

from beam_spark_io.patience import wait_until_available

PATIENCE = 300.0
"""Seconds for which a bounded read waits by default."""
_LOGGER = logging.getLogger(__name__)
Result = TypeVar("Result")


class TableUnavailable(Exception):
    """Error of a catalog or storage that doesn't respond now. The read tries again later."""


def check_patience(patience: float) -> None:
    """Refuses a negative patience.

    Raises:
        ValueError: The patience is negative.
    """
    if patience < 0:
        raise ValueError(f"patience is {patience!r}; expected at least 0 seconds")


@contextmanager
def convert_outages(
    is_unavailable: Callable[[Exception], bool], name: str, outage: type[Exception]
) -> Iterator[None]:
    """Converts errors of a library, within a ``with`` block.

    Args:
        is_unavailable: returns whether an error says that the catalog or storage doesn't respond now.
        name: name or address of the table, for the text.
        outage: type of the converted errors.

    Raises:
        outage: The catalog or storage doesn't respond.
    """
    try:
        yield
    except Exception as error:
        if not is_unavailable(error):
            raise
        raise outage(f"the table {name} is unavailable: {join_lines(str(error))}") from error


def join_lines(text: str) -> str:
    """Returns an error's text on one line. `deltalake` breaks a text at each colon, with colored arrows."""
    plain = re.sub(r"\s*\x1b\[\d+m↳\x1b\[0m", ":", text)
    return " ".join(plain.split())


def wait_for_table(call: Callable[[], Result], patience: float | None) -> Result:
    """Calls a function until the table is available; returns the result.

    Args:
        call: function that can be repeated after a `TableUnavailable`.
        patience: maximum seconds of the wait; None waits without a limit.

    Raises:
        TableUnavailable: The table was unavailable for longer than the patience.
    """
    return wait_until_available(call, TableUnavailable, patience, lambda away, _: log_wait(away))


def log_wait(away: TableUnavailable) -> None:
    """Logs that a read waits."""
    _LOGGER.warning("The read of a table waits: %s", away)


def read_batches(
    open_file: Callable[[], Iterator[pa.RecordBatch]], patience: float | None
) -> Iterator[pa.RecordBatch]:
    """Yields each batch of a file once. After an outage, opens the file again, and skips the batches
    that it has yielded.

    Args:
        open_file: function that returns the same batches at each call.
        patience: maximum seconds of one wait; None waits without a limit.

    Raises:
        TableUnavailable: The storage was unavailable for longer than the patience.
    """
    file = _BatchFile(open_file)
    while (batch := wait_for_table(file.read_next, patience)) is not None:
        yield batch


class _BatchFile:
    """File whose batches are read one by one."""

    def __init__(self, open_file: Callable[[], Iterator[pa.RecordBatch]]) -> None:
        self._open_file = open_file
        self._batches: Iterator[pa.RecordBatch] | None = None
        self._count = 0

    def read_next(self) -> pa.RecordBatch | None:
        """Returns the next batch; None after the last batch."""
        try:
            if self._batches is None:
                self._batches = itertools.islice(self._open_file(), self._count, None)
            batch = next(self._batches, None)
        except TableUnavailable:
            self._batches = None
            raise
        self._count += 1
        return batch
