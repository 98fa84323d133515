"""Runs one bundle over the operations of a stage, from the first start to the last finish."""

from __future__ import annotations

import heapq
import itertools
import time
from collections.abc import Iterable, Mapping

from apache_beam.runners.worker import operations
from apache_beam.runners.worker.bundle_processor import ExecutionContext
from apache_beam.utils.windowed_value import WindowedValue

from beam_runner_worker.embedded.failures import bundle_failed, original
from beam_runner_worker.embedded.processor import Processor
from beam_runner_worker.errors import HarnessError
from beam_runner_worker.ports import OutputPort
from beam_runner_worker.records import InputChunk


class _HostError(Exception):
    """Carries what the host's inputs raised through our own frames."""

    def __init__(self, error: BaseException) -> None:
        super().__init__()
        self.error = error


def run_bundle(
    processor: Processor,
    bundle_id: str,
    inputs: Iterable[InputChunk],
    outputs: Mapping[str, OutputPort],
    stage_name: str,
) -> None:
    """Starts all operations, feeds them the inputs, and finishes them.

    Raises:
        BundleFailed: an operation raised.
        BaseException: whatever ``inputs``, a port or the side input reader raised, as it was.
    """
    context = ExecutionContext(instruction_id=bundle_id)
    chunks = iter(inputs)
    try:
        _start(processor, context, outputs)
        while True:
            try:
                chunk = next(chunks)
            except StopIteration:
                break
            except BaseException as error:
                raise _HostError(error) from error
            processor.source.feed(chunk)
            if context.delayed_applications:
                _resume(context)
        _finish(processor)
        if context.delayed_applications:
            _resume(context)
    except _HostError as error:
        raise error.error from None
    except BaseException as error:
        raise error_for_host(error, processor, stage_name) from None


def error_for_host(error: BaseException, processor: Processor, stage_name: str) -> BaseException:
    """What the host shall see of an error that came out of an operation.

    An error of a port, of the side input reader or of this package, and whatever is no exception
    but meant for the process (a keyboard interrupt, a cancellation), stay what they are.
    """
    for host in (
        processor.side_inputs.reader_error,
        *(s.port_error for s in processor.sinks.values()),
    ):
        if host is not None:
            return host
    cause = original(error)
    if isinstance(cause, HarnessError) or not isinstance(cause, (Exception, SystemExit)):
        return cause
    return bundle_failed(error, processor.ops.values(), processor.running, stage_name)


def _start(
    processor: Processor, context: ExecutionContext, outputs: Mapping[str, OutputPort]
) -> None:
    for transform_id, sink in processor.sinks.items():
        sink.connect(outputs[transform_id])
    for op in reversed(processor.ops.values()):
        op.execution_context = context
        processor.running = op
        op.start()
    processor.running = None


def _finish(processor: Processor) -> None:
    for op in processor.ops.values():
        processor.running = op
        op.finish()
    processor.running = None


def _resume(context: ExecutionContext) -> None:
    """Processes what splittable DoFns deferred, in this same bundle, when it is due.

    A bounded splittable DoFn may stop early and ask to be resumed. Its input is all here, so it is.
    """
    order = itertools.count()
    waiting: list[tuple[float, int, operations.DoOperation, WindowedValue]] = []
    while context.delayed_applications or waiting:
        for op, (element, _, delay) in context.delayed_applications:
            due = time.monotonic() + (delay.micros / 1e6 if delay else 0)
            heapq.heappush(waiting, (due, next(order), op, element))
        context.delayed_applications.clear()
        due, _, op, element = heapq.heappop(waiting)
        time.sleep(max(0.0, due - time.monotonic()))
        op.process(element)
