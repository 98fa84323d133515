"""Tests of failed attempts: the rules of each kind of failure, and the effects of a paused bundle."""

from __future__ import annotations

import attrs
import pytest
from beam_runner_model.summary import EMPTY_SUMMARY
from beam_runner_model.waits import Wait, WaitKind

from beam_runner_engine.scheduler.commands import (
    Bundle,
    CancelBundles,
    FailJob,
    OpenBundles,
    RequestTick,
)
from beam_runner_engine.scheduler.events import (
    BundleDone,
    BundleFailed,
    Cancel,
    Drain,
    FailureKind,
    Output,
    Progress,
    Residual,
    Start,
    Tick,
)
from beam_runner_engine.scheduler.reports import RetryReport
from beam_runner_engine.scheduler.scheduler import Scheduler
from beam_runner_engine.scheduler.specs import (
    AdvanceProcessingTime,
    GraphSpec,
    Limits,
    Pauses,
    StageKind,
    StageSpec,
    TestStreamSpec,
)

from .samples import data, only, refs

USER, OUTSIDE = FailureKind.USER, FailureKind.OUTSIDE
UNAVAILABLE, PERMANENT = FailureKind.UNAVAILABLE, FailureKind.PERMANENT

READ = GraphSpec((StageSpec("read", ("root",), splittable=True),), ("root",))
COUNT = GraphSpec((StageSpec("count", ("root",), kind=StageKind.STATEFUL),), ("root",))
SCRIPTED = GraphSpec(
    (StageSpec("read", ("root",)), StageSpec("see", ("stream",))),
    ("root",),
    (TestStreamSpec("stream", ("stream",), (AdvanceProcessingTime(5),)),),
)
STREAM = Limits(
    user_attempts=None,
    outside_attempts=None,
    outage_limit=None,
    pauses=Pauses(1_000, 120_000),
    outage_pauses=Pauses(1_000, 15_000),
)
"""Limits of a streaming job."""


class Job:
    """Job with input data for each given key shard, and the running bundles of the job."""

    def __init__(self, graph: GraphSpec, limits: Limits, shards: tuple[int | None, ...]) -> None:
        self.scheduler = Scheduler(graph, limits)
        self.now = 0
        roots = tuple(Output("root", data(f"d{shard}", shard=shard)) for shard in shards)
        self.scheduler.handle_event(Start(roots=roots))

    @property
    def running(self) -> dict[int, Bundle]:
        return {bundle.number: bundle for bundle in self.scheduler.open_bundles}

    def fail(self, kind: FailureKind, bundle: int = 0) -> tuple[object, ...]:
        attempt = self.running[bundle].attempt
        return self.scheduler.handle_event(BundleFailed(bundle, attempt, f"by {kind.name}", kind))

    def pause(self, bundle: int = 0) -> int:
        """Advances time until a paused bundle runs again, and returns the elapsed time (ms)."""
        began = self.now
        while bundle not in self.running:
            wake = self.scheduler.next_wake
            assert wake is not None
            assert wake > self.now
            self.now = wake
            self.scheduler.handle_event(Tick(wake))
        return self.now - began


def read_job(limits: Limits) -> Job:
    return Job(READ, limits, (None,))


@pytest.mark.parametrize(
    ("kind", "pauses"),
    [
        (USER, [1, 2, 4, 8, 16, 32, 64, 120, 120, 120]),
        (OUTSIDE, [0, 1, 2, 4, 8, 16, 32, 64, 120, 120]),
        (UNAVAILABLE, [1, 2, 4, 8, 15, 15, 15, 15, 15, 15]),
    ],
)
def test_streaming_bundle_is_retried_with_exponential_backoff(
    kind: FailureKind, pauses: list[int]
) -> None:
    job = read_job(STREAM)
    found = []
    for _ in pauses:
        job.fail(kind)
        found.append(job.pause())
    assert found == [1_000 * pause for pause in pauses]


@pytest.mark.parametrize("kind", [USER, OUTSIDE, UNAVAILABLE])
def test_streaming_bundle_after_a_thousand_failures_is_retried(kind: FailureKind) -> None:
    job = read_job(STREAM)
    for _ in range(1_000):
        job.fail(kind)
        job.pause()
    assert job.running[0].attempt == 1_001
    record = job.scheduler.state.bundles[0]
    assert len(record.user_failures) + len(record.outside_failures) <= 8


@pytest.mark.parametrize(
    ("kind", "limits"),
    [
        (USER, Limits(user_attempts=3)),
        (OUTSIDE, Limits(outside_attempts=3)),
    ],
    ids=str,
)
def test_bundle_at_its_last_attempt_fails_the_job(kind: FailureKind, limits: Limits) -> None:
    job = read_job(limits)
    for attempt in (2, 3):
        (again,) = only(job.fail(kind), OpenBundles).bundles
        assert (again.attempt, job.now) == (attempt, 0), "no pause"
    failed = only(job.fail(kind), FailJob)
    assert failed.reason == f"stage 'read' failed after 3 attempts ({kind.value}): by {kind.name}"
    assert (failed.causes, failed.attempts) == ((f"by {kind.name}",) * 3, 3)


@pytest.mark.parametrize("limits", [Limits(), STREAM], ids=["batch", "stream"])
@pytest.mark.parametrize("graph", [READ, SCRIPTED], ids=["clock", "script"])
def test_permanent_failure_fails_the_job_immediately(limits: Limits, graph: GraphSpec) -> None:
    failed = only(Job(graph, limits, (None,)).fail(PERMANENT), FailJob)
    reason = "stage 'read' failed after 1 attempt (missing or damaged data): by PERMANENT"
    assert (failed.reason, failed.causes, failed.attempts) == (reason, ("by PERMANENT",), 1)


def test_outage_of_a_bounded_job_within_the_limit_counts_no_attempt() -> None:
    job = read_job(Limits(user_attempts=1, outside_attempts=1, outage_limit=600_000))
    while job.now < 590_000:
        assert not [one for one in job.fail(UNAVAILABLE) if isinstance(one, FailJob)]
        job.pause()
    (retry,) = job.scheduler.list_retried_bundles()
    assert (retry.attempts, retry.outage_since) == (0, 0)
    job.scheduler.handle_event(BundleDone(0, job.running[0].attempt))
    assert job.scheduler.phase.value == "done"


def test_outage_of_a_bounded_job_above_the_limit_fails_the_job() -> None:
    job = read_job(Limits(outage_limit=20_000))
    commands: tuple[object, ...] = ()
    while job.scheduler.state.running:
        commands = job.fail(UNAVAILABLE)
        if job.scheduler.state.running:
            job.pause()
    assert 20_000 <= job.now < 40_000
    assert "an unavailable neighbour): by UNAVAILABLE" in only(commands, FailJob).reason


def test_duration_of_an_ended_outage_does_not_count_for_the_next_outage() -> None:
    job = read_job(attrs.evolve(STREAM, outage_limit=20_000))
    for _ in range(10):
        job.fail(UNAVAILABLE)
        assert job.pause() == 1_000
        job.fail(UNAVAILABLE)
        assert job.pause() == 2_000
        job.fail(USER)
        job.pause()
    assert job.scheduler.state.running


def test_paused_bundle_does_not_block_other_shards() -> None:
    job = Job(COUNT, STREAM, (0, 1))
    job.fail(USER, 0)
    assert list(job.running) == [1]
    job.scheduler.handle_event(BundleDone(1, 1, summary=EMPTY_SUMMARY))
    assert job.scheduler.create_stage_report("count").open_bundles == 0
    assert job.scheduler.create_stage_report("count").paused == 1


def test_paused_bundle_does_not_block_its_source() -> None:
    job = read_job(STREAM)
    rest = Residual(data("rest"), delay=0, watermark=5)
    job.scheduler.handle_event(
        BundleDone(0, 1, residuals=(rest, Residual(data("more"), watermark=5)))
    )
    first, *others = job.running
    job.fail(USER, first)
    for other in others:
        job.scheduler.handle_event(BundleDone(other, 1, residuals=(rest,)))
    assert job.running
    assert first not in job.running


def test_paused_bundle_does_not_count_as_load() -> None:
    job = Job(READ, attrs.evolve(STREAM, parallelism=2), (None, None))
    assert len(job.running) == 2
    job.fail(USER, 0)
    split = job.scheduler.handle_event(Progress(1, 1, 0.01, 5_000))
    assert split, "a place is idle, and the bundle is not split for it"


def test_paused_bundle_holds_its_watermark() -> None:
    job = read_job(STREAM)
    before = job.scheduler.create_stage_report("read")
    job.fail(USER)
    assert job.scheduler.create_stage_report("read").output_watermark == before.output_watermark < 1


def test_late_event_of_an_earlier_attempt_is_ignored() -> None:
    job = read_job(STREAM)
    job.fail(OUTSIDE)
    job.fail(USER)
    assert job.scheduler.handle_event(BundleDone(0, 2)) == ()
    assert job.scheduler.paused_bundles[0].attempt == 3


def test_wake_up_is_set_to_the_end_of_the_pause() -> None:
    job = read_job(STREAM)
    job.scheduler.handle_event(Tick(500))
    assert only(job.fail(USER), RequestTick) == RequestTick(1_500)
    assert job.scheduler.handle_event(Tick(1_499)) == ()
    (again,) = only(job.scheduler.handle_event(Tick(1_500)), OpenBundles).bundles
    assert (again.attempt, refs(again)) == (2, ["dNone"])


def test_drain_ends_the_pause_of_a_bundle_and_truncates_its_restrictions() -> None:
    job = read_job(STREAM)
    job.fail(USER)
    (again,) = only(job.scheduler.handle_event(Drain()), OpenBundles).bundles
    assert [one.truncate for one in again.inputs] == [True]
    assert job.scheduler.next_wake is None


def test_cancelled_job_with_a_paused_bundle_stops_running_bundles() -> None:
    job = Job(COUNT, STREAM, (0, 1))
    job.fail(USER, 0)
    assert only(job.scheduler.handle_event(Cancel()), CancelBundles).bundles == ((1, 1),)


@pytest.mark.parametrize("kind", [USER, OUTSIDE, UNAVAILABLE])
def test_job_with_a_test_stream_clock_retries_without_pauses_and_with_an_attempt_limit(
    kind: FailureKind,
) -> None:
    job = Job(SCRIPTED, STREAM, (None,))
    for attempt in (2, 3, 4):
        assert only(job.fail(kind), OpenBundles).bundles[0].attempt == attempt
    only(job.fail(kind), FailJob)


def test_failed_job_keeps_the_work_of_its_bundles() -> None:
    job = Job(COUNT, Limits(), (0, 1, 2))
    job.fail(USER, 1)
    assert job.scheduler.open_bundles == ()
    kept = [work.data.ref for one in job.scheduler.state.bundles.values() for work in one.work]
    assert kept == ["d0", "d1", "d2"]


def test_retry_report_has_the_failure_and_the_time_of_the_next_attempt() -> None:
    job = read_job(STREAM)
    event = BundleFailed(0, 1, "it is away", UNAVAILABLE, "the store", ("step", "element"))
    job.scheduler.handle_event(event)
    paused = job.scheduler.paused_bundles[0]
    assert job.scheduler.list_retried_bundles() == (RetryReport(paused, 0, event, 1_000, 0),)
    assert job.scheduler.list_wait_reasons() == (Wait(WaitKind.RETRY, "read", count=1),)
    job.pause()
    assert job.scheduler.list_retried_bundles() == (RetryReport(paused, 0, event, None, 0),)
    assert job.scheduler.list_wait_reasons()[0].kind is WaitKind.BUNDLES
    job.fail(USER)
    (retry,) = job.scheduler.list_retried_bundles()
    assert (retry.attempts, retry.outage_since, retry.due) == (1, None, 2_000)
