"""Tests that lines that user code prints reach the runner with the name of the transform, and that
the number of lines per second is limited.
"""

from __future__ import annotations

import io

import pytest
from beam_runner_model.jobs import PRINT_PREFIX

from beam_runner_worker import prints
from beam_runner_worker.log_records import LogRecord, Severity
from beam_runner_worker.prints import LINES_PER_SECOND, PrintCapture


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


class Printer:
    """A capture whose running transform, clock and records a test sets and reads."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.transform = "Step"
        monkeypatch.setattr(prints, "get_current_transform_id", lambda: self.transform)
        self.records: list[LogRecord] = []
        self.original = io.StringIO()
        self.clock = Clock()
        self.is_sending = False
        self.capture = PrintCapture(self.original, self, self.clock)

    def queue_record(self, entry: LogRecord) -> None:
        self.records.append(entry)

    def print(self, *words: object, end: str = "\n") -> None:
        print(*words, end=end, file=self.capture)

    def lines(self) -> list[tuple[str, str]]:
        return [(one.transform_id, one.message.removeprefix(PRINT_PREFIX)) for one in self.records]


@pytest.fixture
def printer(monkeypatch: pytest.MonkeyPatch) -> Printer:
    return Printer(monkeypatch)


def test_printed_lines_are_sent_with_their_transform(printer: Printer) -> None:
    printer.print("a", 1, end="")
    assert printer.records == []
    printer.print("\nb")
    assert printer.lines() == [("Step", "a 1"), ("Step", "b")]
    assert printer.records[0].severity is Severity.INFO
    assert printer.records[0].message == f"{PRINT_PREFIX}a 1"
    assert printer.original.getvalue() == ""


def test_incomplete_printed_line_is_sent_at_end_or_by_next_transform(printer: Printer) -> None:
    printer.print("first", end="")
    printer.transform = "Other"
    printer.print("second", end="")
    printer.capture.send_incomplete_line()
    printer.capture.send_incomplete_line()
    assert printer.lines() == [("Step", "first"), ("Other", "second")]


def test_printed_output_outside_of_transforms_is_passed_on(printer: Printer) -> None:
    printer.transform = ""
    printer.print("from a library")
    assert printer.records == []
    assert printer.original.getvalue() == "from a library\n"


def test_printed_output_of_log_sink_is_passed_on(printer: Printer) -> None:
    printer.is_sending = True
    printer.print("records")
    assert printer.records == []
    assert printer.original.getvalue() == "records\n"


def test_excess_printed_lines_are_dropped_and_counted(printer: Printer) -> None:
    for number in range(10_000):
        printer.print(number)
    sent = len(printer.records)
    assert sent < 1_000
    assert printer.original.getvalue().splitlines()[-1] == "9999"
    printer.clock.now += 10 / LINES_PER_SECOND
    printer.print("later")
    note, last = printer.lines()[sent:]
    assert str(10_000 - sent) in note[1]
    assert last == ("Step", "later")
