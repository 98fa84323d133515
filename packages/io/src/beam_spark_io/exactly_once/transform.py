"""`WriteExactlyOnce`, which writes each element exactly once into an external system (sink).

The transform is plain Beam: batches of elements, optionally one firing per time interval, and a stateful
step with stable input that commits. It runs on each runner with stable input. Other runners refuse it by
the requirement ``beam:requirement:pardo:stable_input:v1``.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any

import apache_beam as beam
from apache_beam.pvalue import AsSingleton, PCollection
from apache_beam.transforms.trigger import AfterProcessingTime, DefaultTrigger, Repeatedly
from apache_beam.transforms.window import BoundedWindow, GlobalWindows

from beam_spark_io.exactly_once.batches import BatchElements, BatchGroup
from beam_spark_io.exactly_once.committing import CommitBatches, CommitResult
from beam_spark_io.exactly_once.protocols import CompletingSink, ExactlyOnceSink, WritingSink
from beam_spark_io.exactly_once.stable_input import StableInputParDo
from beam_spark_io.exactly_once.windows import (
    CompleteWindows,
    SplitGroups,
    TriggeredParDo,
    WindowResult,
    key_by_window,
)

_MOST = 10_000
_PATIENCE = 300.0


class WriteExactlyOnce(beam.PTransform):
    """Transform that writes each element once, and emits a `CommitResult` after each commit.

    Commits aren't undone if the job fails or is cancelled later. So the sink contains the earlier
    commits of a failed job. In a bounded pipeline with `every`, each shard has one commit at the
    end.

    Args:
        sink: the sink; Beam pickles it.
        every: whole seconds between two commits of a shard, as Beam's triggers count them; None commits
            each batch when it arrives.
        most: maximum number of elements in a batch. A batch also ends at 8 MiB.
        patience: maximum seconds for which a step of a bounded pipeline waits for an unavailable sink.
            A stream waits without a limit.
        max_bytes: maximum bytes of the pickled elements of a commit with `every` or `name_window`; None
            sets no limit. A batch isn't divided.
        name_window: function that names a window, with another name for each window. Each commit then
            has elements of one window, and `every` None commits at the end of the window. None ignores
            windows.

    Raises:
        ValueError: An argument is out of range.
    """

    def __init__(
        self,
        sink: ExactlyOnceSink[Any],
        every: int | None = None,
        most: int = _MOST,
        patience: float = _PATIENCE,
        max_bytes: int | None = None,
        name_window: Callable[[BoundedWindow], str] | None = None,
    ) -> None:
        super().__init__()
        for name, value in (("every", every), ("most", most), ("max_bytes", max_bytes)):
            if value is not None and (not isinstance(value, int) or value <= 0):
                raise ValueError(f"{name} is {value!r}; expected a positive whole number")
        if patience < 0:
            raise ValueError(f"patience is {patience!r}; expected at least 0 seconds")
        if sink.shards < 1:
            raise ValueError(f"{type(sink).__name__} has {sink.shards} shards; expected at least 1")
        self._sink = sink
        self._every = every
        self._most = most
        self._patience = patience
        self._max_bytes = max_bytes
        self._name_window = name_window

    def expand(self, elements: PCollection[Any]) -> PCollection[CommitResult | WindowResult]:
        """Returns the results of the commits, and of the windows of a `CompletingSink`, in the global window.

        Raises:
            ValueError: The commits are by window, and the windows of the elements merge.
        """
        # A bundle makes the name of the run, so each run of a pipeline has another name, and all
        # attempts have the same one.
        run = AsSingleton(
            elements.pipeline | "Impulse" >> beam.Impulse() | "Run" >> beam.Map(_make_run)
        )
        patience = self._patience if elements.is_bounded else None
        batches = self._batch_elements(elements, run, patience)
        commit = StableInputParDo(CommitBatches(self._sink, patience), run)
        results: PCollection[Any] = batches | "Commit" >> commit
        if not isinstance(self._sink, CompletingSink):
            return results
        completed = (
            results
            | "Key" >> beam.Map(key_by_window).with_output_types(tuple[str, int])
            | "Complete" >> beam.ParDo(CompleteWindows(self._sink, patience))
        )
        return (results, completed) | "Results" >> beam.Flatten()

    def _batch_elements(
        self, elements: PCollection[Any], run: AsSingleton, patience: float | None
    ) -> PCollection[Any]:
        """Returns the batches of each commit, keyed by shard, in the global window."""
        if self._name_window is None:
            elements = elements | "Global" >> beam.WindowInto(GlobalWindows())
        windowing = elements.windowing
        if windowing.windowfn.is_merging():
            raise ValueError(
                f"Can't commit by {type(windowing.windowfn).__name__}, because these windows merge:"
                " use windows with fixed bounds, or ignore windows"
            )
        # A bounded pipeline commits at its end, however long it runs.
        every = None if elements.is_bounded else self._every
        trigger = DefaultTrigger() if every is None else Repeatedly(AfterProcessingTime(every))
        fn = BatchElements(self._sink, self._most, patience)
        # Only writers need the run. Without a side input, the step fuses with a stateful step before it.
        name = run if isinstance(self._sink, WritingSink) else ""
        batch = TriggeredParDo(fn, trigger, name).with_output_types(tuple[int, bytes])
        batches = elements | "Batch" >> batch
        if self._every is None and self._name_window is None:
            return batches
        batches = batches | "Collect" >> beam.GroupByKey()
        if self._max_bytes is None and self._name_window is None:
            return batches
        lateness = windowing.allowed_lateness.micros / 1e6
        split = SplitGroups(self._name_window, lateness, self._max_bytes)
        return (
            batches
            | "Split" >> beam.ParDo(split).with_output_types(tuple[int, BatchGroup])
            | "Every window" >> beam.WindowInto(GlobalWindows())
        )


def _make_run(_: bytes) -> str:
    return uuid.uuid4().hex
