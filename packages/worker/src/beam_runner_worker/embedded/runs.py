"""Runs of elements: many elements that differ only in their values pass from operation to operation
together.

Beam's operations pass one element at a time, at 400 ns or more for each operation. But in bounded
pipelines thousands of consecutive elements have the same timestamp, windows and pane. Their values
go through a list: an operation that takes runs processes the whole list before the next operation
sees any of it.
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
"""The maximum length of a run. A whole run is in memory at once, and a split can't divide it. If
encoded sizes are known, a run is also limited to the size of a piece in bytes.
"""
_LONG_SECONDS = 0.004
_ONE_BY_ONE = 16
_UNCHANGEABLE = (str, bytes, int, float, complex, bool, type(None), frozenset, tuple, type, Enum)


class RunConsumer(Protocol):
    """An object that processes runs."""

    def process_run(self, like: WindowedValue, values: list[Any]) -> None:
        """Processes elements, in order.

        Args:
            like: a windowed value with the timestamp, windows and pane of all elements.
            values: the values of the elements, at least one; must not be changed.
        """


def copy_to_windows(element: WindowedValue, pane: PaneInfo) -> list[WindowedValue]:
    """Yields a copy of the element, or of a run's header, for each of its windows, in this pane."""
    value, micros, create = element.value, element.timestamp_micros, windowed_value.create
    return [create(value, micros, (window,), pane) for window in element.windows]


class RunLengthController:
    """Controller of the run length: as many values as take a few milliseconds, at first only one.

    So elements pass one by one, each with all its results, if they are slow, large or few.

    Args:
        goes_alone: returns whether values like this one must pass one by one.

    Attributes:
        values: the current run length.
    """

    __slots__ = ("_goes_alone", "_last", "_one_by_one", "values")

    def __init__(self, goes_alone: Callable[[Any], bool] | None = None) -> None:
        self.values = 1
        self._goes_alone = goes_alone or _has_finalizer
        self._one_by_one = _ONE_BY_ONE
        self._last: Any = None

    def check_value(self, value: Any) -> None:
        """Checks a single value, which may show that all values must pass one by one."""
        if _is_repeated_mutable(self._last, value) or self._goes_alone(value):
            self._one_by_one = sys.maxsize
        self._last = value

    def release_values(self) -> None:
        """Releases the values that it has seen."""
        self._last = None

    def record_duration(self, seconds: float, count: int) -> None:
        """Records how long a run of ``count`` elements took."""
        if seconds > _LONG_SECONDS:
            self.values = max(1, int(count * _LONG_SECONDS / (2 * seconds)))
        elif self._one_by_one > 0:
            self._one_by_one -= count
        elif count >= self.values:
            self.values = min(MOST_VALUES, 2 * self.values)


def _is_repeated_mutable(last: Any, result: Any) -> bool:
    """Returns whether a mutable object is, or is in, two consecutive results.

    Beam forbids changes of an object after it was emitted, but its runners tolerate them, because
    consumers have read it by then. The first results of a function often show that it does so.
    """
    if type(last) is tuple and type(result) is tuple and len(last) == len(result):
        return any(map(_is_repeated_mutable, last, result))
    return last is result and not isinstance(result, _UNCHANGEABLE)


def _has_finalizer(value: Any) -> bool:
    """Returns whether an object, or one in a tuple, has a finalizer, so that it must not be held
    longer than by Beam.
    """
    if type(value) is tuple:
        return any(map(_has_finalizer, value))
    return hasattr(type(value), "__del__")


def is_mutable_value(value: Any) -> bool:
    """Returns whether an object, or one in a tuple, may change after it was emitted."""
    if isinstance(value, tuple):
        return any(map(is_mutable_value, value))
    return not isinstance(value, _UNCHANGEABLE)


class RunCollector:
    """Collector of single elements into runs; see :class:`RunLengthController` for how long they wait.

    Elements of a PCollection with different timestamps don't wait.

    Args:
        target: receives the runs.
        one: receives a single element.
    """

    def __init__(self, target: RunConsumer, one: Callable[[WindowedValue], None]) -> None:
        self._target = target
        self._one = one
        self.reset()

    def reset(self) -> None:
        """Drops the waiting elements."""
        self._pace = RunLengthController()
        self._like: WindowedValue | None = None
        self._values: list[Any] = []
        self._begin = 0.0
        self._alone = 0
        self._last_micros = 0

    def add_element(self, element: WindowedValue) -> None:
        """Adds an element; it is processed now or in a later call."""
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
            self.flush_elements()
            self.add_element(element)
            return
        self._values.append(element.value)
        if len(self._values) >= self._pace.values:
            self.flush_elements()

    def flush_elements(self) -> None:
        """Processes all waiting elements."""
        like, values = self._like, self._values
        if like is None:
            return
        self._like, self._values = None, []
        self._alone = self._alone + 1 if len(values) == 1 else 0
        self._last_micros = like.timestamp_micros
        if len(values) == 1:
            self._pace.check_value(values[0])
            self._one(like)
        else:
            self._target.process_run(like, values)
        self._pace.record_duration(time.perf_counter() - self._begin, len(values))


class StepError(Exception):
    """An exception of user code on its way through operations, with the name of its step as in Beam.

    Attributes:
        step: the full name of the failed transform. The cause is the exception's context.
    """

    _tagged_with_step = True

    def __init__(self, step: str) -> None:
        super().__init__(f"failed [while running '{step}']")
        self.step = step


def is_user_code_error(error: BaseException) -> bool:
    """Returns whether an error of an operation is a failure of user code, and not an interrupt for the
    process.

    Only user code raises errors that are not an ``Exception`` there: ``SystemExit``, or asyncio's
    cancellation.
    """
    return not isinstance(error, KeyboardInterrupt)


def add_step_name(error: BaseException, op: operations.Operation) -> BaseException:
    """Returns the exception to raise for an error of an operation; call it in the error's handler."""
    if getattr(error, "_tagged_with_step", False) or not is_user_code_error(error):
        return error
    return StepError(str(op.name_context.step_name))


class RunOutput:
    """An output of an operation, which counts elements and passes them to the consumers in runs.

    The first element of each run is sampled for size estimates, as Beam samples every element.

    Args:
        receiver: Beam's object for the output.
        consumers: the operations that read it, after their set-up.
    """

    def __init__(
        self, receiver: operations.ConsumerSet, consumers: Sequence[operations.Operation]
    ) -> None:
        self._receiver = receiver
        self._targets = [create_run_target(consumer) for consumer in consumers]
        self._count = receiver.opcounter.element_counter.update

    def process_run(self, like: WindowedValue, values: list[Any]) -> None:
        """Passes a run to all consumers."""
        self._receiver.update_counters_start(like.with_value(values[0]))
        for target in self._targets:
            target.process_run(like, values)
        self._receiver.update_counters_finish()
        if len(values) > 1:
            self._count(len(values) - 1)


class _ElementOutput:
    """An output whose elements must pass through Beam's code one by one."""

    def __init__(self, receiver: operations.ConsumerSet) -> None:
        self._receiver = receiver

    def process_run(self, like: WindowedValue, values: list[Any]) -> None:
        receive, with_value = self._receiver.receive, like.with_value
        for value in values:
            receive(with_value(value))


def create_run_output(
    receiver: operations.ConsumerSet, consumers: Sequence[operations.Operation]
) -> RunConsumer:
    """Returns an output of an operation that takes runs.

    Batched DoFns get Beam's batches, and a PCollection with type checks passes through Beam's code.
    """
    batched = any(consumer.get_batching_preference().supports_batches for consumer in consumers)
    if batched or receiver.opcounter.output_type_constraints:
        return _ElementOutput(receiver)
    return RunOutput(receiver, consumers)


def create_run_target(op: operations.Operation) -> RunConsumer:
    """Returns an operation, after its set-up, as an object that takes runs."""
    if getattr(op, "takes_runs", False):
        target: RunConsumer = op
        return target
    return _ElementTarget(op)


def create_input_target(
    receiver: operations.ConsumerSet, consumers: Sequence[operations.Operation]
) -> RunConsumer | None:
    """Returns the target of runs for the consumers of a stage's input; None if they take only single
    elements.

    A single consumer gets the runs without Beam's consumer set between.
    """
    if isinstance(receiver, operations.SingletonElementConsumerSet):
        target = create_run_target(consumers[0])
        return None if isinstance(target, _ElementTarget) else target
    output = create_run_output(receiver, consumers)
    return None if isinstance(output, _ElementOutput) else output


class _ElementTarget:
    """An operation that takes single elements."""

    def __init__(self, op: operations.Operation) -> None:
        self._op = op

    def process_run(self, like: WindowedValue, values: list[Any]) -> None:
        # Look the method up for each run, because a sink gets another ``process`` for each bundle.
        process, with_value = self._op.process, like.with_value
        try:
            for value in values:
                process(with_value(value))
        except BaseException as error:
            raise add_step_name(error, self._op)  # noqa: B904 - its context is what Beam looks at, too


class RunOutputMixin(operations.Operation):
    """Mixin for one of Beam's operations with one output that takes runs; put it before the operation's class."""

    takes_runs = True

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._readers: list[operations.Operation] = []
        self._output: RunConsumer | None = None

    def add_receiver(self, operation: operations.Operation, output_index: int = 0) -> None:
        """Called for each consumer while the operations are built."""
        super().add_receiver(operation, output_index)
        self._readers.append(operation)

    def setup(self, data_sampler: Any = None) -> None:
        """Sets the operation up, and connects the consumers."""
        super().setup(data_sampler)
        self._output = create_run_output(self.receivers[0], self._readers)


class RunFlatten(RunOutputMixin, operations.FlattenOperation):
    """Beam's Flatten, which also takes runs."""

    def process_run(self, like: WindowedValue, values: list[Any]) -> None:
        """Passes a run on."""
        assert self._output is not None
        with self.scoped_process_state:
            self._output.process_run(like, values)
