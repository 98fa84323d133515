"""OpenTelemetry spans of one job: a span for the job, for each stage, and for a sample of the
bundles.

The job is polled at intervals. A bundle gets a span if it runs during a poll, so each bundle that
runs longer than the interval has a span. The start time of the span is exact; the end time can be
late by one interval.
"""

from __future__ import annotations

import time

from beam_runner_jobservices.figures.step_metrics import StageFigures
from beam_runner_model.failures import FailedBundle
from beam_runner_model.jobs import JobState
from beam_runner_model.observation import ObservedBundle
from opentelemetry.trace import Span, Status, StatusCode, Tracer, set_span_in_context

from beam_runner_server.observers.observed_job import ObservedJob
from beam_runner_server.observers.trace_ids import JobIdGenerator

_MOST_BUNDLES = 50
"""Maximum number of bundles of a job that have an open span."""


class JobSpans:
    """Creator of a job's spans. Not thread-safe.

    Args:
        tracer: the tracer that exports ended spans.
        ids: the generator of the tracer's ids.

    Attributes:
        root: the span of the job.
    """

    def __init__(self, tracer: Tracer, ids: JobIdGenerator, job: ObservedJob) -> None:
        self._tracer, self._ids, self._job_id = tracer, ids, job.job_id
        attributes = {"beam.job.id": job.job_id, "beam.job.name": job.name}
        if job.times.user:
            attributes["enduser.id"] = job.times.user
        with ids.derive_ids_from_job(job.job_id):
            self.root = tracer.start_span(
                f"job {job.name}",
                attributes=attributes,
                start_time=convert_to_nanoseconds(job.submitted),
            )
        self._stages: dict[str, Span] = {}
        self._ended_stages: set[str] = set()
        self._bundles: dict[tuple[int, int], Span] = {}

    def record_sample(self, job: ObservedJob) -> None:
        """Starts and ends the spans of stages and bundles."""
        execution = job.read_execution()
        for stage in job.figures.stages:
            self._record_stage(stage, is_ended=stage.is_finished)
        self._record_bundles(execution.bundles)
        for failed in execution.failed:
            self._record_failure(failed)

    def end(self, job: ObservedJob) -> None:
        """Ends all spans, because the job has ended."""
        self._record_bundles(())
        for stage in job.figures.stages:
            self._record_stage(stage, is_ended=True)
        end = job.times.ended or time.time()
        self.root.set_attribute("beam.job.state", job.state.name)
        if job.times.started is not None:
            self.root.add_event("started", timestamp=convert_to_nanoseconds(job.times.started))
        if job.state is JobState.FAILED:
            self.root.set_status(Status(StatusCode.ERROR, job.times.error))
        self.root.end(convert_to_nanoseconds(end))

    def abandon(self) -> None:
        """Ends the spans of bundles when the server stops. The next server ends the other spans."""
        self._record_bundles(())

    def _record_stage(self, stage: StageFigures, *, is_ended: bool) -> None:
        if stage.began is None or stage.id in self._ended_stages:
            return
        span = self._stages.get(stage.id)
        if span is None:
            with self._ids.derive_ids_from_job(self._job_id, stage.id):
                span = self._tracer.start_span(
                    f"stage {stage.name}",
                    set_span_in_context(self.root),
                    attributes={"beam.stage.id": stage.id, "beam.steps": stage.name.split(" + ")},
                    start_time=stage.began * 1_000_000,
                )
            self._stages[stage.id] = span
        if not is_ended:
            return
        counts = {
            "beam.bundles.committed": stage.committed,
            "beam.bundles.failed": stage.failed,
            "beam.bundles.retried": stage.retried,
            "beam.dropped_values": stage.dropped,
        }
        for name, count in counts.items():
            if count is not None:
                span.set_attribute(name, count)
        span.end(max(stage.began, stage.last or stage.began) * 1_000_000)
        self._ended_stages.add(stage.id)

    def _record_bundles(self, running: tuple[ObservedBundle, ...]) -> None:
        """Starts a span for each new bundle, and ends the spans of bundles that no longer run."""
        present = {(one.bundle, one.attempt): one for one in running}
        for key in self._bundles.keys() - present.keys():
            self._bundles.pop(key).end()
        now = time.time()
        for key in present.keys() - self._bundles.keys():
            if len(self._bundles) >= _MOST_BUNDLES:
                break
            bundle = present[key]
            parent = self._stages.get(bundle.stage, self.root)
            self._bundles[key] = self._tracer.start_span(
                "bundle",
                set_span_in_context(parent),
                attributes={
                    "beam.stage.id": bundle.stage,
                    "beam.bundle": bundle.bundle,
                    "beam.attempt": bundle.attempt,
                    "host.name": bundle.host,
                    "process.pid": bundle.pid,
                },
                start_time=convert_to_nanoseconds(now - bundle.seconds),
            )

    def _record_failure(self, failed: FailedBundle) -> None:
        """Marks the span of the failed attempt, if the attempt has one."""
        span = self._bundles.get((failed.bundle, failed.attempts))
        if span is not None:
            span.set_status(Status(StatusCode.ERROR, failed.error))


def convert_to_nanoseconds(seconds: float) -> int:
    """Returns a time in the unit of OpenTelemetry."""
    return int(seconds * 1_000_000_000)
