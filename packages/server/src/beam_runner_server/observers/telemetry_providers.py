"""OpenTelemetry providers, which the environment variables ``OTEL_*`` configure.

The providers aren't global, so they don't change the telemetry of a program that contains the
server. Exporters are found by the entry points that OpenTelemetry defines for them.
"""

from __future__ import annotations

import importlib.metadata
import os
from collections.abc import Iterator
from typing import Any

from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import BatchLogRecordProcessor
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import MetricReader, PeriodicExportingMetricReader
from opentelemetry.sdk.resources import SERVICE_INSTANCE_ID, SERVICE_NAME, Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

from beam_runner_server.observers.trace_ids import JobIdGenerator

_SERVICE = "beam-jobserver"
_PROTOCOLS = {"http/protobuf": "otlp_proto_http", "grpc": "otlp_proto_grpc"}


class TelemetryProviders:
    """The providers of traces, metrics and logs.

    Args:
        instance: the value of the resource attribute ``service.instance.id``.

    Attributes:
        ids: the generator of the ids of spans.

    Raises:
        RuntimeError: A variable names an exporter that isn't installed.
    """

    def __init__(self, instance: str) -> None:
        named = {SERVICE_INSTANCE_ID: instance}
        if not os.environ.get("OTEL_SERVICE_NAME"):
            named[SERVICE_NAME] = _SERVICE
        # Values of OTEL_RESOURCE_ATTRIBUTES have priority over the runner's defaults.
        resource = Resource(named).merge(Resource.create())
        if "service.name=" not in os.environ.get("OTEL_RESOURCE_ATTRIBUTES", ""):
            resource = resource.merge(Resource(named))
        self.ids = JobIdGenerator()
        self.traces = TracerProvider(resource=resource, id_generator=self.ids)
        for exporter in _create_exporters("traces"):
            self.traces.add_span_processor(BatchSpanProcessor(exporter))
        self.logs = LoggerProvider(resource=resource)
        for exporter in _create_exporters("logs"):
            self.logs.add_log_record_processor(BatchLogRecordProcessor(exporter))
        readers = [
            exporter
            if isinstance(exporter, MetricReader)
            else PeriodicExportingMetricReader(exporter)
            for exporter in _create_exporters("metrics")
        ]
        self.metrics = MeterProvider(resource=resource, metric_readers=readers)

    def shut_down(self) -> None:
        """Exports the remaining data, and stops the threads of OpenTelemetry."""
        self.traces.shutdown()
        self.logs.shutdown()
        self.metrics.shutdown()


def _create_exporters(signal: str) -> Iterator[Any]:
    """Yields the exporters that the variable of a signal names, by default OTLP over HTTP."""
    variable = f"OTEL_{signal.upper()}_EXPORTER"
    for name in os.environ.get(variable, "otlp").split(","):
        name = name.strip()
        if name in ("", "none"):
            continue
        entry = _resolve_protocol(signal) if name == "otlp" else name
        found = importlib.metadata.entry_points(group=f"opentelemetry_{signal}_exporter")
        if entry not in found.names:
            raise RuntimeError(
                f"Can't export {signal}: no package for the exporter {entry!r} of {variable} is"
                f" installed; the installed exporters are {', '.join(sorted(found.names))}"
            )
        yield found[entry].load()()


def _resolve_protocol(signal: str) -> str:
    general = os.environ.get("OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf")
    protocol = os.environ.get(f"OTEL_EXPORTER_OTLP_{signal.upper()}_PROTOCOL", general)
    return _PROTOCOLS.get(protocol, protocol)
