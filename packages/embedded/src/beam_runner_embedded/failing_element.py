"""Search for the element that user code was processing when it raised an exception, in the frames of
the traceback.

The search costs nothing unless a bundle fails. The frames of Beam's compiled operations contain no
local variables, so those operations report their element to the `bundle_context`.
"""

from __future__ import annotations

import traceback
from types import FrameType

from apache_beam.transforms.core import DoFn
from apache_beam.utils.windowed_value import WindowedValue

from beam_runner_embedded.failing_frames import (
    ENCODES,
    SHOWS,
    CalledFrames,
    describe_key,
    describe_restriction,
    is_runner_frame,
)
from beam_runner_embedded.shown_elements import format_element

_AT_NO_ELEMENT = (
    "DoFnRunner._invoke_bundle_method",
    "DoFnRunner._invoke_lifecycle_method",
)


def describe_failing_element(
    error: BaseException, cause: BaseException, reported: WindowedValue | None = None
) -> str:
    """Returns a short description of the element, key, timer or batch that was being processed;
    empty if the element is unknown.

    Args:
        error: exception from the operations.
        cause: exception that user code raised.
        reported: element that a Beam operation reported to the bundle's context, if any.
    """
    try:
        return _find_element_in_frames(_collect_frames(error, cause), reported)
    except Exception:
        # An error in this module must not shadow the exception of user code.
        return ""


def _collect_frames(error: BaseException, cause: BaseException) -> list[FrameType]:
    """Returns all frames that the exception passed through, outermost first.

    The exception of user code is caught and raised again with the name of the step. So the
    traceback of the cause has only the inner frames, and the traceback of the new exception has the
    outer frames.
    """
    inner = [frame for frame, _ in traceback.walk_tb(cause.__traceback__)]
    outer = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
    if inner and inner[0] in outer:
        outer = outer[: outer.index(inner[0])]
    return outer + inner


def _find_element_in_frames(frames: list[FrameType], reported: WindowedValue | None) -> str:
    """Returns the description of the failed element from the innermost frame that knows the element."""
    inside = CalledFrames([])
    text = None
    for frame in reversed(frames):
        text = _describe_frame(frame, inside, reported)
        if text is not None:
            break
        inside.frames.insert(0, frame)
    if not inside.is_encoding:
        return text or ""
    result = format_element(inside.results[0]) if inside.results else "its output"
    if text:
        result = f"its output {result}" if inside.results else result
        return f"{text} (can't encode {result})"
    return f"{result} (can't be encoded)" if inside.results else ""


def _describe_frame(
    frame: FrameType, inside: CalledFrames, reported: WindowedValue | None
) -> str | None:
    """Returns the description of the element in a frame: empty if no element was being processed, None
    if the caller's frame must be searched. Updates ``inside``.
    """
    name = frame.f_code.co_qualname
    if name in SHOWS:
        return SHOWS[name](frame.f_locals, inside)
    if name in ENCODES and not inside.is_encoding:
        inside.is_encoding, inside.results = True, [ENCODES[name](frame.f_locals)]
    elif name.endswith("ConsumerSet.update_counters_start"):
        # Beam encodes some results of a DoFn to compute their size, so the exception can come from
        # a coder.
        inside.is_encoding = True
    elif name == "ElementRunOutput.process_element_run" and inside.called_function_name.endswith(
        "ConsumerSet.update_counters_start"
    ):
        inside.results = [frame.f_locals["values"][0]]
    elif name.endswith("CombineOperation.process"):
        inside.show = describe_key
    elif name.endswith("DoFnRunner.process_with_sized_restriction"):
        inside.show = describe_restriction
    elif name.endswith("DoFnRunner.process"):
        # If the output of the DoFn goes to a combine, the DoFn's element is not a key of the
        # combine.
        return (
            format_element(reported.value)
            if reported is not None and inside.show is format_element
            else ""
        )
    elif name.endswith("DoFnRunner.process_batch"):
        return _describe_batch(inside.frames)
    elif name.endswith(_AT_NO_ELEMENT):
        return ""
    return None


def _describe_batch(frames: list[FrameType]) -> str:
    """Returns a description of the batch: the argument of the first frame of user code, which is the
    DoFn's ``process_batch``.
    """
    called = next((frame for frame in frames if not is_runner_frame(frame)), None)
    if called is None:
        return ""
    names = called.f_code.co_varnames[: called.f_code.co_argcount]
    given = [called.f_locals[name] for name in names if name in called.f_locals]
    batch = [each for each in given if not isinstance(each, DoFn)]
    return f"the batch {format_element(batch[0])}" if batch else ""
