"""Hands elements from operation to operation in runs: many at once that differ only in their values.

Beam's operations take element after element, at 400 ns or more for each that it passes through. But
in bounded pipelines thousands of elements in a row have one time, one tuple of windows and one
pane. Their values go through a list then: an operation that takes runs does so for all of the list
before the next operation sees any of it.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from enum import Enum
from typing import Any, Protocol

from apache_beam.runners.worker import operations
from apache_beam.utils import windowed_value
from apache_beam.utils.windowed_value import PaneInfo, WindowedValue

MOST_VALUES = 128
"""A run is no longer: what is in it is in memory at once, and can't be given away in a split. Nor is it
longer than a piece in bytes, encoded, where those are known."""
_LONG_SECONDS = 0.004
_ONE_BY_ONE = 16
_UNCHANGEABLE = (str, bytes, int, float, complex, bool, type(None), frozenset, tuple, type, Enum)


class TakesRuns(Protocol):
    """Something that processes runs."""

    def take(self, like: WindowedValue, values: list[Any]) -> None:
        """Processes elements, in order.

        Args:
            like: has the time, windows and pane of all of them.
            values: what they hold, at least one; not to be changed.
        """


def in_each_window(element: WindowedValue, pane: PaneInfo) -> list[WindowedValue]:
    """A copy of the element, or of what a run is like, for each of its windows, in this pane."""
    value, micros, create = element.value, element.timestamp_micros, windowed_value.create
    return [create(value, micros, (window,), pane) for window in element.windows]


class Pace:
    """How long runs should be: as many values as take a few milliseconds; at first only one.

    So elements go one by one, each with all that comes of it, where they are slow, or large, or few.

    Args:
        goes_alone: whether values like this one have to.

    Attributes:
        values: how many.
    """

    __slots__ = ("_goes_alone", "_last", "_one_by_one", "values")

    def __init__(self, goes_alone: Callable[[Any], bool] | None = None) -> None:
        self.values = 1
        self._goes_alone = goes_alone or _has_finalizer
        self._one_by_one = _ONE_BY_ONE
        self._last: Any = None

    def saw(self, value: Any) -> None:
        """Looks at a value that goes by itself: it may say that all have to."""
        if _is_there_again(self._last, value) or self._goes_alone(value):
            self._one_by_one = sys.maxsize
        self._last = value

    def forget(self) -> None:
        """Keeps no value that it saw."""
        self._last = None

    def took(self, seconds: float, count: int) -> None:
        """So long it took to process a run of so many."""
        if seconds > _LONG_SECONDS:
            self.values = max(1, int(count * _LONG_SECONDS / (2 * seconds)))
        elif self._one_by_one > 0:
            self._one_by_one -= count
        elif count >= self.values:
            self.values = min(MOST_VALUES, 2 * self.values)


def _is_there_again(last: Any, result: Any) -> bool:
    """Whether an object that can be changed is, or is in, two results in a row.

    Beam forbids to change an object that was put out, but its runners let it pass: consumers have
    read it by then. Functions that do so can often be told by their first results.
    """
    if type(last) is tuple and type(result) is tuple and len(last) == len(result):
        return any(map(_is_there_again, last, result))
    return last is result and not isinstance(result, _UNCHANGEABLE)


def _has_finalizer(value: Any) -> bool:
    """Whether an object, or one in a tuple, can tell how long it is held: no longer than by Beam."""
    if type(value) is tuple:
        return any(map(_has_finalizer, value))
    return hasattr(type(value), "__del__")


def can_change(value: Any) -> bool:
    """Whether an object, or one in a tuple, may be changed after it was put out."""
    if isinstance(value, tuple):
        return any(map(can_change, value))
    return not isinstance(value, _UNCHANGEABLE)


class Collector:
    """Makes runs of elements that come one by one; see :class:`Pace` for how long they wait.

    Those of a PCollection in which each has a time of its own do not wait at all.

    Args:
        target: takes the runs.
        one: takes an element that is alone.
    """

    def __init__(self, target: TakesRuns, one: Callable[[WindowedValue], None]) -> None:
        self._target = target
        self._one = one
        self.restart()

    def restart(self) -> None:
        """Forgets what waits."""
        self._pace = Pace()
        self._like: WindowedValue | None = None
        self._values: list[Any] = []
        self._begin = 0.0
        self._alone = 0
        self._last_micros = 0

    def add(self, element: WindowedValue) -> None:
        """Takes an element; it is processed now or in a later call."""
        like = self._like
        if like is None:
            if self._alone >= _ONE_BY_ONE and element.timestamp_micros != self._last_micros:
                self._last_micros = element.timestamp_micros
                self._one(element)
                return
            self._like, self._begin = element, time.perf_counter()
        elif (
            element.windows is not like.windows
            or element.timestamp_micros != like.timestamp_micros
            or element.pane_info != like.pane_info
        ):
            self.hand_over()
            self.add(element)
            return
        self._values.append(element.value)
        if len(self._values) >= self._pace.values:
            self.hand_over()

    def hand_over(self) -> None:
        """Has everything processed that waits."""
        like, values = self._like, self._values
        if like is None:
            return
        self._like, self._values = None, []
        self._alone = self._alone + 1 if len(values) == 1 else 0
        self._last_micros = like.timestamp_micros
        if len(values) == 1:
            self._pace.saw(values[0])
            self._one(like)
        else:
            self._target.take(like, values)
        self._pace.took(time.perf_counter() - self._begin, len(values))


class StepFailed(Exception):
    """An exception of user code on its way through operations, marked with its step as Beam does.

    Attributes:
        step: the full name of the transform that failed; the cause is the exception's context.
    """

    _tagged_with_step = True

    def __init__(self, step: str) -> None:
        super().__init__(f"failed [while running '{step}']")
        self.step = step


def is_of_user_code(error: BaseException) -> bool:
    """Whether what came out of an operation is a failure of user code, and no interrupt that is meant for the process.

    Nobody but user code raises what is no ``Exception`` there: ``SystemExit``, or what asyncio is cancelled with.
    """
    return not isinstance(error, KeyboardInterrupt)


def named(error: BaseException, op: operations.Operation) -> BaseException:
    """What to raise for an exception that came out of an operation, to be raised from its handler."""
    if getattr(error, "_tagged_with_step", False) or not is_of_user_code(error):
        return error
    return StepFailed(str(op.name_context.step_name))


class RunOutput:
    """An output of an operation: counts what is put out, and hands it to the consumers in runs.

    Of each run the first element is looked at as Beam looks at every one, to estimate sizes.

    Args:
        receiver: Beam's object for the output.
        consumers: the operations that read it; they have been set up.
    """

    def __init__(
        self, receiver: operations.ConsumerSet, consumers: Sequence[operations.Operation]
    ) -> None:
        self._receiver = receiver
        self._targets = [target_of(consumer) for consumer in consumers]
        self._count = receiver.opcounter.element_counter.update

    def take(self, like: WindowedValue, values: list[Any]) -> None:
        """Hands a run to all consumers."""
        self._receiver.update_counters_start(like.with_value(values[0]))
        for target in self._targets:
            target.take(like, values)
        self._receiver.update_counters_finish()
        if len(values) > 1:
            self._count(len(values) - 1)


class _ElementOutput:
    """An output that Beam has to see element by element."""

    def __init__(self, receiver: operations.ConsumerSet) -> None:
        self._receiver = receiver

    def take(self, like: WindowedValue, values: list[Any]) -> None:
        receive, with_value = self._receiver.receive, like.with_value
        for value in values:
            receive(with_value(value))


def output_of(
    receiver: operations.ConsumerSet, consumers: Sequence[operations.Operation]
) -> TakesRuns:
    """An output of an operation, which takes runs.

    Batched DoFns get what Beam gives them, and a PCollection whose types are checked is seen whole.
    """
    batched = any(consumer.get_batching_preference().supports_batches for consumer in consumers)
    if batched or receiver.opcounter.output_type_constraints:
        return _ElementOutput(receiver)
    return RunOutput(receiver, consumers)


def target_of(op: operations.Operation) -> TakesRuns:
    """An operation that has been set up, as one that takes runs."""
    if getattr(op, "takes_runs", False):
        target: TakesRuns = op
        return target
    return _ElementTarget(op)


def runs_of(
    receiver: operations.ConsumerSet, consumers: Sequence[operations.Operation]
) -> TakesRuns | None:
    """What takes runs for the consumers of a stage's input; None if they take elements only.

    A single consumer is given them without Beam's consumer set between.
    """
    if isinstance(receiver, operations.SingletonElementConsumerSet):
        target = target_of(consumers[0])
        return None if isinstance(target, _ElementTarget) else target
    output = output_of(receiver, consumers)
    return None if isinstance(output, _ElementOutput) else output


class _ElementTarget:
    """An operation that takes element by element."""

    def __init__(self, op: operations.Operation) -> None:
        self._op = op

    def take(self, like: WindowedValue, values: list[Any]) -> None:
        # Looked up for each run: a sink gets another process for each bundle.
        process, with_value = self._op.process, like.with_value
        try:
            for value in values:
                process(with_value(value))
        except BaseException as error:
            raise named(error, self._op)  # noqa: B904 - its context is what Beam looks at, too


class PutsOutRuns(operations.Operation):
    """What an operation of Beam's has of one output that takes runs; to be named before that operation."""

    takes_runs = True

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._readers: list[operations.Operation] = []
        self._output: TakesRuns | None = None

    def add_receiver(self, operation: operations.Operation, output_index: int = 0) -> None:
        """Called while the operations are built, for each consumer."""
        super().add_receiver(operation, output_index)
        self._readers.append(operation)

    def setup(self, data_sampler: Any = None) -> None:
        """Sets the operation up, and connects the consumers."""
        super().setup(data_sampler)
        self._output = output_of(self.receivers[0], self._readers)


class RunFlatten(PutsOutRuns, operations.FlattenOperation):
    """Beam's Flatten, which takes runs, too."""

    def take(self, like: WindowedValue, values: list[Any]) -> None:
        """Hands a run on."""
        assert self._output is not None
        with self.scoped_process_state:
            self._output.take(like, values)
