"""Tests of the waits of a job as records with user-defined names."""

from __future__ import annotations

import time
from pathlib import Path

import attrs
from beam_runner_model.buffers import SideInputUse
from beam_runner_model.waits import Wait, WaitKind
from beam_runner_planner.plan import JobPlan
from beam_runner_runtime.channel.messages import WorkerHello
from beam_runner_storage.unavailable import ExternalSystemUnavailable
from small_jobs import rig_of

from beam_runner_driver.lanes.processes import SilentProcess
from beam_runner_driver.ledger.retrying_journal import Outage
from beam_runner_driver.reports.waiting import find_job_waits, make_external_system_wait


def plan_with_side_input(tmp_path: Path) -> JobPlan:
    plan = rig_of(tmp_path).plan
    (buffer,) = plan.stages["read"].outputs.values()
    use = SideInputUse("Look up", "side0", buffer)
    see = attrs.evolve(plan.stages["see"], side_inputs=(use,))
    return attrs.evolve(plan, stages={**plan.stages, "see": see})


def test_record_of_side_input_wait_names_reader_and_producer(tmp_path: Path) -> None:
    wait = Wait(WaitKind.SIDE_INPUT, "see", count=1, side_input="Look up:side0")
    plan = plan_with_side_input(tmp_path)
    *_, found = find_job_waits(rig_of(tmp_path / "2").coordinator, plan, (), [wait])
    assert found == attrs.evolve(wait, steps=("Look up",), givers=("the read step",))


def test_many_waits_of_same_kind_in_stage_become_few_wait_records(tmp_path: Path) -> None:
    timers = [Wait(WaitKind.TIMER, "see", shard=shard, until=9) for shard in range(100)]
    rig = rig_of(tmp_path)
    found = find_job_waits(rig.coordinator, rig.plan, (), timers)
    shards = [wait.shard for wait in found if wait.kind is WaitKind.TIMER]
    assert shards == [0, 1, 2]


def test_wait_record_names_stage_of_many_steps_by_first_and_last_step(tmp_path: Path) -> None:
    rig = rig_of(tmp_path)
    see = rig.plan.stages["see"]
    many = attrs.evolve(see, spec=attrs.evolve(see.spec, name=" + ".join("abcdefgh")))
    plan = attrs.evolve(rig.plan, stages={**rig.plan.stages, "see": many})
    *_, found = find_job_waits(rig.coordinator, plan, (), [Wait(WaitKind.BUNDLES, "see", count=1)])
    assert found.steps == ("a", "...", "h")


def test_wait_records_list_unresponsive_process_first_with_its_steps(tmp_path: Path) -> None:
    rig = rig_of(tmp_path)
    silent = SilentProcess(WorkerHello("job", "there", 7), 9.44, "see")
    first, *_ = find_job_waits(rig.coordinator, rig.plan, [silent], rig.ledger.list_wait_reasons())
    assert first == Wait(
        WaitKind.PROCESS, "see", ("the see step",), host="there", pid=7, seconds=9.4
    )


def test_wait_record_of_outage_has_its_start_and_deadline() -> None:
    now = time.monotonic()
    outage = Outage(ExternalSystemUnavailable("the disk", "full"), now - 60, now + 5)
    found = make_external_system_wait(outage, 1_000)
    assert (found.kind, found.neighbour, found.reason) == (WaitKind.NEIGHBOUR, "the disk", "full")
    assert round(found.seconds) == 60
    assert found.until is not None
    assert 5_500 < found.until <= 6_000
