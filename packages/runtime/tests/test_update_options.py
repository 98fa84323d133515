"""Tests of the options of an update."""

from __future__ import annotations

from typing import Any

import pytest
from beam_runner_model.jobs import JobSpec
from beam_runner_model.updates import UpdateInstructions

from beam_runner_runtime.option_errors import InvalidOptionError
from beam_runner_runtime.update_options import (
    UPDATE_OPTIONS,
    ShadowOptions,
    UpdateOptions,
    make_rollback_options,
    parse_update_options,
)


def options(**values: Any) -> dict[str, Any]:
    return {f"beam:option:{name}:v1": value for name, value in values.items()}


@pytest.mark.parametrize("value", [False, None, "false"])
def test_job_without_update_replaces_no_job(value: Any) -> None:
    assert parse_update_options(options(update=value, transform_name_mapping={})) is None


@pytest.mark.parametrize("value", [True, "true"])
def test_update_options_have_defaults(value: Any) -> None:
    assert parse_update_options(options(update=value)) == UpdateOptions()


def test_all_update_options_are_parsed() -> None:
    asked = options(
        update=True,
        transform_name_mapping={"a": "b"},
        beam_spark_update="check",
        beam_spark_update_job="job-1",
        beam_spark_update_drop=["Step", "Other/state"],
        beam_spark_update_trust="Step/state",
        beam_spark_update_quiet="1m",
        beam_spark_update_keep="2h",
    )
    assert parse_update_options(asked) == UpdateOptions(
        is_check=True,
        job_id="job-1",
        wishes=UpdateInstructions(
            {"a": "b"}, frozenset({"Step", "Other/state"}), frozenset({"Step/state"})
        ),
        quiet_seconds=60.0,
        keep_seconds=7200.0,
    )


def test_update_check_option_works_without_update_option() -> None:
    found = parse_update_options(options(beam_spark_update="check"))
    assert found is not None
    assert found.is_check


def test_savepoint_option_works_without_update_option() -> None:
    found = parse_update_options(
        options(beam_spark_from_savepoint="s3://b/p", beam_spark_update_drop="all")
    )
    assert found is not None
    assert found.savepoint == "s3://b/p"
    assert found.wishes.drop == {"all"}


@pytest.mark.parametrize(
    ("name", "value"),
    [("update", True), ("beam_spark_update_job", "job-1"), ("beam_spark_update_quiet", "1s")],
)
def test_update_option_about_running_job_is_refused_with_savepoint_option(
    name: str, value: Any
) -> None:
    with pytest.raises(InvalidOptionError, match=f"--{name}|--beam_spark_from_savepoint"):
        parse_update_options(options(beam_spark_from_savepoint="/s", **{name: value}))


@pytest.mark.parametrize("option", UPDATE_OPTIONS[1:-1], ids=lambda option: option.name)
def test_option_without_effect_outside_update_is_refused_with_its_name(option: Any) -> None:
    with pytest.raises(InvalidOptionError, match=f"--{option.name} .*--update"):
        parse_update_options(options(**{option.name: "1s"}))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("transform_name_mapping", "{a: b}"),
        ("transform_name_mapping", ["a", "b"]),
        ("transform_name_mapping", {"a": 1}),
        ("transform_name_mapping", "[]"),
        ("beam_spark_update", "now"),
        ("beam_spark_update", True),
        ("beam_spark_update_job", ""),
        ("beam_spark_update_job", 3),
        ("beam_spark_update_drop", [1]),
        ("beam_spark_update_trust", [""]),
        ("beam_spark_update_trust", [" "]),
        ("beam_spark_update_quiet", "soon"),
        ("beam_spark_update_quiet", "2h"),
        ("beam_spark_update_quiet", 3),
        ("beam_spark_update_keep", "8d"),
        ("beam_spark_update_keep", "for ever"),
    ],
)
def test_invalid_update_option_is_refused_with_its_name(name: str, value: Any) -> None:
    with pytest.raises(InvalidOptionError, match=f"--{name}"):
        parse_update_options(options(update=True, **{name: value}))


def test_update_name_mapping_as_json_text_is_parsed() -> None:
    found = parse_update_options(options(update=True, transform_name_mapping='{"a": ""}'))
    assert found is not None
    assert found.wishes.mapping == {"a": ""}


@pytest.mark.parametrize("value", ["0", "0s"])
def test_update_without_quiet_time_is_accepted(value: str) -> None:
    found = parse_update_options(options(update=True, beam_spark_update_quiet=value))
    assert found is not None
    assert found.quiet_seconds == 0


def make_job(job_id: str, **values: Any) -> JobSpec:
    return JobSpec(job_id, "orders", b"", options(**values), "", {}, "")


def test_rollback_replaces_the_options_of_the_earlier_update() -> None:
    replaced = make_job(
        "job-1",
        job_name="orders",
        update=True,
        beam_spark_update_job="job-0",
        beam_spark_update_drop=["Old"],
        beam_spark_from_savepoint="/savepoint",
        transform_name_mapping={"a": "b"},
    )
    wishes = UpdateInstructions({"c": "d"}, frozenset({"Step"}))
    found = make_rollback_options(replaced, "job-2", wishes, quiet="1s", is_check=False)
    assert found["beam:option:job_name:v1"] == "orders"
    parsed = parse_update_options(found)
    expected = UpdateInstructions({"c": "d"}, frozenset({"Step"}), is_rollback=True)
    assert parsed == UpdateOptions(False, "job-2", expected, 1.0, 0.0, rollback_to="job-1")


def test_rollback_without_update_options_uses_defaults() -> None:
    found = make_rollback_options(
        make_job("job-1"), "job-2", UpdateInstructions(), quiet="", is_check=True
    )
    parsed = parse_update_options(found)
    assert parsed is not None
    assert (parsed.is_check, parsed.wishes) == (True, UpdateInstructions(is_rollback=True))
    assert parsed.quiet_seconds == UpdateOptions().quiet_seconds


def test_shadow_options_are_parsed() -> None:
    found = parse_update_options(
        options(
            update=True,
            beam_spark_update="shadow",
            beam_spark_shadow_duration="5m",
            beam_spark_shadow_skip="Write",
            beam_spark_shadow_reread=["Read", "Other"],
        )
    )
    assert found is not None
    assert not found.is_check
    expected = ShadowOptions(300.0, frozenset({"Write"}), frozenset({"Read", "Other"}), True)
    assert found.shadow == expected
    alone = parse_update_options(options(beam_spark_update="shadow"))
    assert alone is not None
    assert alone.shadow == ShadowOptions()


@pytest.mark.parametrize(
    "values",
    [
        {"update": True, "beam_spark_shadow_duration": "5m"},
        {"beam_spark_update": "check", "beam_spark_shadow_skip": "Write"},
        {"beam_spark_shadow_reread": "Read"},
        {"beam_spark_update": "shadow", "beam_spark_shadow_duration": "0s"},
        {"beam_spark_update": "shadow", "beam_spark_shadow_duration": "25h"},
        {"beam_spark_update": "shadow", "beam_spark_from_savepoint": "/folder"},
    ],
)
def test_shadow_options_without_a_shadow_run_are_refused(values: dict[str, Any]) -> None:
    with pytest.raises(InvalidOptionError, match="beam_spark_"):
        parse_update_options(options(**values))
