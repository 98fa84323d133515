"""Batches of elements: the first step of `WriteExactlyOnce`."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from functools import partial
from typing import Any

import apache_beam as beam
import attrs
from apache_beam.transforms.window import BoundedWindow
from apache_beam.utils.timestamp import MAX_TIMESTAMP, Timestamp
from apache_beam.utils.windowed_value import WindowedValue

from beam_spark_io.exactly_once.patience import wait_for_sink
from beam_spark_io.exactly_once.protocols import (
    CommitWindow,
    ExactlyOnceSink,
    SinkUnavailable,
    WritingSink,
)

_BATCH_BYTES = 8 << 20
_OVERHEAD = 64


@attrs.frozen
class BatchGroup:
    """Batches that one commit writes together.

    Attributes:
        window: their window; None if the commits ignore windows.
    """

    batches: tuple[bytes, ...]
    window: CommitWindow | None = None


class BatchElements(beam.DoFn):
    """DoFn that groups the elements of a bundle by shard and window, and emits pairs of a shard and
    a pickled list.

    A batch has the earliest timestamp of its window's elements in the bundle, so that the batch holds
    the watermark like each of its elements.

    Args:
        most: maximum number of elements in a batch.
        patience: maximum seconds of one wait for an unavailable sink; None waits without a limit.
    """

    _patience: float | None = None
    """Default patience, for pipelines that earlier versions pickled."""

    def __init__(
        self, sink: ExactlyOnceSink[Any], most: int, patience: float | None = None
    ) -> None:
        self._sink = sink
        self._most = most
        self._patience = patience

    def start_bundle(self) -> None:
        """Starts a bundle without batches."""
        self._windows: dict[BoundedWindow, _WindowBatches] = {}
        self._last: tuple[BoundedWindow, _WindowBatches] | None = None

    def process(
        self,
        element: Any,
        run: str,
        timestamp: Timestamp = beam.DoFn.TimestampParam,
        window: BoundedWindow = beam.DoFn.WindowParam,
    ) -> Iterator[WindowedValue]:
        """Adds an element to the batch of its shard, or passes the element to the sink's writer.
        Yields full batches.
        """
        # Most elements share the window object of the previous element.
        if self._last is None or self._last[0] is not window:
            self._last = window, self._find_window(window, run)
        batches = self._last[1]
        if timestamp < batches.earliest:
            batches.earliest = timestamp
        if batches.writer is None:
            yield from self._add_element(batches, element)
            return
        try:
            batches.writer.write(element)
        except SinkUnavailable:
            wait_for_sink(partial(batches.writer.write, element), "a writer", self._patience)

    def finish_bundle(self) -> Iterator[WindowedValue]:
        """Yields the remaining batches."""
        for batches in self._windows.values():
            if batches.writer is not None:
                for element in wait_for_sink(batches.writer.close, "a writer", self._patience):
                    yield from self._add_element(batches, element)
            for shard in list(batches.elements):
                yield batches.take_batch(shard)

    def _find_window(self, window: BoundedWindow, run: str) -> _WindowBatches:
        found = self._windows.get(window)
        if found is None:
            writer = None
            if isinstance(self._sink, WritingSink):
                create = partial(self._sink.create_writer, run)
                writer = wait_for_sink(create, "a writer", self._patience)
            found = self._windows[window] = _WindowBatches(window, writer)
        return found

    def _add_element(self, batches: _WindowBatches, element: Any) -> Iterator[WindowedValue]:
        shard = self._sink.select_shard(element)
        if not 0 <= shard < self._sink.shards:
            raise ValueError(
                f"{type(self._sink).__name__}.select_shard returned {shard!r}; expected a number "
                "from"
                f" 0 to {self._sink.shards - 1}"
            )
        batch = batches.elements.setdefault(shard, [])
        batch.append(pickle.dumps(element, pickle.HIGHEST_PROTOCOL))
        size = batches.sizes[shard] = batches.sizes.get(shard, 0) + len(batch[-1]) + _OVERHEAD
        if len(batch) >= self._most or size >= _BATCH_BYTES:
            yield batches.take_batch(shard)


@attrs.define
class _WindowBatches:
    """Unfinished batches of one window in a bundle.

    Attributes:
        writer: the sink's writer; None if the elements themselves go into batches.
        earliest: the earliest timestamp of the window's elements in the bundle.
        elements: the pickled elements of the batch of each shard.
        sizes: the size of each batch in bytes.
    """

    window: BoundedWindow
    writer: Any
    earliest: Timestamp = MAX_TIMESTAMP
    elements: dict[int, list[bytes]] = attrs.field(factory=dict)
    sizes: dict[int, int] = attrs.field(factory=dict)

    def take_batch(self, shard: int) -> WindowedValue:
        """Removes and returns the batch of a shard, with the window and the timestamp of the batch."""
        self.sizes.pop(shard, None)
        batch = pickle.dumps(self.elements.pop(shard), pickle.HIGHEST_PROTOCOL)
        return WindowedValue((shard, batch), self.earliest, (self.window,))


def decode_batch(batch: bytes) -> list[Any]:
    """Returns the elements of a batch, in the order of the bundle."""
    return [pickle.loads(element) for element in pickle.loads(batch)]
