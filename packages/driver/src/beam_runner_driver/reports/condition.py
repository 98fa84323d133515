"""Monitoring of a running job: metrics for its stages, and messages about stalls and retried
failures.

| metric | unit | value |
|---|---|---|
| ``beam_spark:stage:input_watermark:v1`` | ms | input watermark of the stage |
| ``beam_spark:stage:output_watermark:v1`` | ms | output watermark of the stage |
| ``beam_spark:stage:backlog_bytes:v1`` | bytes | data that waits for the stage and isn't in a bundle |
| ``beam_spark:stage:pending_bytes:v1`` | bytes | data that waits for the stage, also the unprocessed part of open bundles |
| ``beam_spark:stage:pending_elements:v1`` | elements | elements of this data |
| ``beam_spark:stage:open_bundles:v1`` | bundles | bundles of the stage that run or wait for a lane |
| ``beam_spark:stage:paused_bundles:v1`` | bundles | bundles that wait for their next attempt after a failure |
| ``beam_spark:stage:commit_lag:v1`` | ms | age of the oldest uncommitted bundle |
| ``beam_spark:stage:transforms:v1`` | names | transforms in the stage |
| ``beam_spark:stage:bundles_begun:v1`` | attempts | attempts that worker processes started, as reported to this server |
| ``beam_spark:stage:bundles_committed:v1`` | bundles | committed bundles |
| ``beam_spark:stage:bundles_failed:v1`` | attempts | failed attempts |
| ``beam_spark:stage:bundles_retried:v1`` | attempts | attempts after the first attempt of a bundle |
| ``beam_spark:stage:bundles_interrupted:v1`` | attempts | attempts that ended because an external system was unavailable |
| ``beam_spark:stage:dropped_values:v1`` | values | values that arrived too late for their window, or after the last firing of their trigger; reported by bundles |
| ``beam_spark:stage:quarantined:v1`` | elements | elements, groups and timers that went to quarantine, because they always fail; reported by bundles |
| ``beam_spark:stage:began:v1`` | ms | wall-clock time of the stage's first activity |
| ``beam_spark:stage:last_at_work:v1`` | ms | wall-clock time of the stage's latest activity |
| ``beam_spark:stage:bundle_msecs:v1`` | ms | duration of each committed bundle; reported by bundles |
| ``beam_spark:stage:bundle_costs:v1`` | µs | slot time, CPU time, peak memory, and histogram of durations; reported by bundles |

The metrics from ``transforms`` on stay available after the end of the job. Each metric has the
label ``STAGE``. The label ``PTRANSFORM`` contains the stage's name, so that Beam's clients can find
it. The job has one metric, ``beam_spark:job:losses:v1``: the number of worker processes that exited
unexpectedly, plus the number of failed loops inside tasks, since this server started.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol

import attrs
from beam_runner_engine.scheduler.commands import FailJob
from beam_runner_engine.scheduler.pending_input import PendingInput, measure_pending_input
from beam_runner_engine.scheduler.reports import StageReport
from beam_runner_model.jobs import Importance, MetricCell
from beam_runner_model.lengths import encode_count
from beam_runner_model.rendering import render_record, render_waits
from beam_runner_model.varints import encode_varint
from beam_runner_model.waits import Wait
from beam_runner_planner.plan import JobPlan
from beam_runner_runtime.shutdown.limits import LIMITS
from beam_runner_urns import metrics as metric_urns

from beam_runner_driver.coordination.coordinator import JobCoordinator
from beam_runner_driver.lanes.processes import SilentProcess
from beam_runner_driver.ledger.journal_codec import Tally
from beam_runner_driver.ledger.ledger import JobLedger
from beam_runner_driver.ledger.retrying_journal import Outage
from beam_runner_driver.ports import RunReporter
from beam_runner_driver.reports.failure_reports import (
    FailureMessages,
    OutageMessages,
    QuarantineMessages,
)
from beam_runner_driver.reports.stage_history import POINT_SECONDS, StageHistory
from beam_runner_driver.reports.waiting import (
    find_job_waits,
    is_waiting_for_clock,
    make_external_system_wait,
)

LOSSES = "beam_spark:job:losses:v1"
STILL_SECONDS = 5.0
"""Seconds without progress before the first message that explains the cause. The interval doubles
after each message.
"""
WARNING_SECONDS = 60.0
"""Seconds without progress after which one message is a warning. Each period without progress causes one warning."""


@attrs.frozen
class _JobSnapshot:
    """Job data from the latest check, from which `JobMonitor` computes metrics on request.

    Attributes:
        time: processing time of the check (ms); 0 before the first check.
        stages: report of each stage.
        opened: creation time (ms) of the oldest uncommitted bundle, by stage.
        pending: unprocessed input, by stage; measured less often than the rest without a client.
        tallies: counts of committed, failed, retried and interrupted bundles, by stage.
        sections: number of finished section attempts, by stage.
        broken_loops: number of failed loops inside tasks.
    """

    time: int = 0
    stages: tuple[StageReport, ...] = ()
    opened: Mapping[str, int] = attrs.field(factory=dict)
    pending: Mapping[str, PendingInput] = attrs.field(factory=dict)
    tallies: Mapping[str, Tally] = attrs.field(factory=dict)
    sections: Mapping[str, int] = attrs.field(factory=dict)
    broken_loops: int = 0


class MonitoredProcesses(Protocol):
    """Interface to a job's worker processes that the job monitor needs.

    Attributes:
        begun: number of bundles that the processes started, by stage.
        lost: number of processes that exited unexpectedly.
    """

    @property
    def started_bundle_counts(self) -> Mapping[str, int]: ...

    @property
    def lost_process_count(self) -> int: ...

    def find_silent_processes(self) -> Sequence[SilentProcess]:
        """Returns the unresponsive processes."""


class JobMonitor:
    """Monitor that computes the metrics of one job, and reports its stalls and failures. Any thread
    can call ``list_metrics``, but only the job's thread can call ``check_job``.

    Attributes:
        waits: wait reasons of the job, from the last check that collected them.
        still: seconds without progress, from the same check; 0 below `STILL_SECONDS`.
    """

    def __init__(self, plan: JobPlan, reporter: RunReporter, processes: MonitoredProcesses) -> None:
        self._plan = plan
        self._reporter = reporter
        self._processes = processes
        self._seen = _JobSnapshot()
        self.history = StageHistory()
        self._looked = 0.0
        self._measured = float("-inf")
        self._was_asked = False
        self._pause = STILL_SECONDS
        self._has_warned = False
        self._failures = FailureMessages(plan)
        self._quarantine = QuarantineMessages()
        self._worker_outages = OutageMessages()
        self._outage: Outage | None = None
        self._outage_pause = 0.0
        self.waits: tuple[Wait, ...] = ()
        self.still = 0.0

    def list_metrics(self) -> tuple[MetricCell, ...]:
        """Returns the metrics of all stages from the last check. After the end of the job, returns only the totals."""
        seen = self._seen
        if not seen.time:
            return ()
        begun = self._processes.started_bundle_counts
        losses = encode_varint(self._processes.lost_process_count + seen.broken_loops)
        return (
            *(info for report in seen.stages for info in self._list_stage_metrics(report, seen)),
            *(
                info
                for stage in self._plan.stages
                for info in self._list_final_metrics(
                    stage, seen, begun.get(stage, 0) + seen.sections.get(stage, 0)
                )
            ),
            MetricCell(LOSSES, metric_urns.SUM_INT64_TYPE, losses, {}),
        )

    def check_job(
        self, ledger: JobLedger, coordinator: JobCoordinator, *, asked: bool = False
    ) -> None:
        """Updates the metrics, and reports stalls and failures. Does nothing if the last check was
        less than `LIMITS.condition_look_seconds` ago, except at the first request of a client.

        Args:
            asked: whether a client observes the job, so that wait reasons must be collected.
        """
        moment = time.monotonic()
        # The first check after a client's request is due at once, because the request waits for it.
        is_early = moment < self._looked + LIMITS.condition_look_seconds
        if is_early and ledger.end is None and asked <= self._was_asked:
            return
        self._looked, self._was_asked = moment, asked
        now = coordinator.clock.now()
        first = not self._seen.time
        self._seen = attrs.evolve(
            self._take_snapshot(ledger, now),
            tallies=dict(ledger.tallies),
            pending=self._measure_pending_input(ledger, coordinator, moment, asked=asked),
            sections=dict(coordinator.sections.begun),
            broken_loops=coordinator.broken_loops,
        )
        # Don't report the failure that ends the job: `report_end` reports it.
        if not isinstance(ledger.end, FailJob):
            for line in self._failures.list_new_messages(ledger, now, skips=first):
                self._reporter.report_message(line.importance, line.text, record=line.record)
        for line in self._quarantine.list_new_messages(ledger.quarantine, skips=first):
            self._reporter.report_message(line.importance, line.text, line.transform)
        self.report_outage(coordinator.lane_failures.outage)
        if ledger.end is None:
            for text in self._worker_outages.list_new_messages(
                coordinator.outages.list_outages(), moment
            ):
                self._reporter.report_message(Importance.WARNING, text)
        self.history.record_stages(
            time.time(),
            self._seen.stages or ledger.report_stages(),
            ledger.tallies,
            self._seen.pending,
        )
        silent = self._processes.find_silent_processes()
        still = moment - coordinator.moved
        tells = still >= self._pause and ledger.end is None
        if asked or tells:
            waits = ledger.list_wait_reasons()
            self.waits = find_job_waits(coordinator, self._plan, silent, waits)
            is_idle = still < STILL_SECONDS or is_waiting_for_clock(ledger, waits)
            self.still = 0.0 if is_idle else still
        if tells and self.still:
            self._report_stall(still, now)
        if still < STILL_SECONDS:
            self._pause, self._has_warned = STILL_SECONDS, False
        elif tells:
            self._pause = 2 * still

    def _report_stall(self, still: float, now: int) -> None:
        text = f"nothing has been committed for {still:.0f} s: {render_waits(self.waits, now=now)}"
        # Beam's clients show warnings by default. Therefore, only one message per stall is a warning.
        warns = still >= WARNING_SECONDS and not self._has_warned
        self._has_warned = self._has_warned or warns
        self._reporter.report_message(Importance.WARNING if warns else Importance.BASIC, text)

    def _take_snapshot(self, ledger: JobLedger, now: int) -> _JobSnapshot:
        if ledger.end is not None:
            return _JobSnapshot(now)
        return _JobSnapshot(
            now,
            tuple(ledger.report_stages()),
            {} if self._plan.sets_clock else ledger.list_oldest_opening_times(),
        )

    def _measure_pending_input(
        self, ledger: JobLedger, coordinator: JobCoordinator, moment: float, *, asked: bool
    ) -> Mapping[str, PendingInput]:
        if ledger.end is not None:
            return {}
        if not asked and moment < self._measured + POINT_SECONDS / 2:
            return self._seen.pending
        self._measured = moment
        lanes = coordinator.lanes.list_busy_lanes()
        fractions = {one.running.number: one.fraction for one in lanes if one.running is not None}
        return measure_pending_input(ledger.scheduler_state, fractions)

    def _list_stage_metrics(self, report: StageReport, seen: _JobSnapshot) -> Iterator[MetricCell]:
        lag = max(0, seen.time - seen.opened.get(report.stage, seen.time))
        labels = self._make_metric_labels(report.stage)
        pending = seen.pending.get(report.stage, PendingInput())
        for name, value in (
            ("input_watermark", report.input_watermark),
            ("output_watermark", report.output_watermark),
            ("backlog_bytes", report.waiting_bytes),
            ("pending_bytes", pending.size),
            ("pending_elements", pending.elements),
            ("open_bundles", report.open_bundles),
            ("paused_bundles", report.paused),
            ("commit_lag", lag),
        ):
            urn = f"beam_spark:stage:{name}:v1"
            payload = encode_varint(seen.time) + encode_varint(value)
            yield MetricCell(urn, metric_urns.LATEST_INT64_TYPE, payload, labels)

    def _list_final_metrics(
        self, stage: str, seen: _JobSnapshot, begun: int
    ) -> Iterator[MetricCell]:
        """Yields the metrics of a stage that stay available after the end of the job."""
        labels = self._make_metric_labels(stage)
        names = tuple(labels["PTRANSFORM"].split(" + "))
        urn = "beam_spark:stage:transforms:v1"
        yield MetricCell(urn, metric_urns.SET_STRING_TYPE, _encode_metric_strings(names), labels)
        tally = seen.tallies.get(stage, Tally())
        for name, count in (("begun", begun), *attrs.asdict(tally).items()):
            urn = f"beam_spark:stage:bundles_{name}:v1"
            value = encode_varint(count)
            yield MetricCell(urn, metric_urns.SUM_INT64_TYPE, value, labels)
        times = self.history.times.get(stage)
        if times is not None:
            for name, moment in (("began", times.began), ("last_at_work", times.last)):
                urn = f"beam_spark:stage:{name}:v1"
                payload = encode_varint(seen.time) + encode_varint(moment)
                yield MetricCell(urn, metric_urns.LATEST_INT64_TYPE, payload, labels)

    def _make_metric_labels(self, stage: str) -> dict[str, str]:
        return {"STAGE": stage, "PTRANSFORM": self._plan.stages[stage].spec.name}

    def report_outage(self, outage: Outage | None) -> None:
        """Reports an outage that blocks the complete job, at its start and then at intervals that double."""
        begins = outage is not None and (self._outage is None or self._outage.since != outage.since)
        self._outage = outage
        if outage is None:
            return
        lasted = outage.next_try - outage.since
        if begins or lasted >= 2 * self._outage_pause:
            self._outage_pause = lasted
            text = render_record(make_external_system_wait(outage, 0), now=0)
            self._reporter.report_message(Importance.WARNING, text)


def _encode_metric_strings(texts: Sequence[str]) -> bytes:
    """Encodes a list of strings as the payload of a metric: the number of strings, then each string
    with a length prefix.
    """
    encoded = [text.encode() for text in texts]
    parts = (encode_varint(len(text)) + text for text in encoded)
    return encode_count(len(encoded)) + b"".join(parts)
