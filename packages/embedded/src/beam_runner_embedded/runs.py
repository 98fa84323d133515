"""Runs of elements: lists of elements that differ only in their values, which operations process
together.

Beam's operations pass one element at a time, at 400 ns or more for each operation. But in bounded
pipelines thousands of consecutive elements have the same timestamp, windows and pane. An operation
that accepts runs of elements processes the list of their values completely, before the next operation gets the
results.
"""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Callable, Sequence
from enum import Enum
from typing import Any, Protocol

from apache_beam.runners.worker import operations
from apache_beam.utils import windowed_value
from apache_beam.utils.windowed_value import PaneInfo, WindowedValue

MOST_VALUES = 128
"""Maximum number of elements in a run. A complete run is in memory, and a split can't divide it. If
encoded sizes are known, the size of a run in bytes is also limited, to `PIECE_BYTES`.
"""
_LONG_SECONDS = 0.004
_ONE_BY_ONE = 16
_UNCHANGEABLE = (str, bytes, int, float, complex, bool, type(None), frozenset, tuple, type, Enum)


class ElementRunConsumer(Protocol):
    """Consumer of runs, which are lists of elements that differ only in their values."""

    def process_element_run(self, like: WindowedValue, values: list[Any]) -> None:
        """Processes a run of elements (elements that differ only in their values) in order.

        Args:
            like: a windowed value with the timestamp, windows and pane of all elements.
            values: the values of the elements, at least one; must not be changed.
        """


def copy_to_windows(element: WindowedValue, pane: PaneInfo) -> list[WindowedValue]:
    """Returns a copy of an element, or of the header of a run, for each of its windows, with the given pane."""
    value, micros, create = element.value, element.timestamp_micros, windowed_value.create
    return [create(value, micros, (window,), pane) for window in element.windows]


class ElementRunLengthController:
    """Controller of the number of elements that operations process together. The number starts at 1
    and grows while their processing takes less than 4 ms.

    Elements that are slow, large or few pass one by one, each with all its results.

    Args:
        goes_alone: function that returns True for a value that the operation must process
            immediately, without waiting for further values.

    Attributes:
        values: the current run length.
    """

    __slots__ = ("_goes_alone", "_last", "_one_by_one", "values")

    def __init__(self, goes_alone: Callable[[Any], bool] | None = None) -> None:
        self.values = 1
        self._goes_alone = goes_alone or _has_finalizer
        self._one_by_one = _ONE_BY_ONE
        self._last: Any = None

    def check_returned_value(self, value: Any) -> None:
        """Checks a single value. If the value must not wait for others, all later values pass one by one."""
        if _is_repeated_mutable(self._last, value) or self._goes_alone(value):
            self._one_by_one = sys.maxsize
        self._last = value

    def release_values(self) -> None:
        """Releases the reference to the last checked value."""
        self._last = None

    def record_duration(self, seconds: float, count: int) -> None:
        """Records the duration of a run of ``count`` elements, and adjusts the run length."""
        if seconds > _LONG_SECONDS:
            self.values = max(1, int(count * _LONG_SECONDS / (2 * seconds)))
        elif self._one_by_one > 0:
            self._one_by_one -= count
        elif count >= self.values:
            self.values = min(MOST_VALUES, 2 * self.values)


def _is_repeated_mutable(last: Any, result: Any) -> bool:
    """Returns True if two consecutive results are, or contain, the same mutable object.

    Beam forbids changes of an object after its emission. But Beam's runners tolerate them, because
    consumers have already processed the object. The first results of a function often show that the
    function changes emitted objects.
    """
    if type(last) is tuple and type(result) is tuple and len(last) == len(result):
        return any(map(_is_repeated_mutable, last, result))
    return last is result and not isinstance(result, _UNCHANGEABLE)


def _has_finalizer(value: Any) -> bool:
    """Returns True if an object, or an object in a tuple, has a finalizer. Such an object must be
    released as early as in Beam.
    """
    if type(value) is tuple:
        return any(map(_has_finalizer, value))
    return hasattr(type(value), "__del__")


def is_mutable_value(value: Any) -> bool:
    """Returns True if an object, or an object in a tuple, is mutable, so that it may change after its emission."""
    if isinstance(value, tuple):
        return any(map(is_mutable_value, value))
    return not isinstance(value, _UNCHANGEABLE)


class ElementRunCollector:
    """Collector of single elements into runs (lists of elements that differ only in their values),
    whose length a :class:`ElementRunLengthController` determines.

    If the elements of a PCollection have different timestamps, the collector passes them on
    immediately.

    Args:
        target: the consumer of the runs.
        one: receives a single element.
    """

    def __init__(self, target: ElementRunConsumer, one: Callable[[WindowedValue], None]) -> None:
        self._target = target
        self._one = one
        self.reset()

    def reset(self) -> None:
        """Drops the collected elements, and starts with a run length of 1."""
        self._pace = ElementRunLengthController()
        self._like: WindowedValue | None = None
        self._values: list[Any] = []
        self._begin = 0.0
        self._alone = 0
        self._last_micros = 0

    def add_element(self, element: WindowedValue) -> None:
        """Adds an element, which is processed in this call or in a later call."""
        like = self._like
        if like is None:
            if self._alone >= _ONE_BY_ONE and element.timestamp_micros != self._last_micros:
                self._last_micros = element.timestamp_micros
                self._one(element)
                return
            self._like, self._begin = element, time.perf_counter()
        elif (
            element.timestamp_micros != like.timestamp_micros
            # Beam creates a new list of windows for each element with an explicit timestamp.
            or (element.windows is not like.windows and element.windows != like.windows)
            or element.pane_info != like.pane_info
        ):
            self.flush_elements()
            self.add_element(element)
            return
        self._values.append(element.value)
        if len(self._values) >= self._pace.values:
            self.flush_elements()

    def flush_elements(self) -> None:
        """Processes all collected elements."""
        like, values = self._like, self._values
        if like is None:
            return
        self._like, self._values = None, []
        self._alone = self._alone + 1 if len(values) == 1 else 0
        self._last_micros = like.timestamp_micros
        if len(values) == 1:
            self._pace.check_returned_value(values[0])
            self._one(like)
        else:
            self._target.process_element_run(like, values)
        self._pace.record_duration(time.perf_counter() - self._begin, len(values))


class StepError(Exception):
    """Wrapper of an exception of user code, with the name of the failed step. Beam's operations
    recognize it by ``_tagged_with_step``.

    Attributes:
        step: full name of the failed transform. The original exception is the context of this
            exception.
    """

    _tagged_with_step = True

    def __init__(self, step: str) -> None:
        super().__init__(f"failed [while running '{step}']")
        self.step = step


def is_user_code_error(error: BaseException) -> bool:
    """Returns True if an exception from an operation is a failure of user code.

    In an operation, only user code raises exceptions outside ``Exception``, such as ``SystemExit``
    or asyncio's cancellation. A ``KeyboardInterrupt`` can also come from Ctrl-C, unless SIGINT ends
    this process, as in a worker process.
    """
    return (
        not isinstance(error, KeyboardInterrupt)
        or signal.getsignal(signal.SIGINT) is not signal.default_int_handler
    )


def add_step_name(error: BaseException, op: operations.Operation) -> BaseException:
    """Returns the exception to raise for an exception of user code in an operation, with the name of
    the step. Call it in the handler of the exception.
    """
    if getattr(error, "_tagged_with_step", False) or not is_user_code_error(error):
        return error
    return StepError(str(op.name_context.step_name))


class ElementRunOutput:
    """Output of an operation: counts elements and passes them to the consumers in runs (elements that
    differ only in their values).

    Beam offers every element for size estimates. This output offers only the first element of each
    run.

    Args:
        consumers: the operations that read the output. The caller must have set the operations up.
    """

    def __init__(
        self, receiver: operations.ConsumerSet, consumers: Sequence[operations.Operation]
    ) -> None:
        self._receiver = receiver
        self._targets = [create_element_run_target(consumer) for consumer in consumers]
        self._count = receiver.opcounter.element_counter.update

    def process_element_run(self, like: WindowedValue, values: list[Any]) -> None:
        """Passes a run (elements that differ only in their values) to all consumers."""
        self._receiver.update_counters_start(like.with_value(values[0]))
        for target in self._targets:
            target.process_element_run(like, values)
        self._receiver.update_counters_finish()
        if len(values) > 1:
            self._count(len(values) - 1)


class _ElementOutput:
    """Output whose elements must pass through Beam's code one by one."""

    def __init__(self, receiver: operations.ConsumerSet) -> None:
        self._receiver = receiver

    def process_element_run(self, like: WindowedValue, values: list[Any]) -> None:
        receive, with_value = self._receiver.receive, like.with_value
        for value in values:
            receive(with_value(value))


def create_element_run_output(
    receiver: operations.ConsumerSet, consumers: Sequence[operations.Operation]
) -> ElementRunConsumer:
    """Returns the output through which an operation emits many elements in one call.

    If a consumer accepts batches or elements, or the PCollection has type checks, the elements pass
    through Beam's code one by one.
    """
    batched = any(
        consumer.get_batching_preference().supports_batches
        and not getattr(consumer, "takes_runs", False)
        for consumer in consumers
    )
    if batched or receiver.opcounter.output_type_constraints:
        return _ElementOutput(receiver)
    return ElementRunOutput(receiver, consumers)


def create_element_run_target(op: operations.Operation) -> ElementRunConsumer:
    """Returns an adapter of an operation that consumes runs of elements. The operation must be set up."""
    if getattr(op, "takes_runs", False):
        target: ElementRunConsumer = op
        return target
    return _ElementTarget(op)


def create_input_target(
    receiver: operations.ConsumerSet, consumers: Sequence[operations.Operation]
) -> ElementRunConsumer | None:
    """Returns the consumer of runs of elements for the input of a stage; None if the operations accept only single
    elements.

    A single operation gets the runs directly, without Beam's consumer set.
    """
    if isinstance(receiver, operations.SingletonElementConsumerSet):
        target = create_element_run_target(consumers[0])
        return None if isinstance(target, _ElementTarget) else target
    output = create_element_run_output(receiver, consumers)
    return None if isinstance(output, _ElementOutput) else output


class _ElementTarget:
    """Adapter that passes many elements to an operation one by one."""

    def __init__(self, op: operations.Operation) -> None:
        self._op = op

    def process_element_run(self, like: WindowedValue, values: list[Any]) -> None:
        # Look the method up for each run, because a sink gets another ``process`` for each bundle.
        process, with_value = self._op.process, like.with_value
        try:
            for value in values:
                process(with_value(value))
        except BaseException as error:
            raise add_step_name(error, self._op)  # noqa: B904 - its context is what Beam looks at, too


class ElementRunOutputMixin(operations.Operation):
    """Mixin for a Beam operation that has one output and processes runs of elements. The mixin must come before
    the Beam class in the list of bases.
    """

    takes_runs = True

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._readers: list[operations.Operation] = []
        self._output: ElementRunConsumer | None = None

    def add_receiver(self, operation: operations.Operation, output_index: int = 0) -> None:
        """Registers a consumer of an output. Beam calls this method while it builds the operations."""
        super().add_receiver(operation, output_index)
        self._readers.append(operation)

    def setup(self, data_sampler: Any = None) -> None:
        """Sets up the operation, and connects its output with the consumers."""
        super().setup(data_sampler)
        self._output = create_element_run_output(self.receivers[0], self._readers)


class ElementRunFlatten(ElementRunOutputMixin, operations.FlattenOperation):
    """Beam's Flatten operation, which also accepts runs (lists of elements that differ only in their values)."""

    def process_element_run(self, like: WindowedValue, values: list[Any]) -> None:
        """Passes a run (elements that differ only in their values) to the consumers."""
        assert self._output is not None
        with self.scoped_process_state:
            self._output.process_element_run(like, values)
