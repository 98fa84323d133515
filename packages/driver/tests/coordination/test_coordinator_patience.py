"""Tests of the coordinator: temporarily failing bundles run again after pauses, and no other bundle waits."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
from beam_runner_data.rows.errors import RowsError
from beam_runner_engine.scheduler.commands import FailJob
from beam_runner_engine.scheduler.specs import Pauses
from beam_runner_model.failures import FailureCause
from beam_runner_runtime.channel.messages import LoopReply
from beam_runner_storage.unavailable import ExternalSystemUnavailable
from beam_runner_worker.errors import BundleError
from rig import NO_LOOP, Rig
from small_jobs import DONE, EXPECTED, LOOP_BYTES, PLAN, TRANSFORMS, rig_of, seen, text
from worker_doubles import FakeWorker, values_of

from beam_runner_driver.reports.failure_reports import describe_failed_bundles

MANY = 6
PATIENT: dict[str, Any] = {
    "user_attempts": None,
    "outside_attempts": None,
    "outage_limit": None,
    "pauses": Pauses(20, 60),
    "outage_pauses": Pauses(20, 60),
}
AWAY = ExternalSystemUnavailable("the data store at s3://b", "timed out")
MINE = BundleError("Outer/Inner", "ValueError: no", "Traceback of it", "('k', 1)")


def fails_first(rig: Rig, times: int, error: Exception) -> None:
    """Makes the bundles that see values fail `times` times."""
    left = [times]

    def during(chunk: Any) -> None:
        if left[0]:
            left[0] -= 1
            raise error

    rig.stages["see"].during = during


@pytest.mark.parametrize("loop_bytes", [NO_LOOP, LOOP_BYTES])
@pytest.mark.parametrize("error", [MINE, OSError("lost"), AWAY, OSError(28, "No space left")])
def test_temporarily_failing_bundle_of_stream_is_committed_once(
    tmp_path: Path, loop_bytes: int, error: Exception
) -> None:
    rig = rig_of(tmp_path, loop_bytes=loop_bytes, limits=PATIENT, cores=2)
    fails_first(rig, MANY, error)
    began = time.monotonic()
    rig.run()
    assert rig.ledger.end == DONE
    assert seen(rig) == EXPECTED
    assert time.monotonic() - began > 0.02


def test_outage_in_bounded_job_counts_no_attempt(tmp_path: Path) -> None:
    limits = {"user_attempts": 1, "outside_attempts": 1, "outage_pauses": Pauses(10, 20)}
    rig = rig_of(tmp_path, limits=limits)
    fails_first(rig, MANY, AWAY)
    rig.run()
    assert rig.ledger.end == DONE
    assert sum(tally.failed for tally in rig.ledger.tallies.values()) == 0


def test_outage_beyond_limit_fails_job_and_names_service(tmp_path: Path) -> None:
    rig = rig_of(tmp_path, limits={"outage_limit": 100, "outage_pauses": Pauses(10, 20)})
    fails_first(rig, 1_000, AWAY)
    rig.run()
    assert text(rig) == (
        "'the see step' waited for the data store at s3://b longer than --outage-limit"
        " of the server permits: the data store at s3://b is unavailable: timed out"
    )


def test_damaged_file_fails_stream_immediately(tmp_path: Path) -> None:
    rig = rig_of(tmp_path, limits=PATIENT)
    fails_first(
        rig, 1, RowsError.create_damage_error(tmp_path / "f", "the checksum of row 1 doesn't match")
    )
    rig.run()
    assert isinstance(rig.ledger.end, FailJob)
    assert text(rig).startswith(
        "'the see step' failed with a permanent error: RowsError: the data file"
    )


def test_bundle_in_retry_pause_leaves_its_lane_to_other_bundles(tmp_path: Path) -> None:
    limits = {**PATIENT, "pauses": Pauses(60_000, 60_000)}
    rig = rig_of(tmp_path, limits=limits)

    def during(chunk: Any) -> None:
        if b"a" in values_of(chunk):
            raise MINE

    rig.stages["see"].during = during
    rig.run(until=lambda: not rig.ledger.open_bundles)
    (failed,) = rig.ledger.list_retried_bundles()
    assert (failed.attempts, failed.due is None) == (1, False)
    assert set(seen(rig)) == {"c", "d"}, "a and b share a bundle"
    assert len(rig.workers) == 1
    assert not list(rig.coordinator.lanes.list_busy_lanes())


def test_scheduler_loop_ends_if_its_only_bundle_is_in_retry_pause(tmp_path: Path) -> None:
    limits = {**PATIENT, "pauses": Pauses(300, 300)}
    rig = rig_of(tmp_path, loop_bytes=LOOP_BYTES, limits=limits)
    fails_first(rig, 1, MINE)
    loops: list[Any] = []
    heard = rig.heard

    def note(worker: FakeWorker, *messages: Any) -> None:
        loops.extend(m for m in messages if isinstance(m, LoopReply))
        heard(worker, *messages)

    rig.heard = note  # type: ignore[method-assign]
    rig.run()
    assert rig.ledger.end == DONE
    assert seen(rig) == EXPECTED
    assert len(loops) == 2, "the scheduler is lent again after the pause"
    assert loops[0].running is None


@pytest.mark.parametrize("loop_bytes", [NO_LOOP, LOOP_BYTES])
def test_next_server_continues_retry_pause_of_bundle(tmp_path: Path, loop_bytes: int) -> None:
    limits = {**PATIENT, "pauses": Pauses(200, 200)}
    first = rig_of(tmp_path, loop_bytes=loop_bytes, limits=limits)
    fails_first(first, 1, MINE)
    first.run(until=lambda: any(r.due is not None for r in first.ledger.list_retried_bundles()))
    first.stop()
    (before,) = (r for r in first.ledger.list_retried_bundles() if r.due is not None)
    rig = Rig(tmp_path, PLAN, TRANSFORMS, loop_bytes=loop_bytes)
    assert [r for r in rig.ledger.list_retried_bundles() if r.due is not None] == [before]
    assert before.bundle not in rig.ledger.open_bundles
    rig.begin()
    rig.run()
    assert rig.ledger.end == DONE
    assert seen(rig) == EXPECTED


def test_record_of_failed_bundle_names_step_element_attempts_and_next_attempt(
    tmp_path: Path,
) -> None:
    rig = rig_of(tmp_path, limits={**PATIENT, "pauses": Pauses(60_000, 60_000)})
    fails_first(rig, 1, MINE)
    rig.run(until=lambda: bool(rig.ledger.list_retried_bundles()))
    (record,) = describe_failed_bundles(rig.ledger, rig.plan, rig.coordinator.clock.now())
    assert (record.stage, record.steps, record.attempts) == ("see", ("the see step",), 1)
    assert (record.kind, record.step) == (FailureCause.USER_CODE, "Outer/Inner")
    assert (record.error, record.element) == ("ValueError: no", "('k', 1)")
    assert record.next_in == pytest.approx(60, abs=5)


# Unavailable lanes.


def test_four_lane_failures_fail_bounded_job(tmp_path: Path) -> None:
    rig = rig_of(tmp_path)
    for _ in range(4):
        rig.coordinator.handle_lane_end(rig.starting.pop(0), "no executor")
        rig.coordinator.run_round()
    assert isinstance(rig.ledger.end, FailJob)
    assert "failed to start worker processes" in rig.ledger.end.reason


def test_stream_pauses_after_lane_failures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rig = rig_of(tmp_path, limits=PATIENT)
    clock = [time.monotonic()]
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    pauses = []
    for _ in range(9):
        rig.coordinator.handle_lane_end(rig.starting.pop(0), "no executor")
        rig.coordinator.run_round()
        assert rig.starting == [], "started again without a pause"
        outage = rig.coordinator.lane_failures.outage
        assert outage is not None
        assert outage.away.reason == "no executor"
        pauses.append(round(outage.next_try - clock[0]))
        clock[0] = outage.next_try + 0.001
        rig.coordinator.run_round()
        assert len(rig.starting) == 1
    assert pauses == [1, 2, 4, 8, 16, 32, 60, 60, 60]
    monkeypatch.undo()
    rig.run()
    assert rig.ledger.end == DONE
    assert rig.coordinator.lane_failures.outage is None


def test_repeatedly_lost_executors_do_not_fail_stream(tmp_path: Path) -> None:
    rig = rig_of(tmp_path, limits=PATIENT)
    lost = 0
    while rig.ledger.end is None:
        rig.open_lanes()
        busy = [worker for worker in rig.workers if worker.pending]
        if busy and lost < 12:
            lost += 1
            rig.lose(busy[0])
            rig.workers.remove(busy[0])
            rig.coordinator.run_round()
        elif busy:
            rig.step()
        else:
            time.sleep(rig.coordinator.seconds_to_alarm or 0.0)
            rig.coordinator.run_round()
    assert lost == 12
    assert rig.ledger.end == DONE
    assert seen(rig) == EXPECTED
