"""Checks of timestamps: an element must not be earlier than the minimum timestamp that its data
declares, and a pane must not be behind the output watermark.

The checks are off by default; `beam_runner_driver.coordination.watermark_checks` describes how to enable
them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
from beam_runner_data.rows.columns import list_row_windows
from beam_runner_data.rows.outputs import RowConverter
from beam_runner_engine.keyed.groups import WindowPanes
from beam_runner_engine.scheduler.data import Data
from beam_runner_model.chunks import ElementChunk, OutputChunk
from beam_runner_model.panes import PaneTiming
from beam_runner_model.strategy import ClosingBehavior, WindowingStrategy
from beam_runner_model.times import Timestamp
from beam_runner_model.window_coders import SKIP_WINDOW, WindowCoder
from beam_runner_model.windowed_values import (
    TIME_BYTES,
    compute_hold_time,
    read_event_time,
    read_windows,
)


class TimestampOrderError(Exception):
    """Raised if an element or a pane is earlier than the runner declared, which is a defect of the runner."""


class TimestampCheckingPort:
    """Output port that checks the timestamp of each element against the minimum timestamp that its
    chunk declares, if any.
    """

    def __init__(self, port: RowConverter, coder: WindowCoder, name: str) -> None:
        self._port = port
        self._skip = SKIP_WINDOW[coder]
        self._name = name

    def write(self, chunk: OutputChunk) -> None:
        """Checks and writes a chunk.

        Raises:
            TimestampOrderError: The chunk contains an element that is earlier than the declared timestamp.
        """
        if isinstance(chunk, ElementChunk) and chunk.min_timestamp is not None:
            assert chunk.ends is not None
            for time in self._check_timestamps(bytes(chunk.data), chunk.ends):
                if time < chunk.min_timestamp:
                    raise TimestampOrderError(
                        f"an element of {self._name!r} holds watermarks at {time} ms, and its data"
                        f" says {chunk.min_timestamp} ms"
                    )
        self._port.write(chunk)

    def _check_timestamps(self, data: bytes, ends: Sequence[int]) -> Iterator[Timestamp]:
        begin = 0
        for end in ends:
            element, begin = data[begin:end], end
            windows, _ = read_windows(element, TIME_BYTES, self._skip)
            yield (
                compute_hold_time(read_event_time(element), windows)
                if windows
                else read_event_time(element)
            )


def check_row_timestamps(batch: pa.RecordBatch, data: Data, stage: str) -> None:
    """Checks the timestamp of each row of keyed data that a stage reads.

    Raises:
        TimestampOrderError: A row is earlier than the data declares.
    """
    if "timestamp" not in batch.schema.names:
        return
    times = batch.column("timestamp").to_pylist()
    for time, window in zip(times, list_row_windows(batch), strict=True):
        if compute_hold_time(time, (window,)) < data.facts.min_timestamp:
            raise TimestampOrderError(
                f"{stage!r} reads an element that holds watermarks at"
                f" {compute_hold_time(time, (window,))} ms, but its data declares"
                f" {data.facts.min_timestamp} ms"
            )


def check_pane_timestamps(
    groups: WindowPanes, output_watermark: Timestamp, strategy: WindowingStrategy, stage: str
) -> None:
    """Checks the timestamp of each pane that fires in a stage.

    A pane that isn't late holds the watermark until the pane fires. The exception is the final pane
    of a window that always emits a pane when it closes.

    Raises:
        TimestampOrderError: A pane that is not late is before the stage's output watermark.
    """
    closing = strategy.closing_behavior is ClosingBehavior.EMIT_ALWAYS
    for time, pane in zip(groups.timestamps, groups.panes, strict=True):
        is_behind = time < output_watermark and pane.timing is not PaneTiming.LATE
        if is_behind and not (closing and pane.is_last):
            raise TimestampOrderError(
                f"{stage!r} emits a pane with the timing {pane.timing.value} at {time} ms, which "
                "is before"
                f" its output watermark of {output_watermark} ms"
            )
