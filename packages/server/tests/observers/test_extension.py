"""Extensions that export records of jobs are off unless a flag or a variable turns them on."""

from __future__ import annotations

import pytest

from beam_runner_server import flags
from beam_runner_server.observers import extension
from beam_runner_server.observers.lineage_extension import LineageExtension
from beam_runner_server.observers.telemetry_extension import TelemetryExtension
from beam_runner_server.plain import PlainProgram

BOTH = {TelemetryExtension, LineageExtension}


def started(*arguments: str) -> set[type]:
    settings = flags.parse_settings(arguments, PlainProgram())
    return {type(one) for one in settings.extensions} & BOTH


@pytest.fixture(autouse=True)
def no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for cls in (TelemetryExtension, LineageExtension):
        monkeypatch.delenv(cls.variable, raising=False)


def test_observers_are_disabled_by_default() -> None:
    assert started() == set()


def test_observer_flag_enables_observer() -> None:
    assert started("--lineage") == {LineageExtension}
    assert started("--telemetry", "--lineage") == BOTH


@pytest.mark.parametrize(("value", "expected"), [("1", {TelemetryExtension}), ("false", set())])
def test_observer_environment_variable_enables_observer(
    monkeypatch: pytest.MonkeyPatch, value: str, expected: set[type]
) -> None:
    monkeypatch.setenv(TelemetryExtension.variable, value)
    assert started() == expected


def test_missing_observer_library_is_reported_with_its_extra(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(extension, "_is_installed", lambda module: False)
    assert started() == set()
    with pytest.raises(flags.InvalidFlag, match=r"--telemetry needs .*\[opentelemetry\]"):
        started("--telemetry")
    monkeypatch.setenv(LineageExtension.variable, "1")
    with pytest.raises(flags.InvalidFlag, match=r"BEAM_RUNNER_LINEAGE needs .*\[openlineage\]"):
        started()
