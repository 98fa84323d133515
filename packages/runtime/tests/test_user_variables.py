"""Tests of the option with environment variables for user code."""

from __future__ import annotations

from typing import Any

import pytest

from beam_runner_runtime.job_options import VARIABLES, parse_runner_options
from beam_runner_runtime.option_errors import InvalidOptionError


def parse(value: Any) -> dict[str, str]:
    return dict(parse_runner_options({"beam:option:beam_spark_env:v1": value}).variables)


def test_user_variables_of_each_client_format_are_parsed() -> None:
    assert parse("A=1") == {"A": "1"}
    assert parse(["A=1", "B_2=x=y", "C=", "A=2"]) == {"A": "2", "B_2": "x=y", "C": ""}
    assert parse_runner_options({}).variables == {}


@pytest.mark.parametrize("value", ["A", "", "=1", "1A=1", "A B=1", 3, ["A=1", {}], "A=\0"])
def test_invalid_user_variable_is_refused_with_option_name(value: Any) -> None:
    with pytest.raises(InvalidOptionError, match=r"--beam_spark_env.*NAME=VALUE"):
        parse(value)


@pytest.mark.parametrize("name", ["PYTHONPATH", "LD_PRELOAD"])
def test_environment_variable_without_effect_is_refused_with_its_name(name: str) -> None:
    with pytest.raises(InvalidOptionError, match=f"--beam_spark_env={name} has no effect"):
        parse(f"{name}=x")


def test_user_variable_refusal_does_not_show_the_value() -> None:
    with pytest.raises(InvalidOptionError) as refused:
        parse("my key=hidden")
    assert "hidden" not in str(refused.value)


def test_user_variable_without_value_gets_value_of_submitting_program() -> None:
    assert VARIABLES.complete_texts(["A", "B=2"], {"A": "1", "B": "3"}) == ["A=1", "B=2"]
    with pytest.raises(InvalidOptionError, match="--beam_spark_env=A: .*no environment variable"):
        VARIABLES.complete_texts(["A"], {})
