"""Checks of the options of a new job."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from beam_runner_jobservices.errors import JobRejected
from beam_runner_model.jobs import JobSpec
from beam_runner_runtime.option_errors import InvalidOptionError

_Parsed = TypeVar("_Parsed")


def parse_options(job: JobSpec, parse: Callable[[Mapping[str, Any]], _Parsed]) -> _Parsed:
    """Parses a job's options with `parse`, and converts errors of `parse` to `JobRejected`.

    Raises:
        JobRejected: an option has an invalid value.
    """
    try:
        return parse(job.options)
    except InvalidOptionError as error:
        raise JobRejected(str(error), unsupported=False) from error
