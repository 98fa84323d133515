"""The errors that a host may get; each says what went wrong, and where."""

from __future__ import annotations

from beam_runner_model.texts import sanitize_text


class HarnessError(Exception):
    """A failure outside user code: a process died, a protocol was violated, or a limit was exceeded.

    The bundle may succeed on another worker.
    """


class PoolUnreachable(HarnessError):
    """Raised if no process listens at the worker pool of an EXTERNAL environment."""


class BundleError(Exception):
    """A failure of user code, or of the SDK on its behalf, in a bundle.

    Attributes:
        transform: the full name of the running transform, or of the stage if unknown.
        summary: exception type and message on one line.
        trace: the traceback as text.
        element: what is known of the processed element, on one line; may be empty.
    """

    def __init__(self, transform: str, summary: str, trace: str, element: str = "") -> None:
        self.transform = sanitize_text(transform)
        self.summary = sanitize_text(summary)
        self.trace = sanitize_text(trace)
        self.element = sanitize_text(element)
        super().__init__(f"{self.summary} [while running '{self.transform}']")

    def __reduce__(self) -> tuple[type[BundleError], tuple[str, str, str, str]]:
        """Pickles the error by its four texts."""
        return (BundleError, (self.transform, self.summary, self.trace, self.element))


class TimerRefused(Exception):
    """Raised for a timer that user code must not set; the host isn't at fault."""


class UnsupportedEnvironment(Exception):
    """Raised for an environment that can't run on this machine; the text names it and says what to do."""
