"""The condition of a running job, for people: watermarks, backlog and commit lag of its stages as
metrics, and messages when nothing moves, and when an attempt failed that is followed by another.

| metric | unit | what |
|---|---|---|
| ``beam_spark:stage:input_watermark:v1`` | ms | the stage's input watermark |
| ``beam_spark:stage:output_watermark:v1`` | ms | its output watermark |
| ``beam_spark:stage:backlog_bytes:v1`` | bytes | what waits for the stage and is in no bundle |
| ``beam_spark:stage:open_bundles:v1`` | bundles | those of the stage that run, or wait for their turn |
| ``beam_spark:stage:paused_bundles:v1`` | bundles | those of which an attempt failed, and the next one begins later |
| ``beam_spark:stage:commit_lag:v1`` | ms | for how long the oldest of these has not been |
| ``beam_spark:stage:transforms:v1`` | names | the transforms in the stage |
| ``beam_spark:stage:bundles_begun:v1`` | attempts | how often worker processes have begun one of its bundles, as they have told this server |
| ``beam_spark:stage:bundles_committed:v1`` | bundles | how many of the stage were committed |
| ``beam_spark:stage:bundles_failed:v1`` | attempts | how many attempts at its bundles failed |
| ``beam_spark:stage:bundles_retried:v1`` | attempts | how many of its bundles were given out again |
| ``beam_spark:stage:bundles_interrupted:v1`` | attempts | how many attempts ended because a neighbour was unavailable |
| ``beam_spark:stage:dropped_values:v1`` | values | those that came too late for their windows, or after the last firing of their trigger; comes with the bundles |
| ``beam_spark:stage:began:v1`` | ms | when it was first at work (wall clock) |
| ``beam_spark:stage:last_at_work:v1`` | ms | when it was last |
| ``beam_spark:stage:bundle_msecs:v1`` | ms | how long each of its bundles took that was committed; comes with the bundles |

Those from ``transforms`` on are there of jobs that have ended, too. Each has the label ``STAGE``, and as ``PTRANSFORM`` the stage's name, by which Beam's clients know it. The job itself has
``beam_spark:job:losses:v1``: how many of its worker processes have ended without being asked to, and how many loops inside tasks broke off, as far as this server knows.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol

import attrs
from beam_runner_engine.scheduler.commands import FailJob
from beam_runner_engine.scheduler.reports import StageReport
from beam_runner_model.jobs import Importance, MetricCell
from beam_runner_model.lengths import encode_count
from beam_runner_model.rendering import render, render_waits
from beam_runner_model.varints import encode_varint
from beam_runner_model.waits import Wait
from beam_runner_planner.plan import JobPlan
from beam_runner_urns import metrics as metric_urns

from beam_runner_runtime.driver.coordinator import Coordinator
from beam_runner_runtime.driver.failure_reports import FailureMessages, OutageMessages
from beam_runner_runtime.driver.kept import Tally
from beam_runner_runtime.driver.ledger import Ledger
from beam_runner_runtime.driver.patient_journal import Outage
from beam_runner_runtime.driver.ports import RunReporter
from beam_runner_runtime.driver.processes import Silence
from beam_runner_runtime.driver.stage_history import StageHistory
from beam_runner_runtime.driver.waiting import job_waits, neighbour_wait, waits_for_clock
from beam_runner_runtime.shutdown.limits import LIMITS

"""How old the metrics of stages are at most, apart from a loop inside a task."""
LOSSES = "beam_spark:job:losses:v1"
STILL_SECONDS = 5.0
"""After this long without a move people are told why; then after twice as long, and so on."""


@attrs.frozen
class _Seen:
    """What the last look has found; metrics are made of it only when somebody asks for them.

    Attributes:
        time: of the look (ms).
        stages: what each stage was at.
        opened: by stage, when (ms) the oldest of its open bundles was opened.
        tallies: by stage, how many of its bundles came to what.
        sections: by stage, how many attempts at sections have ended.
        broken_loops: how many loops inside tasks broke off.
    """

    time: int = 0
    stages: tuple[StageReport, ...] = ()
    opened: Mapping[str, int] = attrs.field(factory=dict)
    tallies: Mapping[str, Tally] = attrs.field(factory=dict)
    sections: Mapping[str, int] = attrs.field(factory=dict)
    broken_loops: int = 0


class ProcessesSeen(Protocol):
    """The worker processes of a job, as far as its condition depends on them.

    Attributes:
        begun: by stage, how many bundles they have told to have begun.
        lost: how many of them have ended without being asked to.
    """

    @property
    def begun(self) -> Mapping[str, int]: ...

    @property
    def lost(self) -> int: ...

    def look(self) -> Sequence[Silence]:
        """Returns those that can't speak."""


class JobCondition:
    """``metrics`` may be called from any thread, ``look`` from the job's own.

    Args:
        plan: the job's.
        reporter: who is told that nothing moves.
        processes: the job's worker processes.

    Attributes:
        waits: what the job waited for at the last look, as far as somebody wanted to know.
        still: for how many seconds nothing had moved then; 0 below `STILL_SECONDS`.
    """

    def __init__(self, plan: JobPlan, reporter: RunReporter, processes: ProcessesSeen) -> None:
        self._plan = plan
        self._reporter = reporter
        self._processes = processes
        self._seen = _Seen()
        self.history = StageHistory()
        self._looked = 0.0
        self._pause = STILL_SECONDS
        self._failures = FailureMessages(plan)
        self._worker_outages = OutageMessages()
        self._outage: Outage | None = None
        self._outage_pause = 0.0
        self.waits: tuple[Wait, ...] = ()
        self.still = 0.0

    def metrics(self) -> tuple[MetricCell, ...]:
        """Those of all stages, as of the last look; of a job that has ended what became of them."""
        seen = self._seen
        if not seen.time:
            return ()
        begun = self._processes.begun
        losses = encode_varint(self._processes.lost + seen.broken_loops)
        return (
            *(info for report in seen.stages for info in self._stage(report, seen)),
            *(
                info
                for stage in self._plan.stages
                for info in self._totals(
                    stage, seen, begun.get(stage, 0) + seen.sections.get(stage, 0)
                )
            ),
            MetricCell(LOSSES, metric_urns.SUM_INT64_TYPE, losses, {}),
        )

    def look(self, ledger: Ledger, coordinator: Coordinator, *, asked: bool = False) -> None:
        """Looks at a job after something may have happened; does nothing if it has just looked.

        ``asked``: somebody wants to know more than costs nothing to see.
        """
        moment = time.monotonic()
        if moment < self._looked + LIMITS.condition_look_seconds and ledger.end is None:
            return
        self._looked = moment
        now = coordinator.clock.now()
        first = not self._seen.time
        self._seen = attrs.evolve(
            self._see(ledger, now),
            tallies=dict(ledger.tallies),
            sections=dict(coordinator.sections.begun),
            broken_loops=coordinator.broken_loops,
        )
        # The failure that ends a job is told with its end.
        if not isinstance(ledger.end, FailJob):
            for line in self._failures.look(ledger, now, skips=first):
                self._reporter.message(line.importance, line.text, record=line.record)
        self.tell_outage(coordinator.lane_failures.outage)
        if ledger.end is None:
            for text in self._worker_outages.look(coordinator.outages.current(), moment):
                self._reporter.message(Importance.WARNING, text)
        self.history.look(time.time(), self._seen.stages or ledger.reports(), ledger.tallies)
        silent = self._processes.look()
        still = moment - coordinator.moved
        tells = still >= self._pause and ledger.end is None
        if asked or tells:
            waits = ledger.waits()
            self.waits = job_waits(coordinator, self._plan, silent, waits)
            is_idle = still < STILL_SECONDS or waits_for_clock(ledger, waits)
            self.still = 0.0 if is_idle else still
        if tells and self.still:
            text = (
                f"nothing has been committed for {still:.0f} s: {render_waits(self.waits, now=now)}"
            )
            self._reporter.message(Importance.BASIC, text)
        if still < STILL_SECONDS:
            self._pause = STILL_SECONDS
        elif tells:
            self._pause = 2 * still

    def _see(self, ledger: Ledger, now: int) -> _Seen:
        if ledger.end is not None:
            return _Seen(now)
        return _Seen(
            now,
            tuple(ledger.reports()),
            {} if self._plan.scripts_clock else ledger.opened(),
        )

    def _stage(self, report: StageReport, seen: _Seen) -> Iterator[MetricCell]:
        lag = max(0, seen.time - seen.opened.get(report.stage, seen.time))
        labels = self._labels(report.stage)
        for name, value in (
            ("input_watermark", report.input_watermark),
            ("output_watermark", report.output_watermark),
            ("backlog_bytes", report.waiting_bytes),
            ("open_bundles", report.open_bundles),
            ("paused_bundles", report.paused),
            ("commit_lag", lag),
        ):
            urn = f"beam_spark:stage:{name}:v1"
            payload = encode_varint(seen.time) + encode_varint(value)
            yield MetricCell(urn, metric_urns.LATEST_INT64_TYPE, payload, labels)

    def _totals(self, stage: str, seen: _Seen, begun: int) -> Iterator[MetricCell]:
        """What has become of a stage's bundles."""
        labels = self._labels(stage)
        names = tuple(labels["PTRANSFORM"].split(" + "))
        urn = "beam_spark:stage:transforms:v1"
        yield MetricCell(urn, metric_urns.SET_STRING_TYPE, _texts(names), labels)
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

    def _labels(self, stage: str) -> dict[str, str]:
        return {"STAGE": stage, "PTRANSFORM": self._plan.stages[stage].spec.name}

    def tell_outage(self, outage: Outage | None) -> None:
        """Tells what the whole job waits for, when the outage begins and less often as it lasts."""
        begins = outage is not None and (self._outage is None or self._outage.since != outage.since)
        self._outage = outage
        if outage is None:
            return
        lasted = outage.next_try - outage.since
        if begins or lasted >= 2 * self._outage_pause:
            self._outage_pause = lasted
            text = render(neighbour_wait(outage, 0), now=0)
            self._reporter.message(Importance.WARNING, text)


def _texts(texts: Sequence[str]) -> bytes:
    """Texts as the metric's type has them: their number, then each with its length."""
    encoded = [text.encode() for text in texts]
    parts = (encode_varint(len(text)) + text for text in encoded)
    return encode_count(len(encoded)) + b"".join(parts)
