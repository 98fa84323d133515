"""Tests of job options: Beam's SDK sends them because the server describes them, and the server parses
or refuses them.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from beam_runner_runtime.job_options import (
    NUMBERS,
    BulkMode,
    RunnerOptions,
    is_loopback,
    parse_runner_options,
)
from beam_runner_runtime.option_errors import InvalidOptionError


def options(**values: Any) -> dict[str, Any]:
    return {f"beam:option:{name}:v1": value for name, value in values.items()}


def test_job_without_options_has_defaults() -> None:
    assert parse_runner_options(options(streaming=True)) == RunnerOptions()


@pytest.mark.parametrize("value", ["3", 3, 3.0])
def test_job_option_numbers_of_all_client_formats_are_parsed(value: Any) -> None:
    asked = options(
        beam_spark_task_attempts=value,
        beam_spark_key_shards=value,
        beam_spark_checkpoint_interval_ms="100",
    )
    assert parse_runner_options(asked) == RunnerOptions(3, 3, 100)


@pytest.mark.parametrize("option", NUMBERS, ids=lambda option: option.name)
@pytest.mark.parametrize("value", ["", "two", -1, 0, 10**9, 2.5, [3], True, "1" * 5000])
def test_invalid_number_in_job_option_is_refused_with_option_name(option: Any, value: Any) -> None:
    with pytest.raises(
        InvalidOptionError, match=f"--{option.name} is .*; expected a number from"
    ) as refused:
        parse_runner_options(options(**{option.name: value}))
    assert len(str(refused.value)) < 300


@pytest.mark.parametrize("bulk", BulkMode)
def test_job_option_with_choices_is_parsed(bulk: BulkMode) -> None:
    assert parse_runner_options(options(beam_spark_bulk=bulk.value)) == RunnerOptions(bulk=bulk)


@pytest.mark.parametrize("value", ["", "Always", "sometimes", True, 1, ["always"]])
def test_invalid_job_option_choice_is_refused_with_valid_choices(value: Any) -> None:
    with pytest.raises(
        InvalidOptionError, match="--beam_spark_bulk is .*; expected one of auto, always, never"
    ):
        parse_runner_options(options(beam_spark_bulk=value))


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({"environment_type": "LOOPBACK"}, True),
        ({"default_environment_type": "LOOPBACK"}, True),
        ({"environment_type": "DOCKER"}, False),
        ({}, False),
    ],
)
def test_loopback_environment_is_found_in_options_of_any_sdk(values: Any, expected: bool) -> None:
    assert is_loopback(json.dumps(options(**values))) is expected
    assert is_loopback(json.dumps(values)) is expected
    assert not is_loopback("")
