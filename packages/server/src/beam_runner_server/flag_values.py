"""Parsers for the values of flags.

Raises:
    argparse.ArgumentTypeError: by each function, if a text is invalid.
"""

from __future__ import annotations

import argparse
import re
from pathlib import Path

from beam_runner_runtime import durations
from beam_runner_runtime.channel.place import parse_host_and_port
from beam_runner_storage.stores.spec import StoreSpec, parse_data_dir


def parse_port(text: str) -> int:
    """Parses a port number; 0 selects a free port."""
    if not text.isdecimal() or int(text) > 65535:
        raise argparse.ArgumentTypeError(f"expected a port from 0 to 65535, got {text!r}")
    return int(text)


def parse_process_id(text: str) -> int:
    """Parses a process id."""
    return _parse_positive_integer(text, "the id of a process")


def parse_duration(text: str) -> float | None:
    """Parses a duration in Go's format or in days; returns seconds, or None for a negative duration."""
    if re.fullmatch(r"-(\d+(\.\d+)?)(d|h|m|s|ms|us|ns)?", text):
        return None
    try:
        return durations.parse_duration(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def parse_retention(text: str) -> float:
    """Parses a non-negative duration; returns seconds."""
    seconds = 0.0 if text == "0" else parse_duration(text)
    if seconds is None:
        raise argparse.ArgumentTypeError(f"expected a duration of 0 or more, got {text!r}")
    return seconds


def parse_boolean(text: str) -> bool:
    """Parses a boolean in Go's format."""
    if text.lower() not in ("true", "false"):
        raise argparse.ArgumentTypeError(f"expected true or false, got {text!r}")
    return text.lower() == "true"


def parse_data_location(text: str) -> StoreSpec:
    """Parses the URL of a store, or the path of a folder as a store."""
    try:
        return parse_data_dir(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def parse_state_dir(text: str) -> StoreSpec | Path:
    """Parses the URL of a store, or the path of a folder."""
    return parse_data_location(text) if "://" in text else Path(text)


def parse_count(text: str) -> int:
    """Parses a positive number."""
    return _parse_positive_integer(text, "a number of 1 or more")


def parse_max_attempts(text: str) -> int | None:
    """Returns the maximum number of attempts; None for ``unlimited``."""
    return (
        None
        if text.lower() == "unlimited"
        else _parse_positive_integer(text, "a number of 1 or more, or unlimited")
    )


def parse_cores(text: str) -> int:
    """Parses a positive number of cores."""
    return _parse_positive_integer(text, "a number of cores of 1 or more")


def _parse_positive_integer(text: str, expected: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"expected {expected}, got {text!r}")
    return int(text)


def parse_advertised_address(text: str) -> tuple[str, int]:
    """Returns the host and port under which other machines reach this one; the port is 0 if the text has none."""
    try:
        return parse_host_and_port(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error
