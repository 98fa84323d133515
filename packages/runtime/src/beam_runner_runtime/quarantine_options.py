"""Pipeline options of a job's quarantine, the store for elements that always fail."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs

from beam_runner_runtime.job_options import NumericOption
from beam_runner_runtime.option_errors import InvalidOptionError
from beam_runner_runtime.option_values import TextOption

_DEFAULT_ATTEMPTS = 4
_DEFAULT_LIMIT = 1000
_DEFAULT_PER_HOUR = 100
_MOST = 1_000_000

QUARANTINE = TextOption(
    "beam_spark_quarantine",
    "URL",
    "folder, or URL of a store, for elements that always fail in a stream; the stream"
    " continues without them",
)
QUARANTINE_STEPS = TextOption(
    "beam_spark_quarantine_steps",
    "NAME",
    "full name of a step or composite whose elements may go to the quarantine; can be"
    " repeated (default: all steps)",
    is_repeated=True,
)
QUARANTINE_ATTEMPTS = NumericOption(
    "beam_spark_quarantine_attempts",
    1,
    100,
    "number of attempts in which an element must fail by itself before it goes to"
    f" --beam_spark_quarantine (default: {_DEFAULT_ATTEMPTS})",
)
QUARANTINE_LIMIT = NumericOption(
    "beam_spark_quarantine_limit",
    1,
    _MOST,
    "maximum number of elements in --beam_spark_quarantine; with more, the stream waits"
    f" (default: {_DEFAULT_LIMIT})",
)
QUARANTINE_PER_HOUR = NumericOption(
    "beam_spark_quarantine_per_hour",
    1,
    _MOST,
    "maximum number of elements that go to --beam_spark_quarantine in an hour; with more, the"
    f" stream waits (default: {_DEFAULT_PER_HOUR})",
)
QUARANTINE_TEXTS = (QUARANTINE, QUARANTINE_STEPS)
QUARANTINE_NUMBERS = (QUARANTINE_ATTEMPTS, QUARANTINE_LIMIT, QUARANTINE_PER_HOUR)
QUARANTINE_OPTIONS = (*QUARANTINE_TEXTS, *QUARANTINE_NUMBERS)


@attrs.frozen
class QuarantineOptions:
    """Values of a job's quarantine options.

    Attributes:
        url: folder, or URL of an object store, for the quarantined elements.
        steps: full names of the steps or composites whose elements may go to quarantine; empty for
            all steps.
        attempts: number of failures after which an element goes to quarantine.
        limit: maximum number of quarantined elements.
        per_hour: maximum number of quarantined elements in an hour.
    """

    url: str
    steps: tuple[str, ...] = ()
    attempts: int = _DEFAULT_ATTEMPTS
    limit: int = _DEFAULT_LIMIT
    per_hour: int = _DEFAULT_PER_HOUR


def parse_quarantine_options(options: Mapping[str, Any]) -> QuarantineOptions | None:
    """Reads a job's options for the quarantine (store for elements that always fail). Returns None
    if the job has no quarantine.

    Raises:
        InvalidOptionError: An option has an invalid value, or has no effect.
    """
    url = QUARANTINE.parse_value(options)
    steps = QUARANTINE_STEPS.parse_value(options)
    numbers = [option.parse_value(options) for option in QUARANTINE_NUMBERS]
    if url:
        attempts, limit, per_hour = numbers
        return QuarantineOptions(
            url[0],
            tuple(step.strip() for step in steps),
            attempts or _DEFAULT_ATTEMPTS,
            limit or _DEFAULT_LIMIT,
            per_hour or _DEFAULT_PER_HOUR,
        )
    names = [QUARANTINE_STEPS.name, *(option.name for option in QUARANTINE_NUMBERS)]
    for name, value in zip(names, (steps, *numbers), strict=True):
        if value:
            raise InvalidOptionError(
                f"--{name} has no effect without --{QUARANTINE.name}: set"
                f" --{QUARANTINE.name}=URL as well"
            )
    return None
