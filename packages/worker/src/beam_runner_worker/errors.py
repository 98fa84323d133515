"""The errors that a host may meet; each says what was wrong and where."""

from __future__ import annotations

from beam_runner_model.texts import sanitize_text


class HarnessError(Exception):
    """Something outside user code failed: a process died, a protocol was broken, a limit ran out.

    Trying the bundle again elsewhere may succeed.
    """


class PoolUnreachable(HarnessError):
    """Nothing listens where the worker pool of an EXTERNAL environment should be."""


class BundleFailed(Exception):
    """User code, or the SDK on its behalf, raised while a bundle was processed.

    Attributes:
        transform: the full name of the transform that was running, or of the stage if unknown.
        summary: exception type and message, one line.
        trace: the traceback as text.
        element: what is known of the element that was processed, in one line; may be empty.
    """

    def __init__(self, transform: str, summary: str, trace: str, element: str = "") -> None:
        self.transform = sanitize_text(transform)
        self.summary = sanitize_text(summary)
        self.trace = sanitize_text(trace)
        self.element = sanitize_text(element)
        super().__init__(f"{self.summary} [while running '{self.transform}']")

    def __reduce__(self) -> tuple[type[BundleFailed], tuple[str, str, str, str]]:
        """Pickles by its four texts."""
        return (BundleFailed, (self.transform, self.summary, self.trace, self.element))


class TimerRefused(Exception):
    """User code sets a timer that it must not set: the fault is not the host's."""


class UnsupportedEnvironment(Exception):
    """An environment that can't be run on this machine; the text names it and says what to do."""
