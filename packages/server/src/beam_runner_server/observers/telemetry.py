"""Export of traces, metrics and logs of jobs to OpenTelemetry."""

from __future__ import annotations

import time

from beam_runner_jobservices.job_log import JobLogLine
from opentelemetry._logs import LogRecord, SeverityNumber
from opentelemetry.trace import Span, set_span_in_context

from beam_runner_server.observers.job_spans import JobSpans, convert_to_nanoseconds
from beam_runner_server.observers.observed_job import ObservedJob
from beam_runner_server.observers.telemetry_metrics import JobInstruments
from beam_runner_server.observers.telemetry_providers import TelemetryProviders

_SCOPE = "beam_runner"
_SEVERITIES = {
    "DEBUG": SeverityNumber.DEBUG,
    "DETAILED": SeverityNumber.DEBUG4,
    "BASIC": SeverityNumber.INFO,
    "WARNING": SeverityNumber.WARN,
    "ERROR": SeverityNumber.ERROR,
}


class TelemetryExporter:
    """Exporter of jobs to OpenTelemetry. Implements `watch.JobExporter`."""

    def __init__(self, providers: TelemetryProviders) -> None:
        self._providers = providers
        self._tracer = providers.traces.get_tracer(_SCOPE)
        self._logger = providers.logs.get_logger(_SCOPE)
        self._instruments = JobInstruments(providers.metrics.get_meter(_SCOPE))
        self._spans: dict[str, JobSpans] = {}

    def handle_sample(self, job: ObservedJob) -> None:
        spans = self._find_spans(job)
        spans.record_sample(job)
        self._export_lines(job, spans.root)
        self._instruments.record_job(job)

    def handle_job_end(self, job: ObservedJob) -> None:
        spans = self._find_spans(job)
        self._export_lines(job, spans.root)
        spans.end(job)
        del self._spans[job.job_id]
        self._instruments.record_job(job)

    def close(self) -> None:
        for spans in self._spans.values():
            spans.abandon()
        self._providers.shut_down()

    def _find_spans(self, job: ObservedJob) -> JobSpans:
        if job.job_id not in self._spans:
            self._spans[job.job_id] = JobSpans(self._tracer, self._providers.ids, job)
        return self._spans[job.job_id]

    def _export_lines(self, job: ObservedJob, span: Span) -> None:
        context = set_span_in_context(span)
        for line in job.iterate_new_lines():
            self._logger.emit(
                LogRecord(
                    timestamp=None if line.time is None else convert_to_nanoseconds(line.time),
                    observed_timestamp=time.time_ns(),
                    context=context,
                    severity_text=line.severity,
                    severity_number=_SEVERITIES.get(line.severity, SeverityNumber.UNSPECIFIED),
                    body=line.text,
                    attributes=_describe_line(job, line),
                )
            )


def _describe_line(job: ObservedJob, line: JobLogLine) -> dict[str, str]:
    found = {
        "beam.job.id": job.job_id,
        "beam.job.name": job.name,
        "beam.step": line.step,
        "beam.worker": line.worker,
    }
    return {name: value for name, value in found.items() if value}
