"""The extension that exports traces, metrics and logs of jobs with OpenTelemetry."""

from __future__ import annotations

from typing import TYPE_CHECKING

from beam_runner_server.observers.extension import ObserverExtension

if TYPE_CHECKING:
    from beam_runner_jobservices.local_access import LocalAccess

    from beam_runner_server.observers.watch import JobExporter

VARIABLE = "BEAM_RUNNER_TELEMETRY"
"""Environment variable of the server; ``1`` has the effect of ``--telemetry``."""


class TelemetryExtension(ObserverExtension):
    """Extension that the flag ``--telemetry`` enables. The environment variables ``OTEL_*`` configure it."""

    flag = "--telemetry"
    variable = VARIABLE
    description = (
        "export traces, metrics and logs of jobs with OpenTelemetry; needs the extra"
        " opentelemetry (default: only if the environment variable BEAM_RUNNER_TELEMETRY is"
        " 1)"
    )
    modules = ("opentelemetry.sdk", "opentelemetry.exporter.otlp.proto.http")
    extra = "opentelemetry"

    def create_exporter(self, door: LocalAccess) -> tuple[JobExporter, str]:
        # Import the exporters here, because the library is optional.
        from beam_runner_server.observers.telemetry import TelemetryExporter
        from beam_runner_server.observers.telemetry_providers import TelemetryProviders

        return TelemetryExporter(TelemetryProviders(door.address)), "its telemetry is exported"
