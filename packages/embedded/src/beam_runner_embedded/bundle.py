"""Execution of one bundle by Beam's operations of a stage: starts the operations, passes the input,
and finishes the operations.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from beam_runner_model.bundles import ResidualElement
from beam_runner_model.chunks import FlushBarrier, InputChunk, TimerChunk
from beam_runner_worker.errors import BundleError, HarnessError
from beam_runner_worker.ports import OutputPort

from beam_runner_embedded.bundle_context import BundleContext
from beam_runner_embedded.failures import create_bundle_error, unwrap_step_error
from beam_runner_embedded.processor import StageProcessor
from beam_runner_embedded.runs import is_user_code_error
from beam_runner_embedded.splits import create_residual


class _HostError(Exception):
    """Wrapper of an exception of the runner's inputs, which distinguishes the exception from
    exceptions of user code.
    """

    def __init__(self, error: BaseException) -> None:
        super().__init__()
        self.error = error


def run_bundle(
    processor: StageProcessor,
    bundle_id: str,
    inputs: Iterable[InputChunk],
    outputs: Mapping[str, OutputPort],
    stage_name: str,
) -> tuple[ResidualElement, ...]:
    """Runs one bundle: starts all operations, passes the input to them, and finishes all
    operations.

    After a split, the function reads only the input that this bundle retains.

    Returns:
        The residual elements of splittable DoFns.

    Raises:
        BundleError: An operation raised an exception.
        BaseException: ``inputs`` or another port of the runner raised the exception, which is
            passed on unchanged.
    """
    context = BundleContext(bundle_id)
    chunks = iter(inputs)
    try:
        _start_operations(processor, context, outputs)
        while not processor.source.claims.is_stopped:
            try:
                chunk = next(chunks)
            except StopIteration:
                break
            except BaseException as error:
                raise _HostError(error) from error
            _process_chunk(processor, chunk)
        processor.source.end_input()
        _finish_operations(processor)
        if (failed := _find_runner_error(processor)) is not None:
            raise _HostError(
                failed
            )  # user code has caught the runner's error, so the bundle must fail
        return _collect_residuals(processor, context)
    except _HostError as error:
        raise error.error from None
    except BaseException as error:
        raise convert_operation_error(error, processor, stage_name, context) from None


def _process_chunk(processor: StageProcessor, chunk: InputChunk) -> None:
    match chunk:
        case TimerChunk(timers):
            processor.process_timers(timers)
        case FlushBarrier():
            processor.flush_state()
        case _:
            processor.source.process_chunk(chunk)


def convert_operation_error(
    error: BaseException,
    processor: StageProcessor,
    stage_name: str,
    context: BundleContext | None = None,
) -> BaseException:
    """Returns the exception to raise in the runner for an exception that came out of an operation.

    Exceptions of the runner and of this package, and a keyboard interrupt, stay unchanged.
    """
    if (failed := _find_runner_error(processor)) is not None:
        return failed
    cause = unwrap_step_error(error)
    if isinstance(cause, (BundleError, HarnessError)) or not is_user_code_error(cause):
        return cause
    ops = processor.ops.values()
    found = create_bundle_error(error, ops, processor.running, stage_name, context)
    found.claimed = processor.source.claims.claimed_count
    return found


def _find_runner_error(processor: StageProcessor) -> BaseException | None:
    """Returns the first exception that the runner raised during a call of this bundle; None if no call failed."""
    errors = (processor.host.errors.first, *(s.port_error for s in processor.sinks.values()))
    return next((error for error in errors if error is not None), None)


def _start_operations(
    processor: StageProcessor, context: BundleContext, outputs: Mapping[str, OutputPort]
) -> None:
    for transform_id, sink in processor.sinks.items():
        sink.connect_port(outputs[transform_id])
    for op in reversed(processor.ops.values()):
        op.execution_context = context
        processor.running = op
        op.start()
    processor.running = None


def _finish_operations(processor: StageProcessor) -> None:
    for op in processor.ops.values():
        processor.running = op
        op.finish()
    processor.running = None


def _collect_residuals(
    processor: StageProcessor, context: BundleContext
) -> tuple[ResidualElement, ...]:
    residuals = []
    for op, deferred in context.delayed_applications:
        processor.running = op
        residuals.append(create_residual(processor.source, op, deferred))
    processor.running = None
    return tuple(residuals)
