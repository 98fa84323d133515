"""Pipeline options of this runner, in addition to Beam's options: descriptions and parsing."""

from __future__ import annotations

import enum
import json
from collections.abc import Mapping
from typing import Any

import attrs
from beam_runner_model.jobs import OptionType

from beam_runner_runtime.option_errors import InvalidOptionError
from beam_runner_runtime.option_values import (
    format_option_value,
    make_option_key,
    read_option_value,
)
from beam_runner_runtime.user_variables import EnvironmentVariablesOption

_DIGITS = 20


def is_loopback(options_json: str) -> bool:
    """Returns True if the client's program runs the job's user code itself (``LOOPBACK``).

    Args:
        options_json: pipeline options of the job, as the client sent them.
    """
    options = json.loads(options_json or "{}")
    # Python and Go clients use the option `environment_type`, and Java clients use
    # `default_environment_type`.
    names = ("environment_type", "default_environment_type")
    urns = (make_option_key(name) for name in names)
    return "LOOPBACK" in [options.get(name) for name in (*urns, *names)]


class BulkMode(enum.Enum):
    """Values of the setting that decides whether bounded stages run together as one Spark job (a
    section), with Spark's shuffle.
    """

    AUTO = "auto"
    """Use Spark jobs if the machines don't share a store for the data between stages."""
    ALWAYS = "always"
    NEVER = "never"


@attrs.frozen
class NumericOption:
    """Pipeline option with a numeric value.

    Attributes:
        name: name without dashes.
        description: text for ``--help``, with the default.
    """

    name: str
    least: int
    most: int
    description: str

    @property
    def type(self) -> OptionType:
        """Type of the option, for the Job API."""
        return OptionType.INTEGER

    def parse_value(self, options: Mapping[str, Any]) -> int | None:
        """Returns the value from a job's options, or None if the option is absent.

        Raises:
            InvalidOptionError: The value isn't a number or is out of range.
        """
        value = read_option_value(options, self.name)
        if value is None:
            return None
        text = str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)
        # Check the length first, because Python raises another error for numbers with thousands of digits.
        is_short = text.isdecimal() and len(text) <= _DIGITS
        if not is_short or not self.least <= int(text) <= self.most:
            raise InvalidOptionError(
                f"--{self.name} is {format_option_value(value)}; expected a number from"
                f" {self.least} to {self.most}"
            )
        return int(text)


@attrs.frozen
class ChoiceOption:
    """Pipeline option with an enumerated value.

    Attributes:
        name: name without dashes.
        description: text for ``--help``, with the default.
    """

    name: str
    choices: type[BulkMode]
    description: str

    @property
    def type(self) -> OptionType:
        """Type of the option, for the Job API."""
        return OptionType.STRING

    def parse_value(self, options: Mapping[str, Any]) -> BulkMode | None:
        """Returns the value from a job's options, or None if the option is absent.

        Raises:
            InvalidOptionError: The value isn't a valid choice.
        """
        value = read_option_value(options, self.name)
        if value is None:
            return None
        words = [each.value for each in self.choices]
        if value not in words:
            raise InvalidOptionError(
                f"--{self.name} is {format_option_value(value)}; expected one of {', '.join(words)}"
            )
        return self.choices(value)


TASK_ATTEMPTS = NumericOption(
    "beam_spark_task_attempts",
    1,
    100,
    "maximum attempts at a bundle whose user code raises (default: the server's flag;"
    " without limit in a stream)",
)
KEY_SHARDS = NumericOption(
    "beam_spark_key_shards",
    2,
    4096,
    "number of key shards of each GroupByKey and stateful ParDo (default: a few per core)",
)
CHECKPOINT_INTERVAL = NumericOption(
    "beam_spark_checkpoint_interval_ms",
    50,
    3_600_000,
    "milliseconds after which a splittable DoFn is checkpointed and its work committed"
    " (default: 500 in a stream, otherwise 10000)",
)
BULK = ChoiceOption(
    "beam_spark_bulk",
    BulkMode,
    "the same as --bulk of the server, for this job (default: the server's flag)",
)
VARIABLES = EnvironmentVariablesOption(
    "beam_spark_env",
    "an environment variable for user code; without =VALUE, the value in this program;"
    " can be repeated",
)
NUMBERS = (TASK_ATTEMPTS, KEY_SHARDS, CHECKPOINT_INTERVAL)
JOB_OPTIONS = (*NUMBERS, BULK, VARIABLES)


@attrs.frozen
class RunnerOptions:
    """Parsed runner options of a job; None or empty for each absent option."""

    task_attempts: int | None = None
    key_shards: int | None = None
    checkpoint_interval: int | None = None
    bulk: BulkMode | None = None
    variables: Mapping[str, str] = attrs.field(factory=dict, repr=False)
    """Environment variables of user code, by name."""


def parse_runner_options(options: Mapping[str, Any]) -> RunnerOptions:
    """Returns the parsed runner options of a job.

    Raises:
        InvalidOptionError: An option has an invalid value.
    """
    return RunnerOptions(
        TASK_ATTEMPTS.parse_value(options),
        KEY_SHARDS.parse_value(options),
        CHECKPOINT_INTERVAL.parse_value(options),
        BULK.parse_value(options),
        VARIABLES.parse_value(options),
    )
