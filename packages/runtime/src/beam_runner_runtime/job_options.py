"""Pipeline options of this runner, in addition to Beam's options: descriptions and parsing."""

from __future__ import annotations

import enum
import json
from collections.abc import Mapping
from typing import Any

import attrs
from beam_runner_model.texts import truncate_text
from beam_runner_urns import options as option_urns

_DIGITS = 20
_SHOWN = 100


class InvalidOptionError(ValueError):
    """Error for an option with an invalid value; the text names the valid values."""


def _format_value(value: Any) -> str:
    return truncate_text(repr(value), _SHOWN)


def is_loopback(options_json: str) -> bool:
    """Returns True if the program that submitted a job runs the job's user code itself.

    Args:
        options_json: pipeline options of the job, as the client sent them.
    """
    options = json.loads(options_json or "{}")
    # Python and Go clients use the option `environment_type`, and Java clients use
    # `default_environment_type`.
    names = ("environment_type", "default_environment_type")
    urns = (f"{option_urns.PREFIX}{name}{option_urns.SUFFIX}" for name in names)
    return "LOOPBACK" in [options.get(name) for name in (*urns, *names)]


class BulkMode(enum.Enum):
    """Setting that decides whether bounded stages run together as one Spark job, with Spark's shuffle."""

    AUTO = "auto"
    """Spark jobs are used if bundles on different machines share no store for data between stages."""
    ALWAYS = "always"
    NEVER = "never"


@attrs.frozen
class NumericOption:
    """Pipeline option with a numeric value.

    Attributes:
        name: name without dashes.
        least: minimum value.
        most: maximum value.
        description: text for ``--help``, with the default.
    """

    name: str
    least: int
    most: int
    description: str

    def parse_value(self, options: Mapping[str, Any]) -> int | None:
        """Returns the value from a job's options, or None if the option is absent.

        Raises:
            InvalidOptionError: The value isn't a number or is out of range.
        """
        value = options.get(f"{option_urns.PREFIX}{self.name}{option_urns.SUFFIX}")
        if value is None:
            return None
        text = str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)
        # Check the number of digits first, because Python refuses to parse numbers of thousands of
        # digits.
        is_short = text.isdecimal() and len(text) <= _DIGITS
        if not is_short or not self.least <= int(text) <= self.most:
            raise InvalidOptionError(
                f"--{self.name} is {_format_value(value)}; expected a number from {self.least}"
                f" to {self.most}"
            )
        return int(text)


@attrs.frozen
class ChoiceOption:
    """Pipeline option with an enumerated value.

    Attributes:
        name: name without dashes.
        choices: valid values.
        description: text for ``--help``, with the default.
    """

    name: str
    choices: type[BulkMode]
    description: str

    def parse_value(self, options: Mapping[str, Any]) -> BulkMode | None:
        """Returns the value from a job's options, or None if the option is absent.

        Raises:
            InvalidOptionError: The value isn't a valid choice.
        """
        value = options.get(f"{option_urns.PREFIX}{self.name}{option_urns.SUFFIX}")
        if value is None:
            return None
        words = [each.value for each in self.choices]
        if value not in words:
            raise InvalidOptionError(
                f"--{self.name} is {_format_value(value)}; expected one of {', '.join(words)}"
            )
        return self.choices(value)


TASK_ATTEMPTS = NumericOption(
    "beam_spark_task_attempts",
    1,
    100,
    "maximum number of attempts at a bundle whose user code raises, before the job"
    " fails (default: the value of the server's flag; without limit in a stream)",
)
KEY_SHARDS = NumericOption(
    "beam_spark_key_shards",
    2,
    4096,
    "number of shards for the keys of each GroupByKey and stateful ParDo (default: a few per core)",
)
CHECKPOINT_INTERVAL = NumericOption(
    "beam_spark_checkpoint_interval_ms",
    50,
    3_600_000,
    "milliseconds after which a source or another splittable DoFn is checkpointed, so"
    " that its work is committed (default: 500 if the pipeline is streaming, otherwise"
    " 10000)",
)
BULK = ChoiceOption(
    "beam_spark_bulk",
    BulkMode,
    "whether stages of bounded data run together as one Spark job, with Spark's"
    " shuffle between them: always if possible, never, or auto: if machines share no"
    " store for data between stages (default: the value of the server's flag)",
)
NUMBERS = (TASK_ATTEMPTS, KEY_SHARDS, CHECKPOINT_INTERVAL)
JOB_OPTIONS = (*NUMBERS, BULK)


@attrs.frozen
class RunnerOptions:
    """Parsed runner options of a job; None for each absent option."""

    task_attempts: int | None = None
    key_shards: int | None = None
    checkpoint_interval: int | None = None
    bulk: BulkMode | None = None


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
    )
