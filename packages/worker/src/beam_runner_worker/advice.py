"""Advice for known errors whose message doesn't say how to fix them."""

from __future__ import annotations

import re

from beam_runner_worker import missing_modules

_NOT_IN_MAIN = re.compile(
    r"Can't pickle <class '__main__\.|Can't get attribute '\S+' on <module '__main__'"
)
_ABOUT_MAIN = (
    " (The class of an element is defined in the pipeline's main module, and the"
    " runner could not send it with the functions: define the class in a module that is"
    " installed on the workers, or use --save_main_session, or"
    " --environment_type=LOOPBACK)"
)
_IN_A_GAP = re.compile(r"^  File .*, in map_via_end$", re.MULTILINE)
_ABOUT_GAPS = (
    " (The window of the element ends in a gap between the sliding windows of the side"
    " input, so the element has no side-input window: make the size of the side input's"
    " windows at least their period)"
)

_ABOUT_EMPTY = (
    " (A side input that AsSingleton reads has no element: set a default_value, as in"
    " AsSingleton(numbers, default_value=0))"
)


def add_error_advice(summary: str, trace: str = "", *, in_a_pool: bool = False) -> str:
    """Returns the summary of an exception, with advice appended if the error is known.

    Args:
        summary: the type and message of the exception on one line.
        trace: traceback of the exception.
        in_a_pool: see :func:`missing_modules.add_error_advice`.
    """
    if summary.startswith("IndexError") and _IN_A_GAP.search(trace):
        return summary + _ABOUT_GAPS
    if "EmptySideInput" in summary:
        return summary + _ABOUT_EMPTY
    if _NOT_IN_MAIN.search(summary):
        return summary + _ABOUT_MAIN
    return missing_modules.add_missing_module_advice(summary, in_a_pool=in_a_pool)
