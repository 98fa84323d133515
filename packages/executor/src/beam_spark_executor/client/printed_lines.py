"""Parsing of job messages that carry lines printed by user code in workers."""

from __future__ import annotations

from beam_runner_model.jobs import PRINT_PREFIX, JobMessage


def read_printed_line(message: JobMessage) -> str | None:
    """Returns the step and the printed line in a job message; None for any other message."""
    step, found, line = message.text.partition(f"] {PRINT_PREFIX}")
    return f"{step}] {line}" if found and step.startswith("[") and "\n" not in step else None
