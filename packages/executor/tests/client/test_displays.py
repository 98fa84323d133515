from __future__ import annotations

import io

import pytest

from beam_spark_executor.client.displays import (
    LineDisplay,
    ProgressMode,
    SilentDisplay,
    TerminalDisplay,
    make_progress_display,
)

CLEAR = "\r\x1b[K"


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("mode", "stream", "kind"),
    [
        (ProgressMode.AUTO, Terminal(), TerminalDisplay),
        (ProgressMode.AUTO, io.StringIO(), LineDisplay),
        (ProgressMode.LINES, Terminal(), LineDisplay),
        (ProgressMode.OFF, Terminal(), SilentDisplay),
    ],
)
def test_progress_display_is_selected_by_option_and_stream(
    mode: ProgressMode, stream: io.StringIO, kind: type, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TERM", "xterm")
    assert type(make_progress_display(mode, stream)) is kind


def test_progress_display_on_terminal_without_control_sequences_prints_lines(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TERM", "dumb")
    assert type(make_progress_display(ProgressMode.AUTO, Terminal())) is LineDisplay


def test_progress_display_on_terminal_redraws_status_after_other_output(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("COLUMNS", "20")
    stream = Terminal()
    display = TerminalDisplay(stream)
    display.set_status("RUNNING")
    display.set_status("RUNNING")
    display.write_line("a line")
    with display.pause():
        stream.write("a log\n")
    display.set_status("x" * 30)
    display.set_status("")
    status = f"{CLEAR}RUNNING\r"
    assert stream.getvalue() == (
        f"{status}{CLEAR}a line\n{status}{CLEAR}a log\n{status}{CLEAR}{'x' * 18}…\r{CLEAR}"
    )


def test_progress_display_of_lines_omits_status() -> None:
    stream = io.StringIO()
    display = LineDisplay(stream)
    display.set_status("RUNNING")
    display.write_line("a line")
    assert stream.getvalue() == "a line\n"


@pytest.mark.parametrize("display", [TerminalDisplay, LineDisplay])
def test_progress_display_ignores_closed_stream(
    display: type[TerminalDisplay | LineDisplay],
) -> None:
    stream = io.StringIO()
    stream.close()
    display(stream).write_line("a line")
