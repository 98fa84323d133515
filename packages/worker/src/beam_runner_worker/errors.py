"""Errors that a harness reports to the runner. Each error describes the failure and the location of
the failure.
"""

from __future__ import annotations

from beam_runner_model.texts import sanitize_text


class HarnessError(Exception):
    """Error for a failure outside user code: an exited process, a protocol violation, or an exceeded
    limit.

    The bundle may succeed on another worker.
    """


class PoolUnreachable(HarnessError):
    """Error for a worker pool of an EXTERNAL environment at whose address no process listens."""


class BundleError(Exception):
    """Error for a failure in a bundle, in user code or in SDK code that user code uses.

    Attributes:
        transform: full name of the running transform, or of the stage if unknown.
        summary: exception type and message on one line.
        trace: traceback of the exception as text.
        element: description of the element that was being processed, on one line; empty if unknown.
        claimed: number of elements that the operations had taken, so that later elements can't be at
            fault; None if unknown.
    """

    claimed: int | None = None

    def __init__(self, transform: str, summary: str, trace: str, element: str = "") -> None:
        self.transform = sanitize_text(transform)
        self.summary = sanitize_text(summary)
        self.trace = sanitize_text(trace)
        self.element = sanitize_text(element)
        super().__init__(f"{self.summary} [while running '{self.transform}']")

    def __reduce__(self) -> tuple[type[BundleError], tuple[str, str, str, str]]:
        """Pickles the error as its four constructor arguments."""
        return (BundleError, (self.transform, self.summary, self.trace, self.element))


class TimerRefused(Exception):
    """Error for a timer that user code must not set."""


class UnsupportedEnvironment(Exception):
    """Error for an environment that can't run on this machine. The message names the environment and how to fix it."""
