"""Batches of batched DoFns as runs of elements, and runs as batches.

Beam's consumer sets make a windowed value of each element of a batch. They also hash the windowed
value of each element that becomes part of a batch. A run has one header (timestamp, windows, pane)
for all its elements, as a batch has.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from itertools import islice
from typing import Any

from apache_beam.runners import common
from apache_beam.runners.worker import operations
from apache_beam.typehints.batch import BatchConverter
from apache_beam.utils.windowed_value import (
    HomogeneousWindowedBatch,
    WindowedBatch,
    WindowedValue,
)

from beam_runner_embedded.batches import make_explode_function
from beam_runner_embedded.runs import ElementRunConsumer, ElementRunLengthController

MOST_ELEMENTS = 4096
"""Maximum number of elements that become batches together, as in Beam."""


class BatchUnpacker(common.Receiver):
    """Receiver of the batches of a DoFn, for consumers that accept runs of elements.

    Args:
        receiver: Beam's receiver, which gets single elements.
        converter: the converter of the batches.
        output: the consumer of the runs.
    """

    def __init__(
        self,
        receiver: operations.ConsumerSet,
        converter: BatchConverter,
        output: ElementRunConsumer,
    ) -> None:
        self._receiver = receiver
        self._explode = make_explode_function(converter)
        self._output = output
        self._pace = ElementRunLengthController()

    def receive(self, windowed_value: WindowedValue) -> None:
        """Passes on a single element."""
        self._receiver.receive(windowed_value)

    def receive_batch(self, windowed_batch: WindowedBatch) -> None:
        """Passes on the elements of a batch in runs."""
        like = windowed_batch.as_empty_windowed_value()
        left = iter(self._explode(windowed_batch.values))
        begin = time.perf_counter()
        while values := list(islice(left, self._pace.values)):
            self._output.process_element_run(like, values)
            end = time.perf_counter()
            self._pace.record_duration(end - begin, len(values))
            begin = end

    def flush(self) -> None:
        """Passes on the single elements that Beam's receiver stores."""
        self._receiver.flush()


class ElementRunBatcher:
    """Collector of runs of elements into batches, for a DoFn that accepts only batches.

    The batches have the same elements as those of Beam's consumer set. The last batches of a bundle
    are processed when the bundle ends.

    Args:
        converter: the converter of the batches.
        process_batch: receives each batch.
    """

    def __init__(
        self, converter: BatchConverter, process_batch: Callable[[WindowedBatch], None]
    ) -> None:
        self._converter = converter
        self._process_batch = process_batch
        self.reset()

    def reset(self) -> None:
        """Drops the collected elements."""
        self._waiting: dict[WindowedValue, list[Any]] = {}
        self._room = MOST_ELEMENTS
        self._like: WindowedValue | None = None
        self._values: list[Any] = []

    def process_element_run(self, like: WindowedValue, values: list[Any]) -> None:
        """Adds the elements of a run, which are processed in this call or in a later call."""
        while values:
            self._select_elements_with_header(like)
            added, values = values[: self._room], values[self._room :]
            self._values += added
            self._room -= len(added)
            if not self._room:
                self.flush_batches()

    def flush_batches(self) -> None:
        """Processes all collected elements, in one batch for each header."""
        waiting = self._waiting
        self.reset()
        for header, values in waiting.items():
            batch = header.with_value(self._converter.produce_batch(values))
            self._process_batch(HomogeneousWindowedBatch(batch))

    def _select_elements_with_header(self, like: WindowedValue) -> None:
        """Selects the elements with the header of a run. Consecutive runs mostly have the same header."""
        last = self._like
        if (
            last is None
            or like.timestamp_micros != last.timestamp_micros
            or like.windows != last.windows
            or like.pane_info != last.pane_info
        ):
            self._like = header = like.with_value(None)
            self._values = self._waiting.setdefault(header, [])
