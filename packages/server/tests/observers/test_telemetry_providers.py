"""The variables of OpenTelemetry select the exporters."""

from __future__ import annotations

import pytest

from beam_runner_server.observers.telemetry_providers import TelemetryProviders


def test_unknown_telemetry_exporter_is_refused_with_its_name(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OTEL_TRACES_EXPORTER", "zipkin9")
    with pytest.raises(RuntimeError, match=r"'zipkin9' of OTEL_TRACES_EXPORTER"):
        TelemetryProviders("localhost:1")


def test_telemetry_protocol_without_library_is_refused_with_its_name(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "http/json")
    with pytest.raises(RuntimeError, match="'http/json'"):
        TelemetryProviders("localhost:1")


def test_telemetry_service_name_comes_from_environment_variable(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for signal in ("TRACES", "METRICS", "LOGS"):
        monkeypatch.setenv(f"OTEL_{signal}_EXPORTER", "none")
    monkeypatch.setenv("OTEL_SERVICE_NAME", "mine")
    providers = TelemetryProviders("localhost:1")
    assert providers.traces.resource.attributes["service.name"] == "mine"
    assert providers.traces.resource.attributes["service.instance.id"] == "localhost:1"
    providers.shut_down()
