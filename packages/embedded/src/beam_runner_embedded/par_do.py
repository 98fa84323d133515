"""ParDo operation that processes many elements in one call, if the DoFn is a plain function of one
element and the element's header (timestamp, windows, pane).

Beam's base class manages the lifecycle of the DoFn (setup, bundles, callbacks, teardown). The base
class also runs all DoFns that aren't plain functions.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from itertools import islice
from typing import Any

from apache_beam import pvalue
from apache_beam.runners.common import BatchingPreference
from apache_beam.runners.worker import operations
from apache_beam.transforms.window import TimestampedValue
from apache_beam.utils import windowed_value
from apache_beam.utils.windowed_value import WindowedBatch, WindowedValue

from beam_runner_embedded.batch_runs import BatchUnpacker, ElementRunBatcher
from beam_runner_embedded.dofn_runners import (
    DoFnRunnerArguments,
    Receivers,
    record_created_runners,
)
from beam_runner_embedded.plain_dofns import (
    PlainDoFn,
    ProcessMethod,
    find_header_arguments,
    make_plain_do_fn,
)
from beam_runner_embedded.runs import (
    MOST_VALUES,
    ElementRunCollector,
    ElementRunConsumer,
    ElementRunLengthController,
    ElementRunOutput,
    add_step_name,
    create_element_run_output,
)

_NOT_PLAIN = (pvalue.TaggedOutput, TimestampedValue, WindowedValue)
"""Types of results that carry a tag, a timestamp or windows. Beam's code handles such results one by one."""
_WIDE = 4


class ElementRunParDo(operations.DoOperation):
    """Beam's ParDo operation. If its DoFn is a plain function, the operation processes runs: lists of
    elements that differ only in their values.

    Single elements are collected into runs. The last elements of a bundle are processed when the
    bundle ends. Runs become batches if the DoFn accepts only batches, and batches of results become
    runs if all consumers accept elements.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.takes_runs = False
        self._readers: dict[int, list[operations.Operation]] = {}
        self._plain: PlainDoFn | None = None
        self._given: ProcessMethod | None = None
        self._output: ElementRunConsumer | None = None
        self._batcher: ElementRunBatcher | None = None
        self._output_pace = ElementRunLengthController()
        self._since = 0.0
        self._is_checked = False
        self._is_wide = True
        self._process_element: Callable[[WindowedValue], None] = super().process
        self._collector = ElementRunCollector(self, self._process_element_alone)

    def add_receiver(self, operation: operations.Operation, output_index: int = 0) -> None:
        """Registers a consumer of an output. Beam calls this method while it builds the operations."""
        super().add_receiver(operation, output_index)
        self._readers.setdefault(output_index, []).append(operation)

    def setup(self, data_sampler: Any = None) -> None:
        """Sets up the DoFn, and decides whether the operation can process runs of elements."""
        if data_sampler is not None:
            super().setup(data_sampler)
            return
        with record_created_runners(self._unpack_batches) as made:
            super().setup()
        if self.get_batching_preference().requires_batches:
            self._batcher = ElementRunBatcher(self.get_input_batch_converter(), self.process_batch)
            self.takes_runs = True
            self.process = self._collect_element
            return
        self._plain = self._convert_to_plain_do_fn(made[0])
        if self._plain is None:
            return
        self.takes_runs = True
        self.process = self._collector.add_element
        main, readers = self._plain.receiver, []
        if main in self.receivers:  # otherwise the main output has no consumer
            readers = self._readers.get(self.receivers.index(main), [])
        self._output = create_element_run_output(main, readers)

    def get_batching_preference(self) -> BatchingPreference:
        """Returns whether Beam may pass elements and batches to this operation.

        An operation that makes its own batches accepts both.
        """
        if self._batcher is None:
            return super().get_batching_preference()
        return BatchingPreference.DO_NOT_CARE

    def start(self) -> None:
        """Prepares the operation for a new bundle."""
        self._collector.reset()
        self._is_wide = True
        if self._batcher is not None:
            self._batcher.reset()
        if self._given is not None:
            self._given.clear_side_inputs()
        super().start()

    def finish(self) -> None:
        """Processes the remaining elements and finishes the bundle."""
        self._collector.flush_elements()
        self._output_pace.release_values()
        if self._batcher is not None:
            self._collect_batches(self._batcher.flush_batches)
        super().finish()

    def process_element_run(self, like: WindowedValue, values: list[Any]) -> None:
        """Processes a run: elements that differ only in their values."""
        if self._batcher is not None:
            self._collect_batches(self._batcher.process_element_run, like, values)
            return
        self._collector.flush_elements()
        self._process_values(like, values)

    def process_batch(self, windowed_batch: WindowedBatch) -> None:
        """Processes a batch with Beam's code. The metrics of user code belong to this step."""
        with self.scoped_process_state:
            super().process_batch(windowed_batch)

    def _collect_element(self, element: WindowedValue) -> None:
        assert self._batcher is not None
        self._collect_batches(self._batcher.process_element_run, element, [element.value])

    def _collect_batches(self, collect: Callable[..., None], *args: Any) -> None:
        try:
            collect(*args)
        except BaseException as error:
            raise add_step_name(error, self)  # noqa: B904 - its context is what Beam looks at, too

    def _unpack_batches(self, receivers: Receivers) -> None:
        """Replaces the receivers of batches whose consumers accept only elements."""
        converter = self.get_output_batch_converter()
        if converter is None:
            return
        for tag, receiver in receivers.items():
            readers = self._readers.get(self.receivers.index(receiver), [])
            if not readers or any(
                each.get_input_batch_converter() == converter for each in readers
            ):
                continue
            output = create_element_run_output(receiver, readers)
            if isinstance(output, ElementRunOutput):
                receivers[tag] = BatchUnpacker(receiver, converter, output)

    def _convert_to_plain_do_fn(self, made: DoFnRunnerArguments) -> PlainDoFn | None:
        """Returns the DoFn as a plain function; None if its ``process`` needs more than values and side inputs."""
        of_header = find_header_arguments(made)
        self._given = given = ProcessMethod(
            made.process, made.args, made.kwargs, made.side_inputs, of_header
        )
        return make_plain_do_fn(
            made, given.make_value_function, maps=given.maps, given=len(of_header)
        )

    def _process_element_alone(self, element: WindowedValue) -> None:
        """Processes a single element with Beam's code, or as a run of one element if elements have many results."""
        if self._is_wide:
            self._process_values(element, [element.value])
        else:
            self._process_element(element)

    def _process_values(self, like: WindowedValue, values: list[Any]) -> None:
        assert self._plain is not None
        process = self._map_values if self._plain.maps else self._process_each_value
        try:
            with self.scoped_process_state:
                if self._given is None:
                    process(like, values)
                else:
                    for each in self._given.split_by_window(like):
                        process(each, values)
        except BaseException as error:
            raise add_step_name(error, self)  # noqa: B904 - its context is what Beam looks at, too

    def _map_values(self, like: WindowedValue, values: list[Any]) -> None:
        assert self._plain is not None
        results_of = self._plain.make_value_function(like)
        self._since = time.perf_counter()
        room = self._output_pace.values
        left, put_out = iter(values), 0
        while put_out < len(values):
            out = results_of(islice(left, room))
            room = self._emit_results(like, out)
            put_out += len(out)
        self._is_wide = False

    def _process_each_value(self, like: WindowedValue, values: list[Any]) -> None:
        plain = self._plain
        assert plain is not None
        call = plain.make_value_function(like)
        self._since = time.perf_counter()
        room = self._output_pace.values
        put_out = 0
        out: list[Any] = []
        for value in values:
            results = call(value)
            if type(results) is list:
                out += results
            elif results is not None:
                if not self._is_checked:
                    plain.check(like, results)
                rest = iter(results)
                while True:
                    out.extend(islice(rest, room - len(out)))
                    if len(out) < room:
                        break
                    room = self._emit_results(like, out)
                    put_out += len(out)
                    out = []
            if len(out) >= room:
                room = self._emit_results(like, out)
                put_out += len(out)
                out = []
        if out:
            self._emit_results(like, out)
        self._is_checked = True
        self._is_wide = put_out + len(out) >= _WIDE * len(values)

    def _emit_results(self, like: WindowedValue, out: list[Any]) -> int:
        """Emits results, and returns the number of results to emit together next time."""
        assert self._plain is not None and self._output is not None
        if len(out) == 1:
            result = out[0]
            while isinstance(result, _NOT_PLAIN):
                result = result.value
            self._output_pace.check_returned_value(result)
        kinds = set(map(type, out))
        if any(issubclass(kind, _NOT_PLAIN) for kind in kinds):
            if kinds == {TimestampedValue} and len(like.windows) == 1:
                self._emit_timestamped(like, out)
            else:
                self._plain.handle(like, out)
        elif len(out) <= MOST_VALUES:
            self._output.process_element_run(like, out)
        else:
            for first in range(0, len(out), MOST_VALUES):
                self._output.process_element_run(like, out[first : first + MOST_VALUES])
        now = time.perf_counter()
        self._output_pace.record_duration(now - self._since, len(out))
        self._since = now
        return self._output_pace.values

    def _emit_timestamped(self, like: WindowedValue, out: list[TimestampedValue[Any]]) -> None:
        assert self._plain is not None
        windows_of, receive = self._plain.windows_of, self._plain.receiver.receive
        if windows_of is None:
            self._plain.handle(like, out)
            return
        create = windowed_value.create
        for result in out:
            micros = result.timestamp.micros
            receive(create(result.value, micros, windows_of(micros)))
