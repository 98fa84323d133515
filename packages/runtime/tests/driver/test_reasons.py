"""Why stages wait: for people, by the names that they gave."""

from __future__ import annotations

from pathlib import Path

import attrs
from beam_runner_engine.scheduler import Wait, WaitFor
from beam_runner_model.buffers import SideInputUse
from beam_runner_planner.plan import JobPlan
from small_jobs import rig_of

from beam_runner_runtime.driver.reasons import reasons


def plan_with_side_input(tmp_path: Path) -> JobPlan:
    plan = rig_of(tmp_path).plan
    (buffer,) = plan.stages["read"].outputs.values()
    use = SideInputUse("Look up", "side0", buffer)
    see = attrs.evolve(plan.stages["see"], side_inputs=(use,))
    return attrs.evolve(plan, stages={**plan.stages, "see": see})


def test_a_side_input_is_told_by_who_reads_it_and_who_gives_it(tmp_path: Path) -> None:
    wait = Wait("see", WaitFor.SIDE_INPUT, "has data that waits", "Look up:side0")
    assert reasons([wait, wait], plan_with_side_input(tmp_path)) == {
        "see": ("Look up waits for its side input, which the read step has not given yet",)
    }


def test_what_only_takes_its_turn_is_no_reason(tmp_path: Path) -> None:
    waits = [
        Wait("read", WaitFor.BUNDLES, "has bundles running: 1"),
        Wait("see", WaitFor.UPSTREAM, "waits for collection 'x'"),
    ]
    assert reasons(waits, rig_of(tmp_path).plan) == {}
