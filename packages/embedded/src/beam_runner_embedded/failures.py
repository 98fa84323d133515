"""Conversion of exceptions of user code to errors that name the failed transform."""

from __future__ import annotations

import re
import traceback
from collections.abc import Iterable
from types import FrameType, TracebackType

from apache_beam.runners.worker import operations
from beam_runner_worker.advice import add_error_advice
from beam_runner_worker.errors import BundleError, HarnessError

from beam_runner_embedded.bundle_context import BundleContext
from beam_runner_embedded.failing_element import describe_failing_element
from beam_runner_embedded.runs import is_user_code_error

_STEP = re.compile(r" \[while running '(?P<step>.*)'\]$", re.DOTALL)
_UNNAMED = {
    "CombineOperation": operations.CombineOperation,
    "PGBKCVOperation": operations.PGBKCVOperation,
    "SdfProcessSizedElements": operations.SdfProcessSizedElements,
}
"""Beam operations that don't add their name to exceptions of user code."""

_PHASES = {
    "full_combine": "all",
    "add_only": "add",
    "merge_only": "merge",
    "extract_only": "extract",
    "convert_to_accumulator": "convert",
}
"""Phases of a combine, by the name of Beam's function that calls the CombineFn in that phase."""


def describe_exception(error: BaseException) -> str:
    """Returns the type and the message of an exception on one line, like the last line of a traceback."""
    kind = type(error)
    name = kind.__qualname__
    if kind.__module__ not in ("builtins", "__main__"):
        name = f"{kind.__module__}.{name}"
    try:
        message = " ".join(str(error).split("\n"))
    except Exception as raised:
        message = f"(str() of the exception failed: {type(raised).__name__})"
    return f"{name}: {message}" if message else name


def unwrap_step_error(error: BaseException) -> BaseException:
    """Returns the exception that user code raised. Beam raises a copy whose message names the step."""
    if getattr(error, "_tagged_with_step", False) and error.__context__ is not None:
        return error.__context__
    return error


def create_bundle_error(
    error: BaseException,
    ops: Iterable[operations.Operation],
    running: operations.Operation | None,
    stage_name: str,
    context: BundleContext | None = None,
) -> BundleError:
    """Returns the error for the runner, with the failed transform, the traceback and the element.

    Args:
        error: the exception that came out of an operation.
        running: the operation whose start, finish or setup was called, if any.
        stage_name: the name that replaces an unknown transform.
        context: the bundle's context, if the error came from a bundle.
    """
    cause = unwrap_step_error(error)
    transform = _find_failed_transform(error, cause, list(ops), running) or stage_name
    trace = "".join(traceback.format_exception(cause))
    told = None if context is None else context.find_failed_element(cause)
    element = describe_failing_element(error, cause, told)
    return BundleError(
        transform, add_error_advice(describe_exception(cause), trace), trace, element
    )


def convert_build_error(error: BaseException, stage_name: str) -> BaseException:
    """Returns the error for a stage whose operations can't be built, for example because a DoFn can't
    be unpickled.

    Errors of this package and a keyboard interrupt stay unchanged.
    """
    if isinstance(error, HarnessError) or not is_user_code_error(error):
        return error
    trace = "".join(traceback.format_exception(error))
    summary = add_error_advice(f"{describe_exception(error)} (while loading its functions)")
    return BundleError(stage_name, summary, trace)


def _find_failed_transform(
    error: BaseException,
    cause: BaseException,
    ops: list[operations.Operation],
    running: operations.Operation | None,
) -> str | None:
    unnamed = _find_unnamed_operation(cause.__traceback__, ops)
    if unnamed is not None:
        return str(unnamed.name_context.step_name)
    step = _STEP.search(str(error.args[0])) if error.args else None
    if step is not None and getattr(error, "_tagged_with_step", False):
        return step.group("step")
    return str(running.name_context.step_name) if running is not None else None


def _find_unnamed_operation(
    trace: TracebackType | None, ops: list[operations.Operation]
) -> operations.Operation | None:
    """Returns the failed operation of a kind that Beam doesn't name in exceptions; None for other
    operations.

    Beam names only the DoFn that passed the element to such an operation. But the traceback shows
    the operation's class. If a stage has several operations of that class, the user's frame shows
    the CombineFn, and Beam's frame shows the phase of the combine.
    """
    frames: list[FrameType] = []
    while trace is not None:
        frames.append(trace.tb_frame)
        trace = trace.tb_next
    for index in range(len(frames) - 1, -1, -1):
        owner = frames[index].f_code.co_name
        if owner.endswith("DoFnRunner.process_with_sized_restriction"):
            continue
        if "DoFnRunner" in owner or "DoOperation" in owner:
            return None
        for name, kind in _UNNAMED.items():
            if f"{name}." in owner:
                candidates = [op for op in ops if isinstance(op, kind)]
                return _find_operation_of_kind(candidates, frames[index + 1 :])
    return None


def _find_operation_of_kind(
    candidates: list[operations.Operation], frames: list[FrameType]
) -> operations.Operation | None:
    if len(candidates) == 1:
        return candidates[0]
    for frame in frames:
        user = frame.f_locals.get("self")
        for candidate in candidates:
            combine_fn = getattr(candidate, "combine_fn", None)
            if user is not None and combine_fn is user:
                return candidate
        phase = _PHASES.get(frame.f_code.co_name)
        of_phase = [each for each in candidates if getattr(each.spec, "phase", None) == phase]
        if phase is not None and len(of_phase) == 1:
            return of_phase[0]
    return None
