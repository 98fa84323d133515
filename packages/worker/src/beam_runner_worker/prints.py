"""Lines that user code prints, as log records with the running transform."""

from __future__ import annotations

import io
import threading
import time
from collections.abc import Callable
from typing import Any, Protocol, TextIO

from apache_beam.runners.worker import statesampler
from beam_runner_model.jobs import PRINT_PREFIX

from beam_runner_worker.log_records import LogRecord, Severity

LINES_PER_SECOND = 100
_BURST = 500
_LONGEST_LINE = 8_192


class RecordQueue(Protocol):
    """The queue of log records for the runner."""

    @property
    def is_sending(self) -> bool:
        """Whether this thread is passing log records to the runner, so that its output doesn't come
        from user code.
        """

    def queue_record(self, entry: LogRecord) -> None:
        """Adds a record without waiting for the runner."""


class PrintCapture(io.TextIOBase):
    """A replacement of ``sys.stdout`` that sends lines of user code to the runner. Thread-safe.

    Output of code outside of transforms goes to the original stream. Above `LINES_PER_SECOND` in
    the long run, lines of user code go to the original stream too, and one record has their number.

    Args:
        original: the stream that the capture replaces.
        records: the queue of records for the runner.
        clock: returns a time in seconds.
    """

    def __init__(
        self,
        original: TextIO,
        records: RecordQueue,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__()
        self._original = original
        self._records = records
        self._budget = LineBudget(clock)
        self._partial = threading.local()

    def write(self, text: str) -> int:
        """Writes a text; sends each complete line."""
        transform = get_current_transform_id()
        if not transform or self._records.is_sending:
            return self._original.write(text)
        if getattr(self._partial, "transform", transform) != transform:
            self.send_incomplete_line()
        *lines, rest = (getattr(self._partial, "text", "") + text).split("\n")
        if len(rest) > _LONGEST_LINE:
            lines, rest = [*lines, rest], ""
        self._partial.text, self._partial.transform = rest, transform
        for line in lines:
            self._send_line(line, transform)
        return len(text)

    def send_incomplete_line(self) -> None:
        """Sends the incomplete line of this thread."""
        text = getattr(self._partial, "text", "")
        if text:
            self._partial.text = ""
            self._send_line(text, self._partial.transform)

    def flush(self) -> None:
        """Flushes the original stream. The runner gets complete lines without a flush."""
        self._original.flush()

    def writable(self) -> bool:
        return True

    def isatty(self) -> bool:
        return False

    def fileno(self) -> int:
        return self._original.fileno()

    @property
    def encoding(self) -> str:  # type: ignore[override]
        """The encoding of the original stream."""
        return self._original.encoding

    @property
    def buffer(self) -> Any:
        """The binary stream below the original stream, for code that writes bytes."""
        return self._original.buffer

    def _send_line(self, line: str, transform: str) -> None:
        excess = self._budget.count_printed_line()
        if excess is None:
            self._original.write(f"{line}\n")
            return
        if excess:
            self._records.queue_record(make_print_record(describe_excess_lines(excess), transform))
        self._records.queue_record(make_print_record(line, transform))


class LineBudget:
    """A limit for the number of printed lines: `LINES_PER_SECOND` on average. Thread-safe.

    Args:
        clock: returns a time in seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._room = float(_BURST)
        self._refilled = clock()
        self._excess = 0

    def count_printed_line(self) -> int | None:
        """Returns the number of lines beyond the limit since the last line within; None if the line is beyond."""
        with self._lock:
            now = self._clock()
            self._room = min(_BURST, self._room + (now - self._refilled) * LINES_PER_SECOND)
            self._refilled = now
            if self._room < 1:
                self._excess += 1
                return None
            self._room -= 1
            excess, self._excess = self._excess, 0
            return excess


def get_current_transform_id() -> str:
    """Returns the id of the transform that this thread is running; empty if Beam doesn't know the transform."""
    tracker = statesampler.get_current_tracker()
    if tracker is None:
        return ""
    context = getattr(tracker.current_state(), "name_context", None)
    return getattr(context, "transform_id", None) or ""


def describe_excess_lines(count: int) -> str:
    """Returns the text of the record that replaces lines beyond the limit."""
    return (
        f"({count} printed lines are only in the output of the worker process, because user code"
        f" prints more than {LINES_PER_SECOND} lines per second)"
    )


def make_print_record(line: str, transform: str = "") -> LogRecord:
    """Returns the record of a printed line; ``transform`` is empty if unknown."""
    return LogRecord(
        severity=Severity.INFO,
        time_ms=int(time.time() * 1000),
        message=f"{PRINT_PREFIX}{line}",
        transform_id=transform,
        location="print",
    )
