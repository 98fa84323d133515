"""Finds the element that user code was at when it raised: it is still there, in the traceback's frames.

So nothing has to be kept for it while all is well.
"""

from __future__ import annotations

import reprlib
from types import FrameType, TracebackType
from typing import Any

from beam_runner_worker.texts import shortened

_MOST_CHARACTERS = 300
_MOST_BYTES = 100
_OF_RUNNERS = ("apache_beam/runners/", "/beam_runner_worker/embedded/")
_TAKES_ELEMENTS = (
    "DoFnRunner.process",
    "DoFnRunner.process_with_sized_restriction",
    "DoFnRunner.process_batch",
)
_TAKES_NO_ELEMENT = ("_invoke_bundle_method", "process_user_timer", "_invoke_lifecycle_method")
_ADDS_TO_ACCUMULATORS = "add_key_value"
_OUR_LOOP = "_process"
_PUTS_OUT = "_send"
_ITS_ELEMENT = "value"


def failing_element(trace: TracebackType | None) -> str:
    """The element in a short text; empty where user code was not at an element, or it is not known.

    Args:
        trace: that of the exception, as user code raised it.
    """
    frames: list[FrameType] = []
    while trace is not None:
        frames.append(trace.tb_frame)
        trace = trace.tb_next
    last = max((i for i, frame in enumerate(frames) if _is_of_runner(frame)), default=-1)
    called = frames[last + 1] if last + 1 < len(frames) else None
    for index in range(last, -1, -1):
        name, values = frames[index].f_code.co_name, frames[index].f_locals
        if name == _OUR_LOOP and _ITS_ELEMENT in values and called is not None:
            if frames[index + 1].f_code.co_name == _PUTS_OUT:
                # What it was made of is not known any more: results are put out together.
                return _argument(called, 0)
            return shown(values[_ITS_ELEMENT])
        if name.endswith(_TAKES_ELEMENTS):
            return _argument(called, 0)
        if name.endswith(_ADDS_TO_ACCUMULATORS):
            return _argument(called, 1)
        if name.endswith(_TAKES_NO_ELEMENT):
            return ""
    return ""


def shown(element: Any) -> str:
    """A text of an element, cut, whatever it is; takes no more memory than that."""
    try:
        text = " ".join(_Short().repr(element).splitlines())
    except Exception as error:
        text = f"{type(element).__name__} (its text cannot be made: {type(error).__name__})"
    return shortened(text, _MOST_CHARACTERS)


class _Short(reprlib.Repr):
    def __init__(self) -> None:
        super().__init__()
        self.maxlevel = 4
        self.maxtuple = self.maxlist = self.maxdict = self.maxset = 10
        self.maxstring = self.maxother = self.maxlong = 200

    def repr_bytes(self, element: bytes, level: int) -> str:
        more = "..." if len(element) > _MOST_BYTES else ""
        return f"{element[:_MOST_BYTES]!r}{more}"


def _is_of_runner(frame: FrameType) -> bool:
    # Beam's compiled modules have paths that begin with the package, its others have such in them.
    return any(part in frame.f_code.co_filename for part in _OF_RUNNERS)


def _argument(called: FrameType | None, number: int) -> str:
    """An argument of a function, as it is by now, without its ``self``."""
    if called is None:
        return ""
    names = [n for n in called.f_code.co_varnames[: called.f_code.co_argcount] if n != "self"]
    if number >= len(names) or names[number] not in called.f_locals:
        return ""
    return shown(called.f_locals[names[number]])
