"""Tests of the selection of stages that can run as a section (one Spark job), and of the scheduler
with these stages.
"""

from __future__ import annotations

from collections import deque
from typing import Any

import attrs
import pytest
import samples
from beam_runner_engine.scheduler.commands import FailJob, FinishJob, OpenBundles, Outcome
from beam_runner_engine.scheduler.events import BundleDone, Start
from beam_runner_engine.scheduler.scheduler import Scheduler
from beam_runner_model.buffers import BufferKind, MergingPlan
from beam_runner_planner.plan import JobPlan, TestStreamPlan, TruncationPlan
from sample_buffers import buffer
from small_plans import plan_of, stage

from beam_runner_driver.ledger.scheduling import make_root_outputs, make_scheduler_graph

every_sample = pytest.mark.parametrize("build", samples.ALL, ids=lambda build: build.__name__)


def spanning(plan: JobPlan) -> set[str]:
    """Returns the stages that can be part of a section (one Spark job). Without sections, no stage
    can.
    """
    assert not any(one.spans for one in make_scheduler_graph(plan).stages)
    return {one.name for one in make_scheduler_graph(plan, sections=True).stages if one.spans}


@every_sample
def test_scheduler_with_sections_finishes_plan(build: samples.Build) -> None:
    plan = samples.plan_of(build)
    graph = make_scheduler_graph(plan, sections=True)
    scheduler = Scheduler(graph)
    waiting = deque(scheduler.handle_event(Start(0, make_root_outputs(plan))))
    seen: set[str] = set()
    while waiting:
        command = waiting.popleft()
        if isinstance(command, OpenBundles):
            for bundle in command.bundles:
                seen |= {part.stage for part in bundle.parts}
                waiting.extend(scheduler.handle_event(BundleDone(bundle.number, bundle.attempt)))
        elif isinstance(command, FinishJob):
            assert command.outcome is Outcome.DONE
            assert seen <= spanning(plan)
            return
        assert not isinstance(command, FailJob), command
    raise AssertionError("the job stopped without an end")


CHAIN = plan_of(
    [
        stage("read", None, {"out": "pairs"}),
        stage("count", "pairs", {"out": "counts"}, groups=True),
        stage("end", "counts"),
    ],
    [buffer("pairs", BufferKind.GROUPED), buffer("counts", BufferKind.DEALT)],
)
ALL = {"read", "count", "end"}


def changed(**stages: Any) -> JobPlan:
    """Returns the chain with other fields in some of its stages."""
    changes = {name: attrs.evolve(CHAIN.stages[name], **more) for name, more in stages.items()}
    return attrs.evolve(CHAIN, stages={**CHAIN.stages, **changes})


def with_pairs(**more: Any) -> JobPlan:
    """Returns the chain with other fields in the grouped buffer."""
    return attrs.evolve(
        CHAIN, buffers={**CHAIN.buffers, "pairs": attrs.evolve(CHAIN.buffers["pairs"], **more)}
    )


@pytest.mark.parametrize(
    ("plan", "expected"),
    [
        (CHAIN, ALL),
        (attrs.evolve(CHAIN, streaming=True), set()),
        (attrs.evolve(CHAIN, one_interpreter=True), set()),
        (attrs.evolve(CHAIN, test_streams=(TestStreamPlan("script", (), ()),)), set()),
        (changed(end={"embedded": False}), ALL),
        (changed(end={"stable_input": True}), {"read", "count"}),
        (changed(end={"callbacks": True}), {"read", "count"}),
        (changed(end={"truncation": TruncationPlan(None, endless=False)}), ALL),
        (with_pairs(bulk=False, whole=True), ALL),
        (with_pairs(bulk=False, whole=False), {"read", "end"}),
        (with_pairs(merging=MergingPlan(CHAIN.stages["end"].spec, embedded=True)), ALL),
        (with_pairs(merging=MergingPlan(CHAIN.stages["end"].spec, embedded=False)), ALL),
    ],
    ids=[
        *("chain", "stream", "one interpreter", "scripted", "elsewhere", "stable"),
        *("callbacks", "splittable", "whole", "in parts", "merged here", "merged elsewhere"),
    ],
)
def test_bounded_stages_that_spark_tasks_can_run_form_sections(
    plan: JobPlan, expected: set[str]
) -> None:
    assert spanning(plan) == expected
