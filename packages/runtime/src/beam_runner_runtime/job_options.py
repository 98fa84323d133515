"""The pipeline options of a job that this runner understands beyond Beam's own: described, and read."""

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


class WrongOption(ValueError):
    """An option has a value that it cannot have; the text says which it can."""


def _shown(value: Any) -> str:
    return truncate_text(repr(value), _SHOWN)


def is_loopback(options_json: str) -> bool:
    """Whether the program that submitted a job runs the job's user code itself.

    Args:
        options_json: the job's options, as the client sent them.
    """
    options = json.loads(options_json or "{}")
    # The first is the name for Python and Go, the second for Java.
    names = ("environment_type", "default_environment_type")
    urns = (f"{option_urns.PREFIX}{name}{option_urns.SUFFIX}" for name in names)
    return "LOOPBACK" in [options.get(name) for name in (*urns, *names)]


class Bulk(enum.Enum):
    """Whether Spark carries bounded work as jobs of its own: what goes between stages crosses its shuffle."""

    AUTO = "auto"
    """Where bundles share no place for data between stages."""
    ALWAYS = "always"
    NEVER = "never"


@attrs.frozen
class JobOption:
    """An option whose value is a number.

    Attributes:
        name: without dashes.
        least, most: what it may be.
        description: for ``--help``; what is the case where it is not given.
    """

    name: str
    least: int
    most: int
    description: str

    def asked(self, options: Mapping[str, Any]) -> int | None:
        """The value that a job's options give it; None if they don't.

        Raises:
            WrongOption: it is no number, or out of bounds.
        """
        value = options.get(f"{option_urns.PREFIX}{self.name}{option_urns.SUFFIX}")
        if value is None:
            return None
        text = str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)
        # Python refuses to make a number of thousands of digits.
        is_short = text.isdecimal() and len(text) <= _DIGITS
        if not is_short or not self.least <= int(text) <= self.most:
            raise WrongOption(
                f"--{self.name} is to be a number from {self.least} to {self.most}, not {_shown(value)}"
            )
        return int(text)


@attrs.frozen
class JobChoice:
    """An option whose value is one of some words.

    Attributes:
        name: without dashes.
        choices: the words.
        description: for ``--help``; what is the case where it is not given.
    """

    name: str
    choices: type[Bulk]
    description: str

    def asked(self, options: Mapping[str, Any]) -> Bulk | None:
        """The value that a job's options give it; None if they don't.

        Raises:
            WrongOption: it is none of the words.
        """
        value = options.get(f"{option_urns.PREFIX}{self.name}{option_urns.SUFFIX}")
        if value is None:
            return None
        words = [each.value for each in self.choices]
        if value not in words:
            raise WrongOption(
                f"--{self.name} is to be one of {', '.join(words)}, not {_shown(value)}"
            )
        return self.choices(value)


TASK_ATTEMPTS = JobOption(
    "beam_spark_task_attempts",
    1,
    100,
    "most attempts at a bundle whose user code raises, before the job fails (default: what the server"
    " was started with, and without limit in a stream)",
)
KEY_SHARDS = JobOption(
    "beam_spark_key_shards",
    2,
    4096,
    "into how many shards the keys of each GroupByKey and stateful ParDo are dealt out (default: a"
    " few for each core)",
)
CHECKPOINT_INTERVAL = JobOption(
    "beam_spark_checkpoint_interval_ms",
    50,
    3_600_000,
    "after how many milliseconds a source or another splittable DoFn is asked to stop, so that what it"
    " has done is committed (default: 500 where the pipeline is streaming, else 10000)",
)
BULK = JobChoice(
    "beam_spark_bulk",
    Bulk,
    "whether stages of bounded data are run together as one Spark job, with what goes between them in Spark's"
    " shuffle: always where they can be, never, or auto: where machines share no place for"
    " data between stages"
    " (default: what the server was started with)",
)
NUMBERS = (TASK_ATTEMPTS, KEY_SHARDS, CHECKPOINT_INTERVAL)
JOB_OPTIONS = (*NUMBERS, BULK)


@attrs.frozen
class JobWishes:
    """What a job's options ask for; None where they don't."""

    task_attempts: int | None = None
    key_shards: int | None = None
    checkpoint_interval: int | None = None
    bulk: Bulk | None = None


def job_wishes(options: Mapping[str, Any]) -> JobWishes:
    """What a job's options ask for.

    Raises:
        WrongOption: an option has a value that it cannot have.
    """
    return JobWishes(
        TASK_ATTEMPTS.asked(options),
        KEY_SHARDS.asked(options),
        CHECKPOINT_INTERVAL.asked(options),
        BULK.asked(options),
    )
