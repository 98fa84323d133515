"""Search for the reason in the output of a Java process that didn't start."""

from __future__ import annotations

import re
from collections.abc import Sequence

_GENERAL = re.compile(
    r"Picked up \w+: |Error: Could not create the Java Virtual Machine|Error: A fatal exception has"
    r" occurred|Error occurred during initialization of VM"
)
"""Lines that Java writes before or after the reason."""
_ERROR = re.compile(r"(?i)error|exception")


def is_stack_frame(line: str) -> bool:
    """Returns whether a line is a frame of a Java stack trace."""
    return line.startswith(("\tat ", "\t..."))


def find_start_error(lines: Sequence[str]) -> str:
    """Returns the line that says why Java didn't start; empty if Java wrote no such line.

    Spark's errors have the word "error" or "exception", and most reasons of Java's launcher don't.
    """
    telling = [line for line in lines if not _GENERAL.match(line) and not is_stack_frame(line)]
    errors = [line for line in telling if _ERROR.search(line)]
    return (errors or telling or [*lines, ""])[0]
