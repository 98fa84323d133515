"""What to do about errors whose own text leaves it open."""

from __future__ import annotations

import re

from beam_runner_worker import missing_modules

_NOT_IN_MAIN = re.compile(
    r"Can't pickle <class '__main__\.|Can't get attribute '\S+' on <module '__main__'"
)
_ABOUT_MAIN = (
    " (elements are of a class that the pipeline's main module defines and that did not come along"
    " with its functions: define it in a module that is installed where the pipeline runs, or use"
    " --save_main_session, or --environment_type=LOOPBACK)"
)


def with_advice(summary: str) -> str:
    """An exception in one line, and what to do about it, if that is known."""
    if _NOT_IN_MAIN.search(summary):
        return summary + _ABOUT_MAIN
    return missing_modules.with_advice(summary)
