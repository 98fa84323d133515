"""Separate commits for each window, and the step that completes a window after the window's last
commit.

Commits of a shard run one after the other in the global window, so a group of batches contains its
window as data. Uncommitted elements hold the watermark. So an event-time timer at the expiry of a
window fires after all commits of the window.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import apache_beam as beam
import attrs
from apache_beam.transforms.core import Windowing
from apache_beam.transforms.timeutil import TimeDomain
from apache_beam.transforms.trigger import AccumulationMode, TriggerFn
from apache_beam.transforms.userstate import TimerSpec, on_timer
from apache_beam.transforms.window import BoundedWindow, GlobalWindow
from apache_beam.utils.timestamp import Duration, Timestamp

from beam_spark_io.exactly_once.batches import BatchGroup
from beam_spark_io.exactly_once.committing import CommitResult
from beam_spark_io.exactly_once.patience import wait_for_sink
from beam_spark_io.exactly_once.protocols import CommitWindow, CompletingSink

_LAST_TIME = int(GlobalWindow().max_timestamp().micros)


@attrs.frozen
class WindowResult:
    """Result that `WriteExactlyOnce` emits after the last commit of a window.

    Attributes:
        run: the write of the job.
        window: name of the window; None for all elements of a pipeline whose commits ignore windows.
        result: the value that the sink returned.
    """

    run: str
    window: str | None
    result: Any


class TriggeredParDo(beam.ParDo):
    """ParDo that changes the trigger of its output, and keeps the windows.

    Beam's `WindowInto` assigns windows again, by the timestamps of batches.

    Args:
        trigger: trigger of groups of the output.
        sides: side inputs of the DoFn.
    """

    def __init__(self, fn: beam.DoFn, trigger: TriggerFn, *sides: Any) -> None:
        super().__init__(fn, *sides)
        self._trigger = trigger

    def get_windowing(self, inputs: Any) -> Windowing:
        """Returns the windows of the input with the trigger. Each pane has the batches since the last one."""
        windowing = inputs[0].windowing
        return Windowing(
            windowing.windowfn,
            self._trigger,
            AccumulationMode.DISCARDING,
            allowed_lateness=windowing.allowed_lateness,
        )


class SplitGroups(beam.DoFn):
    """DoFn that splits the batches of a shard and window into groups, each for one commit.

    Args:
        name_window: function that names a window; None ignores windows.
        lateness: seconds for which the input allows late elements.
        max_bytes: maximum bytes of the batches of a group, unless a single batch is larger.
    """

    def __init__(
        self,
        name_window: Callable[[BoundedWindow], str] | None,
        lateness: float,
        max_bytes: int | None,
    ) -> None:
        self._name_window = name_window
        self._lateness = lateness
        self._max_bytes = max_bytes

    def process(
        self,
        element: tuple[int, Iterable[bytes]],
        window: BoundedWindow = beam.DoFn.WindowParam,
    ) -> Iterator[tuple[int, BatchGroup]]:
        """Yields the groups of a shard and window."""
        shard, batches = element
        place = self._describe_window(window)
        group: list[bytes] = []
        size = 0
        for batch in batches:
            if group and self._max_bytes is not None and size + len(batch) > self._max_bytes:
                yield shard, BatchGroup(tuple(group), place)
                group, size = [], 0
            group.append(batch)
            size += len(batch)
        if group:
            yield shard, BatchGroup(tuple(group), place)

    def _describe_window(self, window: BoundedWindow) -> CommitWindow | None:
        if self._name_window is None:
            return None
        expiry = window.end + Duration.of(self._lateness)
        return CommitWindow(self._name_window(window), min(int(expiry.micros), _LAST_TIME))


def key_by_window(result: CommitResult) -> tuple[str, int]:
    """Returns a key that identifies the run and the window of a commit, and the expiry of the
    window.

    Without windows, the key is the run, and the expiry is the end of time.
    """
    if result.window is None:
        return result.run, _LAST_TIME
    return f"{result.run}/{result.window.name}", result.window.expiry


class CompleteWindows(beam.DoFn):
    """DoFn that calls the sink's `complete_window` after all commits of a window.

    Args:
        patience: maximum seconds for which a completion waits for an unavailable sink; None waits
            without a limit.
    """

    EXPIRY = TimerSpec("expiry", TimeDomain.WATERMARK)

    def __init__(self, sink: CompletingSink, patience: float | None) -> None:
        self._sink = sink
        self._patience = patience

    def process(
        self,
        element: tuple[str, int],
        timer: Any = beam.DoFn.TimerParam(EXPIRY),  # noqa: B008 - Beam reads the default
    ) -> None:
        """Sets the timer of a window."""
        timer.set(Timestamp(micros=element[1]))

    @on_timer(EXPIRY)
    def complete_window(self, key: str = beam.DoFn.KeyParam) -> Iterator[WindowResult]:
        """Completes a window.

        Raises:
            SinkUnavailable: The sink was unavailable for longer than the patience.
        """
        run, by_window, name = key.partition("/")
        window = name if by_window else None
        work = f"the end of window {name}" if by_window else f"the end of run {run}"
        result = wait_for_sink(
            lambda: self._sink.complete_window(run, window), work, self._patience
        )
        if result is not None:
            yield WindowResult(run, window, result)
