"""Execution of one bundle by the operations of a stage, from the first start to the last finish."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from beam_runner_model.bundles import ResidualElement
from beam_runner_model.chunks import FlushBarrier, InputChunk, TimerChunk

from beam_runner_worker.embedded.bundle_context import BundleContext
from beam_runner_worker.embedded.failures import bundle_failed, original
from beam_runner_worker.embedded.processor import Processor
from beam_runner_worker.embedded.runs import is_of_user_code
from beam_runner_worker.embedded.splits import residual_element
from beam_runner_worker.errors import BundleError, HarnessError
from beam_runner_worker.ports import OutputPort


class _HostError(Exception):
    """Wrapper that carries an error of the host's inputs through the frames of this package."""

    def __init__(self, error: BaseException) -> None:
        super().__init__()
        self.error = error


def run_bundle(
    processor: Processor,
    bundle_id: str,
    inputs: Iterable[InputChunk],
    outputs: Mapping[str, OutputPort],
    stage_name: str,
) -> tuple[ResidualElement, ...]:
    """Starts all operations, passes them the inputs, and finishes them.

    The function reads the inputs only as far as a split leaves them to this bundle.

    Returns:
        The residuals of splittable DoFns.

    Raises:
        BundleFailed: an operation raised.
        BaseException: an error of ``inputs`` or another port of the host, unchanged.
    """
    context = BundleContext(bundle_id)
    chunks = iter(inputs)
    try:
        _start(processor, context, outputs)
        while not processor.source.claims.stopped:
            try:
                chunk = next(chunks)
            except StopIteration:
                break
            except BaseException as error:
                raise _HostError(error) from error
            _process(processor, chunk)
        processor.source.end_input()
        _finish(processor)
        if (failed := _host_error(processor)) is not None:
            raise _HostError(
                failed
            )  # user code has caught the host's error, so its results must not count
        return _residuals(processor, context)
    except _HostError as error:
        raise error.error from None
    except BaseException as error:
        raise error_for_host(error, processor, stage_name, context) from None


def _process(processor: Processor, chunk: InputChunk) -> None:
    match chunk:
        case TimerChunk(timers):
            processor.fire(timers)
        case FlushBarrier():
            processor.settle()
        case _:
            processor.source.feed(chunk)


def error_for_host(
    error: BaseException,
    processor: Processor,
    stage_name: str,
    context: BundleContext | None = None,
) -> BaseException:
    """Returns the error that the host gets for an error of an operation.

    An error of the host's ports or of this package, and a keyboard interrupt, stay unchanged.
    """
    if (failed := _host_error(processor)) is not None:
        return failed
    cause = original(error)
    if isinstance(cause, (BundleError, HarnessError)) or not is_of_user_code(cause):
        return cause
    ops = processor.ops.values()
    return bundle_failed(error, ops, processor.running, stage_name, context)


def _host_error(processor: Processor) -> BaseException | None:
    """Returns an error that one of the host's ports raised, if one did."""
    errors = (processor.host.errors.first, *(s.port_error for s in processor.sinks.values()))
    return next((error for error in errors if error is not None), None)


def _start(processor: Processor, context: BundleContext, outputs: Mapping[str, OutputPort]) -> None:
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


def _residuals(processor: Processor, context: BundleContext) -> tuple[ResidualElement, ...]:
    residuals = []
    for op, deferred in context.delayed_applications:
        processor.running = op
        residuals.append(residual_element(processor.source, op, deferred))
    processor.running = None
    return tuple(residuals)
