"""Tests of the waits of table reads for storage that doesn't respond."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pytest

from beam_spark_io import patience
from beam_spark_io.tables.outages import TableUnavailable, convert_outages, read_batches


class Storage:
    """Storage with a file of four batches.

    Args:
        failures: for each time that the file is opened, the number of batches before an outage.
    """

    def __init__(self, *failures: int) -> None:
        self._failures = list(failures)
        self.opened = 0

    def open_file(self) -> Iterator[pa.RecordBatch]:
        self.opened += 1
        limit = self._failures.pop(0) if self._failures else 4
        for number in range(4):
            if number == limit:
                raise TableUnavailable("the storage is away")
            yield pa.record_batch({"number": [number]})


def read_numbers(storage: Storage, seconds: float | None) -> list[int]:
    return [batch.column(0)[0].as_py() for batch in read_batches(storage.open_file, seconds)]


@pytest.fixture(autouse=True)
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Records the pauses, and doesn't wait."""
    found: list[float] = []
    monkeypatch.setattr(patience, "_sleep", found.append)
    return found


def test_each_batch_is_read_once_after_outages_before_and_between_batches(
    pauses: list[float],
) -> None:
    storage = Storage(0, 0, 2, 1, 3)
    assert read_numbers(storage, None) == [0, 1, 2, 3]
    assert storage.opened == 6
    assert pauses == [0.1, 0.2, 0.1, 0.2, 0.1]


def test_read_fails_after_its_patience() -> None:
    with pytest.raises(TableUnavailable, match="the storage is away"):
        read_numbers(Storage(0), 0.0)


def test_text_of_a_converted_error_has_one_line_without_colors() -> None:
    text = "Generic S3 error\n     \x1b[31m↳\x1b[0m Error performing GET, max_retries\n  \x1b[31m↳\x1b[0m 1\n"
    with (
        pytest.raises(TableUnavailable) as failure,
        convert_outages(lambda _: True, "/sales", TableUnavailable),
    ):
        raise OSError(text)
    assert str(failure.value) == (
        "the table /sales is unavailable: Generic S3 error: Error performing GET, max_retries: 1"
    )
