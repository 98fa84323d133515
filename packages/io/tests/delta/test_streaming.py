"""Tests of `ReadStreamFromDelta`, whose DoFns are called as a runner calls them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import apache_beam as beam
import pyarrow as pa
import pytest
from apache_beam.io.restriction_trackers import OffsetRange
from apache_beam.io.watermark_estimators import ManualWatermarkEstimator
from apache_beam.runners.sdf_utils import RestrictionTrackerView, ThreadsafeRestrictionTracker
from apache_beam.utils.timestamp import Timestamp

from beam_spark_io import ReadStreamFromDelta
from beam_spark_io.endless_restrictions import EndlessRestrictions

deltalake = pytest.importorskip("deltalake", reason="the extra `delta` isn't installed")


def append(table: Path, *numbers: int, mode: str = "append", day: str | None = "a/b %") -> None:
    rows = pa.table({"id": numbers, "day": pa.array([day] * len(numbers), pa.string())})
    deltalake.write_deltalake(table, rows, mode=mode, partition_by=["day"])


class StreamUnderTest:
    """Stream of a table, read bundle by bundle from a restriction."""

    def __init__(self, table: Path, first: int, **more: Any) -> None:
        read = ReadStreamFromDelta(str(table), first_version=first, batches=True, **more)
        self._list, self._read = read._list_files, read._read_file
        self._list.setup()
        self._read.setup()
        self.restriction = OffsetRange(first, 2**62)
        self.estimator = ManualWatermarkEstimator(None)

    def read_bundle(self) -> list[tuple[int, Timestamp]]:
        """Returns the numbers of one bundle with their times, and continues after it."""
        tracker = ThreadsafeRestrictionTracker(
            EndlessRestrictions().create_tracker(self.restriction)
        )
        view = RestrictionTrackerView(tracker)
        found = [
            (number, one.timestamp)
            for one in self._list.process(0, view, self.estimator)
            for batch in self._read.process(one.value)
            for number in batch.column("id").to_pylist()
        ]
        self.restriction = tracker.deferred_status()[0]
        return sorted(found)


def read_numbers(stream: StreamUnderTest) -> list[int]:
    return [number for number, _ in stream.read_bundle()]


def test_delta_stream_emits_rows_of_each_version_once(tmp_path: Path) -> None:
    append(tmp_path, 1, 2)
    append(tmp_path, 3)
    stream = StreamUnderTest(tmp_path, 1)
    assert read_numbers(stream) == [3]
    assert read_numbers(stream) == []
    append(tmp_path, 4, day=None)
    append(tmp_path, 5)
    assert read_numbers(stream) == [4, 5]
    assert stream.restriction.start == 4


def test_delta_stream_rows_have_timestamp_of_version_and_are_not_late(tmp_path: Path) -> None:
    started = Timestamp.now()
    append(tmp_path, 1)
    stream = StreamUnderTest(tmp_path, 0)
    ((_, time),) = stream.read_bundle()
    assert started - 1 <= time <= Timestamp.now()
    late = Timestamp.now() + 1000
    stream.estimator.set_watermark(late)
    append(tmp_path, 2)
    assert stream.read_bundle() == [(2, late)]


def test_delta_stream_reads_version_that_removes_rows_only_on_request(tmp_path: Path) -> None:
    append(tmp_path, 1)
    append(tmp_path, 2, mode="overwrite")
    with pytest.raises(ValueError, match="version 1 of .* removes rows"):
        StreamUnderTest(tmp_path, 1).read_bundle()
    assert read_numbers(StreamUnderTest(tmp_path, 1, ignore_removals=True)) == [2]


def test_delta_stream_does_not_emit_rows_of_compacted_files_again(tmp_path: Path) -> None:
    append(tmp_path, 1)
    append(tmp_path, 2)
    deltalake.DeltaTable(str(tmp_path)).optimize.compact()
    assert read_numbers(StreamUnderTest(tmp_path, 2)) == []


def test_delta_stream_filters_select_rows(tmp_path: Path) -> None:
    append(tmp_path, 1, 2)
    append(tmp_path, 3, day="c")
    assert read_numbers(StreamUnderTest(tmp_path, 0, filters=[("id", ">", 1)])) == [2, 3]
    assert read_numbers(StreamUnderTest(tmp_path, 0, filters=[("day", "=", "a/b %")])) == [1, 2]


def test_delta_stream_refuses_version_whose_log_entry_was_removed(tmp_path: Path) -> None:
    append(tmp_path, 1)
    append(tmp_path, 2)
    deltalake.DeltaTable(str(tmp_path)).create_checkpoint()
    (tmp_path / "_delta_log" / f"{0:020}.json").unlink()
    with pytest.raises(ValueError, match="no entry for version 0"):
        StreamUnderTest(tmp_path, 0).read_bundle()


def test_stream_is_unbounded_and_has_the_columns_of_the_table(tmp_path: Path) -> None:
    append(tmp_path, 1)
    rows = beam.Pipeline() | ReadStreamFromDelta(str(tmp_path), columns=["id"])
    assert not rows.is_bounded
    assert [name for name, _ in rows.element_type._fields] == ["id"]
