"""Parser of the job messages that contain lines printed by user code in workers."""

from __future__ import annotations

from beam_runner_model.jobs import PRINT_PREFIX, JobMessage


def read_printed_line(message: JobMessage) -> str | None:
    """Returns the printed line in a job message, with the step if known; None for any other message."""
    if message.text.startswith(PRINT_PREFIX):
        return message.text.removeprefix(PRINT_PREFIX)
    step, found, line = message.text.partition(f"] {PRINT_PREFIX}")
    return f"{step}] {line}" if found and step.startswith("[") and "\n" not in step else None
