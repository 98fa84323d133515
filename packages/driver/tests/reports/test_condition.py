"""Tests of the condition of a job: the metrics of its stages, and the log messages of a stalled job."""

from __future__ import annotations

from pathlib import Path
from unittest.mock import patch

import attrs
import pytest
from apache_beam.coders import VarIntCoder
from apache_beam.coders.coder_impl import create_InputStream
from beam_runner_engine.scheduler.commands import FailJob, FinishJob, Outcome
from beam_runner_engine.scheduler.events import BundleFailed, FailureKind
from beam_runner_engine.scheduler.pending_input import measure_pending_input
from beam_runner_jobservices.metric_values import decode_metric_value
from beam_runner_model.bundles import ResidualElement
from beam_runner_model.jobs import Importance, MetricCell
from beam_runner_model.rendering import render_record, render_waits
from beam_runner_model.times import MAX_TIMESTAMP, MIN_TIMESTAMP
from beam_runner_model.waits import WaitKind
from beam_runner_runtime.channel.attempts import Attempt
from beam_runner_runtime.channel.messages import BundleProgressed, WorkerHello
from fake_processes import FakeProcesses
from rig import Rig
from servers import Reporter
from small_jobs import VALUES, rig_of, running
from small_plans import encoded

from beam_runner_driver.lanes.processes import SilentProcess
from beam_runner_driver.reports import condition as module
from beam_runner_driver.reports.condition import STILL_SECONDS, WARNING_SECONDS, JobMonitor


class Watch:
    """A condition check with a clock that the test moves."""

    def __init__(self, rig: Rig) -> None:
        self.rig = rig
        self.reporter = Reporter()
        self.processes = FakeProcesses()
        self.condition = JobMonitor(rig.plan, self.reporter, self.processes)
        self.start = rig.coordinator.moved

    def look(self, seconds: float, *, asked: bool = False) -> list[str]:
        """Checks the job this number of seconds after its start, and returns the log messages."""
        before = len(self.reporter.messages)
        with patch.object(module.time, "monotonic", lambda: self.start + seconds):
            self.condition.check_job(self.rig.ledger, self.rig.coordinator, asked=asked)
        new = self.reporter.messages[before:]
        assert all(importance is not Importance.ERROR for importance, _, _ in new)
        return [text for _, text, _ in new]


def values(infos: tuple[MetricCell, ...], name: str) -> dict[str, int]:
    """Returns the values of a metric by stage."""
    coder = VarIntCoder().get_impl()
    found = {}
    for info in infos:
        if info.urn == f"beam_spark:stage:{name}:v1":
            stream = create_InputStream(info.payload)
            coder.decode_from_stream(stream, False)
            found[info.labels["STAGE"]] = coder.decode_from_stream(stream, False)
    return found


def test_job_condition_returns_metrics_of_running_job(tmp_path: Path) -> None:
    watch = Watch(rig_of(tmp_path))
    assert watch.condition.list_metrics() == ()
    watch.look(1)
    infos = watch.condition.list_metrics()
    assert values(infos, "input_watermark") == dict.fromkeys(("read", "see"), MIN_TIMESTAMP)
    assert values(infos, "output_watermark") == dict.fromkeys(("read", "see"), MIN_TIMESTAMP)
    assert values(infos, "open_bundles") == {"read": 1, "see": 0}
    assert values(infos, "backlog_bytes") == {"read": 0, "see": 0}
    assert values(infos, "commit_lag")["see"] == 0
    names = {info.labels["PTRANSFORM"] for info in infos if "STAGE" in info.labels}
    assert names == {"the read step", "the see step"}


def test_job_condition_collects_waits_at_first_request(tmp_path: Path) -> None:
    rig = rig_of(tmp_path)
    watch = Watch(rig)
    watch.look(1)
    assert watch.condition.waits == ()
    watch.look(1.1, asked=True)
    assert WaitKind.BUNDLES in [wait.kind for wait in watch.condition.waits]


def test_job_condition_lists_transforms_and_bundles_of_stages(tmp_path: Path) -> None:
    rig = rig_of(tmp_path)
    watch = Watch(rig)
    rig.open_lanes()
    rig.step()
    watch.processes.started_bundle_counts, watch.processes.lost_process_count = {"read": 3}, 2
    watch.look(1)
    infos = {(info.urn, info.labels.get("STAGE")): info for info in watch.condition.list_metrics()}
    transforms = infos["beam_spark:stage:transforms:v1", "read"]
    assert decode_metric_value(transforms) == {"the read step"}
    assert decode_metric_value(infos["beam_spark:stage:bundles_committed:v1", "read"]) == 1
    assert decode_metric_value(infos["beam_spark:stage:bundles_committed:v1", "see"]) == 0
    assert decode_metric_value(infos["beam_spark:stage:bundles_failed:v1", "read"]) == 0
    assert decode_metric_value(infos["beam_spark:stage:bundles_retried:v1", "read"]) == 0
    assert decode_metric_value(infos["beam_spark:stage:bundles_begun:v1", "read"]) == 3
    assert decode_metric_value(infos["beam_spark:stage:bundles_begun:v1", "see"]) == 0
    assert decode_metric_value(infos["beam_spark:stage:bundles_interrupted:v1", "read"]) == 0
    assert decode_metric_value(infos["beam_spark:job:losses:v1", None]) == 2


def test_job_condition_metrics_are_current_until_job_ends(tmp_path: Path) -> None:
    rig = rig_of(tmp_path)
    watch = Watch(rig)
    watch.look(1)
    before = watch.condition.list_metrics()
    watch.look(1.1)
    assert watch.condition.list_metrics() == before
    rig.open_lanes()
    rig.step()
    watch.look(2)
    assert values(watch.condition.list_metrics(), "output_watermark")["read"] == MAX_TIMESTAMP
    rig.run()
    watch.look(2.1)
    infos = watch.condition.list_metrics()
    assert values(infos, "open_bundles") == values(infos, "output_watermark") == {}
    found = {
        (info.urn.split(":")[2], info.labels.get("STAGE")): decode_metric_value(info)
        for info in infos
    }
    assert [found["bundles_committed", stage] for stage in ("read", "see")] == [1, 2]
    began, last = (values(infos, name) for name in ("began", "last_at_work"))
    assert began.keys() == last.keys() == {"read", "see"}
    assert all(0 < began[stage] <= last[stage] for stage in began)


def test_job_condition_reports_retried_attempt_once(tmp_path: Path) -> None:
    rig = rig_of(tmp_path)
    watch = Watch(rig)
    watch.look(1)
    failure = BundleFailed(
        1, 1, "ValueError: x [while running 'read']\nTraceback", FailureKind.USER
    )
    rig.ledger.last_failure = failure
    watch.look(2)
    watch.look(3)
    (told,) = [text for importance, text, _ in watch.reporter.messages]
    assert told.startswith("attempt 1 at a bundle failed and will be retried: ValueError: x [")
    other = JobMonitor(rig.plan, watch.reporter, FakeProcesses())
    other.check_job(rig.ledger, rig.coordinator)
    assert len(watch.reporter.messages) == 1


@pytest.mark.parametrize(("end", "told"), [(FinishJob(Outcome.DONE), 1), (FailJob("why"), 0)])
def test_job_condition_reports_last_failure_before_end_unless_fatal(
    tmp_path: Path, end: FinishJob | FailJob, told: int
) -> None:
    rig = rig_of(tmp_path)
    watch = Watch(rig)
    watch.look(1)
    rig.ledger.last_failure = BundleFailed(1, 1, "its process is lost", FailureKind.OUTSIDE)
    rig.ledger.end = end
    assert len(watch.look(1)) == told


def test_commit_lag_of_stage_is_age_of_oldest_open_bundle(tmp_path: Path) -> None:
    watch = Watch(rig_of(tmp_path))
    with patch.object(watch.rig.coordinator.clock, "now", lambda: 4_000_000_000_000):
        watch.look(1)
    lag = values(watch.condition.list_metrics(), "commit_lag")["read"]
    opened = watch.rig.ledger.open_bundles[0].processing_time
    assert lag == 4_000_000_000_000 - opened


def test_job_condition_reports_starting_harness_as_reason(tmp_path: Path) -> None:
    rig = rig_of(tmp_path)
    rig.open_lanes()
    watch = Watch(rig)
    watch.look(1)
    (lane,) = rig.coordinator.lanes.list_busy_lanes()
    assert lane.link is not None
    assert lane.running is not None
    attempt = Attempt.from_bundle(lane.running)
    rig.coordinator.handle_message(lane.link, BundleProgressed(attempt, 0.0, 700, (), starts=True))
    assert lane.prepares
    lane.began -= 90
    (text,) = watch.look(2 * STILL_SECONDS)
    assert "an SDK harness has been starting for 100 s" in text
    (wait,) = (one for one in watch.condition.waits if one.kind is WaitKind.HARNESS)
    assert (wait.count, wait.seconds) == (1, 100.0)
    rig.coordinator.handle_message(lane.link, BundleProgressed(attempt, 0.0, 700, ()))
    assert not lane.prepares
    (text,) = watch.look(5 * STILL_SECONDS)
    assert "SDK harness" not in text


def test_job_waits_are_logged_at_growing_intervals(tmp_path: Path) -> None:
    watch = Watch(rig_of(tmp_path))
    assert watch.look(STILL_SECONDS - 1) == []
    (text,) = watch.look(STILL_SECONDS)
    waits = watch.condition.waits
    assert [wait.kind for wait in waits[:2]] == [WaitKind.SLOT, WaitKind.BUNDLES]
    assert (waits[1].stage, waits[1].steps) == ("read", ("the read step",))
    assert text == f"nothing has been committed for 5 s: {render_waits(waits)}"
    assert watch.condition.still == STILL_SECONDS
    assert watch.look(STILL_SECONDS + 1) == []
    assert watch.look(2 * STILL_SECONDS - 1) == []
    assert len(watch.look(2 * STILL_SECONDS)) == 1
    assert watch.look(3 * STILL_SECONDS) == []
    assert len(watch.look(4 * STILL_SECONDS)) == 1


def test_job_without_progress_for_long_time_logs_one_warning(tmp_path: Path) -> None:
    watch = Watch(rig_of(tmp_path))
    for still in (STILL_SECONDS, WARNING_SECONDS, 2 * WARNING_SECONDS):
        assert len(watch.look(still)) == 1
    assert [importance for importance, _, _ in watch.reporter.messages] == [
        Importance.BASIC,
        Importance.WARNING,
        Importance.BASIC,
    ]


@pytest.mark.parametrize("ended", [False, True])
def test_active_or_finished_job_logs_no_wait(tmp_path: Path, ended: bool) -> None:
    rig = rig_of(tmp_path)
    watch = Watch(rig)
    rig.open_lanes()
    if ended:
        rig.run()
        assert watch.look(100) == []
    else:
        rig.coordinator.moved = watch.start + 97
        assert watch.look(100) == []
        assert len(watch.look(97 + STILL_SECONDS)) == 1


def test_stream_that_waits_for_processing_time_only_logs_no_wait(tmp_path: Path) -> None:
    rig = rig_of(tmp_path)
    later = ResidualElement(encoded(b"later"), 60_000)
    rig.stages["see"].residuals = (later,)
    watch = Watch(rig)
    rig.run(until=lambda: not rig.ledger.open_bundles)
    watch.start = rig.coordinator.moved
    assert rig.ledger.next_wake is not None
    assert watch.look(100) == []


def test_job_condition_names_unresponsive_process_with_its_step(tmp_path: Path) -> None:
    watch = Watch(rig_of(tmp_path))
    watch.processes.silent = [SilentProcess(WorkerHello("job", "there", 7), 9.4, "see")]
    (text,) = watch.look(STILL_SECONDS + 1)
    (wait, *_) = watch.condition.waits
    assert (wait.kind, wait.steps) == (WaitKind.PROCESS, ("the see step",))
    assert render_record(wait) in text
    watch.processes.silent = [SilentProcess(WorkerHello("job", "there", 8), 20, "")]
    (text,) = watch.look(4 * STILL_SECONDS)
    (wait, *_) = watch.condition.waits
    assert (wait.pid, wait.steps, wait.seconds) == (8, (), 20)
    assert render_record(wait) in text


def test_job_condition_counts_unprocessed_input_of_open_bundles(tmp_path: Path) -> None:
    rig, _, order = running(tmp_path)
    watch = Watch(rig)
    watch.look(1)
    (lane,) = rig.coordinator.lanes.list_busy_lanes()
    assert lane.link is not None
    attempt = Attempt.from_bundle(order.bundle)
    found = []
    for now, fraction in ((2, 0.0), (3, 0.5)):
        rig.coordinator.handle_message(lane.link, BundleProgressed(attempt, fraction, 7, ()))
        watch.look(now, asked=True)
        infos = watch.condition.list_metrics()
        assert values(infos, "backlog_bytes")["see"] == 0
        found.append([values(infos, f"pending_{unit}")["see"] for unit in ("elements", "bytes")])
    (all_elements, all_bytes), (elements, size) = found
    assert (all_elements, elements) == (len(VALUES), len(VALUES) / 2)
    assert 0 < size < all_bytes


def test_pending_input_of_split_bundle_counts_its_elements_once(tmp_path: Path) -> None:
    rig, _, _ = running(tmp_path)
    (record,) = rig.ledger.scheduler_state.bundles.values()
    (work,) = record.work
    half = attrs.evolve(work.data, facts=attrs.evolve(work.data.facts, count=2))
    record.work = [attrs.evolve(work, data=half)]
    assert measure_pending_input(rig.ledger.scheduler_state, {})["see"].elements == 2
