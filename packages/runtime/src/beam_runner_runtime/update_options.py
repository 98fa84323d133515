"""Pipeline options for updates, rollbacks and starts from a savepoint, by which a job continues
with the state of another job.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

import attrs
from beam_runner_model.jobs import JobSpec
from beam_runner_model.updates import UpdateInstructions

from beam_runner_runtime.durations import parse_duration
from beam_runner_runtime.option_errors import InvalidOptionError
from beam_runner_runtime.option_values import (
    TextOption,
    format_option_value,
    make_option_key,
    read_option_value,
    remove_options,
)

_UPDATE = "update"
_MAPPING = "transform_name_mapping"
_DEFAULT_QUIET = 10.0
_LONGEST_QUIET = 3600.0
_DEFAULT_KEEP = 3600.0
_LONGEST_KEEP = 7 * 86_400.0
_DEFAULT_SHADOW = 60.0
_LONGEST_SHADOW = 86_400.0
CHECK = "check"
"""The value of ``--beam_spark_update`` that requests a report without an update."""
SHADOW = "shadow"
"""The value of ``--beam_spark_update`` that requests a shadow run."""

UPDATE = TextOption(
    "beam_spark_update",
    f"{CHECK}|{SHADOW}",
    "compare the pipeline with the running job that --update would replace (check), or also run both"
    " programs on copies of the state, and compare their outputs (shadow); the job ends with a report",
)
UPDATE_JOB = TextOption(
    "beam_spark_update_job",
    "ID",
    "ID of the running job that --update replaces (default: the running job with the same"
    " --job_name)",
)
UPDATE_DROP = TextOption(
    "beam_spark_update_drop",
    "NAME",
    "step (STEP), or state or timer (STEP/STATE), whose data --update may drop; all"
    " permits each drop; can be repeated",
    is_repeated=True,
)
UPDATE_TRUST = TextOption(
    "beam_spark_update_trust",
    "NAME",
    "step (STEP) or state (STEP/STATE) whose new coder reads what the old coder wrote;"
    " can be repeated",
    is_repeated=True,
)
UPDATE_QUIET = TextOption(
    "beam_spark_update_quiet",
    "DURATION",
    "longest time in which the running job finishes its open bundles before --update"
    " replaces it (default: 10s)",
)
UPDATE_KEEP = TextOption(
    "beam_spark_update_keep",
    "DURATION",
    "time, at most 7d, for which the command `update --back` can start the replaced"
    " program again (default: 1h)",
)
SAVEPOINT = TextOption(
    "beam_spark_from_savepoint",
    "URL",
    "savepoint whose state the job continues with: a folder of the server, or a store",
)
SHADOW_DURATION = TextOption(
    "beam_spark_shadow_duration",
    "DURATION",
    "duration of the shadow run with --beam_spark_update=shadow, at most 24h (default: 1m)",
)
SHADOW_SKIP = TextOption(
    "beam_spark_shadow_skip",
    "NAME",
    "full name of a step or composite that a shadow run doesn't execute; its input is compared; can"
    " be repeated (default: steps without readers, with stable input or with finalization)",
    is_repeated=True,
)
SHADOW_REREAD = TextOption(
    "beam_spark_shadow_reread",
    "NAME",
    "full name of a source with finalization that a shadow run may read a second time, such as a"
    " read of Kafka; can be repeated (default: a shadow run refuses such sources)",
    is_repeated=True,
)
UPDATE_OPTIONS = (
    UPDATE,
    UPDATE_JOB,
    UPDATE_DROP,
    UPDATE_TRUST,
    UPDATE_QUIET,
    UPDATE_KEEP,
    SHADOW_DURATION,
    SHADOW_SKIP,
    SHADOW_REREAD,
    SAVEPOINT,
)
_ROLLBACK = "beam_spark_rollback"
"""Name of the option that the server sets for a rollback. The value is the ID of the earlier job
whose program runs again.
"""
_OF_RUNNING_JOBS = (UPDATE_JOB, UPDATE_QUIET, UPDATE_KEEP)
"""Options that have no effect if the job starts from a savepoint."""


@attrs.frozen
class ShadowOptions:
    """Parsed options of a shadow run.

    Attributes:
        seconds: duration of the run.
        skip: steps and composites that the run doesn't execute.
        reread: sources with finalization that the run may read.
        is_followed_by_update: whether the job replaces the running job if the outputs are equal.
    """

    seconds: float = _DEFAULT_SHADOW
    skip: frozenset[str] = frozenset()
    reread: frozenset[str] = frozenset()
    is_followed_by_update: bool = False


@attrs.frozen
class UpdateOptions:
    """Values of the options for an update, a rollback or a start from a savepoint.

    Attributes:
        is_check: whether the server only compares the jobs, without an update.
        job_id: ID of the job to replace; empty to find the job by its name.
        wishes: renamed steps, and data that the user permits to drop or considers compatible.
        quiet_seconds: maximum time for which the update waits until no bundle is open.
        keep_seconds: time for which the server retains the program of the replaced job.
        savepoint: URL of the savepoint with which the job continues; empty if the job replaces a
            running job.
        rollback_to: ID of the job whose program the job runs again; empty for an update.
        shadow: the shadow run before the update; None without one.
    """

    is_check: bool = False
    job_id: str = ""
    wishes: UpdateInstructions = attrs.field(factory=UpdateInstructions)
    quiet_seconds: float = _DEFAULT_QUIET
    keep_seconds: float = _DEFAULT_KEEP
    savepoint: str = ""
    rollback_to: str = ""
    shadow: ShadowOptions | None = None


def parse_update_options(options: Mapping[str, Any]) -> UpdateOptions | None:
    """Reads the update options of a job. Returns None if the job doesn't continue another job.

    Raises:
        InvalidOptionError: An option has an invalid value, or has no effect without ``--update``.
    """
    mode = _read_text(options, UPDATE)
    if mode not in ("", CHECK, SHADOW):
        raise InvalidOptionError(
            f"--{UPDATE.name} is {format_option_value(mode)}; expected {CHECK} or {SHADOW}, or no"
            " value with --update"
        )
    savepoint = _read_text(options, SAVEPOINT)
    is_update = _is_update(read_option_value(options, _UPDATE))
    if savepoint and is_update:
        raise InvalidOptionError(
            f"--{SAVEPOINT.name} and --update can't be used together: the first starts a job from "
            "a savepoint, the second replaces a running job"
        )
    if savepoint and mode == SHADOW:
        raise InvalidOptionError(
            f"--{UPDATE.name}={SHADOW} and --{SAVEPOINT.name} can't be used together: a shadow run copies"
            " the state of a running job"
        )
    if savepoint:
        _refuse_options(options, _OF_RUNNING_JOBS, f"--{SAVEPOINT.name}")
    elif not mode and not is_update:
        for option in UPDATE_OPTIONS:
            if read_option_value(options, option.name) is not None:
                raise InvalidOptionError(
                    f"--{option.name} has no effect without --update: set --update as well"
                )
        return None
    if mode != SHADOW:
        _refuse_options(
            options,
            (SHADOW_DURATION, SHADOW_SKIP, SHADOW_REREAD),
            f"--{UPDATE.name} other than {SHADOW}",
        )
    rollback_to = str(read_option_value(options, _ROLLBACK) or "")
    return UpdateOptions(
        mode == CHECK,
        _read_text(options, UPDATE_JOB),
        UpdateInstructions(
            _read_mapping(options),
            _read_names(options, UPDATE_DROP),
            _read_names(options, UPDATE_TRUST),
            is_rollback=bool(rollback_to),
        ),
        _read_duration(options, UPDATE_QUIET, _DEFAULT_QUIET, _LONGEST_QUIET),
        _read_duration(options, UPDATE_KEEP, _DEFAULT_KEEP, _LONGEST_KEEP),
        savepoint,
        rollback_to,
        _read_shadow(options, is_update=is_update) if mode == SHADOW else None,
    )


def remove_update_options(options: Mapping[str, Any]) -> Mapping[str, Any]:
    """Returns the options of a job without those of updates."""
    names = (_UPDATE, _MAPPING, _ROLLBACK, *(option.name for option in UPDATE_OPTIONS))
    return remove_options(options, names)


def make_rollback_options(
    replaced: JobSpec, job_id: str, wishes: UpdateInstructions, *, quiet: str, is_check: bool
) -> Mapping[str, Any]:
    """Returns the options for a rollback: the program of an earlier job replaces the running job.

    Args:
        replaced: the earlier job, which an update replaced.
        job_id: ID of the running job.
        wishes: renamed steps, and data that the user permits to drop or considers compatible.
        quiet: value of ``--beam_spark_update_quiet``; empty for the default.
        is_check: whether only the report is requested.
    """
    values: dict[str, Any] = {
        _UPDATE: True,
        _ROLLBACK: replaced.job_id,
        UPDATE_JOB.name: job_id,
        # A rollback can't be rolled back, so the server needn't keep the program of the running job.
        UPDATE_KEEP.name: "0s",
        _MAPPING: dict(wishes.mapping) or None,
        UPDATE_DROP.name: sorted(wishes.drop) or None,
        UPDATE_TRUST.name: sorted(wishes.trust) or None,
        UPDATE_QUIET.name: quiet or None,
        UPDATE.name: CHECK if is_check else None,
    }
    return {
        **remove_update_options(replaced.options),
        **{make_option_key(name): value for name, value in values.items() if value is not None},
    }


def _read_shadow(options: Mapping[str, Any], *, is_update: bool) -> ShadowOptions:
    seconds = _read_duration(options, SHADOW_DURATION, _DEFAULT_SHADOW, _LONGEST_SHADOW)
    if not seconds:
        raise InvalidOptionError(f"--{SHADOW_DURATION.name} is 0; expected a duration such as 5m")
    return ShadowOptions(
        seconds, _read_names(options, SHADOW_SKIP), _read_names(options, SHADOW_REREAD), is_update
    )


def _refuse_options(options: Mapping[str, Any], refused: Iterable[TextOption], cause: str) -> None:
    for option in refused:
        if read_option_value(options, option.name) is not None:
            raise InvalidOptionError(f"--{option.name} has no effect with {cause}: leave it out")


def _is_update(value: Any) -> bool:
    return value is True or value in ("true", "True")


def _read_text(options: Mapping[str, Any], option: TextOption) -> str:
    return "".join(option.parse_value(options, "a text"))


def _read_names(options: Mapping[str, Any], option: TextOption) -> frozenset[str]:
    return frozenset(option.parse_value(options, "the full names of steps or states"))


def _read_mapping(options: Mapping[str, Any]) -> Mapping[str, str]:
    """Returns a map from the old names of steps to the new names. Clients send an object, or its
    JSON.
    """
    value = read_option_value(options, _MAPPING)
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError as error:
            raise InvalidOptionError(
                f"--{_MAPPING} is {format_option_value(value)}, which isn't JSON: {error}"
            ) from error
    if value is None:
        return {}
    if not isinstance(value, dict) or not all(isinstance(name, str) for name in value.values()):
        raise InvalidOptionError(
            f"--{_MAPPING} is {format_option_value(value)}; expected a JSON object of old and new "
            "names,"
            ' such as {"Old step": "New step"}'
        )
    return value


def _read_duration(
    options: Mapping[str, Any], option: TextOption, default: float, longest: float
) -> float:
    text = _read_text(options, option)
    if not text:
        return default
    try:
        seconds = 0.0 if text == "0" else parse_duration(text)
    except ValueError as error:
        raise InvalidOptionError(f"--{option.name}: {error}") from error
    if seconds > longest:
        raise InvalidOptionError(
            f"--{option.name} is {format_option_value(text)}; expected at most"
            f" {longest / 3600:.0f}h"
        )
    return seconds
