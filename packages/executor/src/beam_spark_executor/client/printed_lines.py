"""Lines that user code in workers printed."""

from __future__ import annotations

from beam_runner_model.jobs import PRINT_PREFIX, JobMessage


def read_printed_line(message: JobMessage) -> str | None:
    """Returns the step and the printed line of a message; None if the message is no printed line."""
    step, found, line = message.text.partition(f"] {PRINT_PREFIX}")
    return f"{step}] {line}" if found and step.startswith("[") and "\n" not in step else None
