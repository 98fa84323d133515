"""Output of a job's progress: a status line that is updated on a terminal, plain lines in logs and
notebooks, or nothing.
"""

from __future__ import annotations

import contextlib
import enum
import os
import shutil
import threading
from collections.abc import Iterator
from typing import IO, Protocol

_CLEAR = "\r\x1b[K"


class ProgressMode(enum.StrEnum):
    """Value of the option ``--beam_spark_progress``."""

    AUTO = "auto"
    """A status line that is updated if standard error is a terminal, otherwise plain lines."""
    LINES = "lines"
    OFF = "off"


class Display(Protocol):
    """Interface of a progress display: writes permanent lines, and updates one status line."""

    @property
    def is_live(self) -> bool:
        """Whether the display shows the status line."""

    def write_line(self, text: str) -> None:
        """Writes a permanent line, which no later output overwrites."""

    def set_status(self, text: str) -> None:
        """Replaces the status line; an empty text removes the line."""

    def pause(self) -> contextlib.AbstractContextManager[None]:
        """Returns a context manager: within it, other code can write to the terminal without a
        conflict with the status line.
        """


class TerminalDisplay:
    """A display on a terminal. Thread-safe.

    The cursor stays at the start of the status line, so that output of other code overwrites the
    status line.
    """

    is_live = True

    def __init__(self, stream: IO[str]) -> None:
        self._stream = stream
        self._status = ""
        self._lock = threading.RLock()

    def write_line(self, text: str) -> None:
        """Writes a line above the status line."""
        with self.pause():
            self._write_to_terminal(f"{text}\n")

    def set_status(self, text: str) -> None:
        """Draws the status line, truncated to the width of the terminal."""
        with self._lock:
            if text == self._status:
                return
            self._status = text
            self._draw_status()

    @contextlib.contextmanager
    def pause(self) -> Iterator[None]:
        """Returns a context manager: removes the status line from the terminal, and draws it again at the end."""
        with self._lock:
            if self._status:
                self._write_to_terminal(_CLEAR)
            try:
                yield
            finally:
                if self._status:
                    self._draw_status()

    def _draw_status(self) -> None:
        width = shutil.get_terminal_size().columns - 1
        shown = self._status if len(self._status) <= width else f"{self._status[: width - 1]}…"
        self._write_to_terminal(f"{_CLEAR}{shown}\r" if shown else _CLEAR)

    def _write_to_terminal(self, text: str) -> None:
        with contextlib.suppress(OSError, ValueError):  # Ignore a closed terminal or stream
            self._stream.write(text)
            self._stream.flush()


class LineDisplay:
    """Display for logs and notebooks, with permanent lines and without a status line."""

    is_live = False

    def __init__(self, stream: IO[str]) -> None:
        self._stream = stream

    def write_line(self, text: str) -> None:
        """Writes a permanent line to the log or notebook."""
        with contextlib.suppress(OSError, ValueError):
            self._stream.write(f"{text}\n")
            self._stream.flush()

    def set_status(self, text: str) -> None:
        """Does nothing, because logs and notebooks have no status line."""

    def pause(self) -> contextlib.AbstractContextManager[None]:
        """Returns a context manager that does nothing, because no status line needs protection."""
        return contextlib.nullcontext()


class SilentDisplay:
    """Display that shows nothing, for programs that request no progress."""

    is_live = False

    def write_line(self, text: str) -> None:
        """Ignores the line, because this display shows nothing."""

    def set_status(self, text: str) -> None:
        """Ignores the status, because this display shows nothing."""

    def pause(self) -> contextlib.AbstractContextManager[None]:
        """Returns a context manager that does nothing, because this display shows nothing."""
        return contextlib.nullcontext()


def make_progress_display(mode: ProgressMode, stream: IO[str]) -> Display:
    """Returns the display for an option's value and the program's standard error."""
    if mode is ProgressMode.OFF:
        return SilentDisplay()
    if mode is ProgressMode.AUTO and stream.isatty() and os.environ.get("TERM") != "dumb":
        return TerminalDisplay(stream)
    return LineDisplay(stream)
