"""Tests of pipelines with more consecutive transforms than Python's stack has frames."""

from __future__ import annotations

import inspect
import sys

import samples

from beam_runner_planner.translate import plan_job


def test_pipelines_deeper_than_python_stack_are_planned() -> None:
    samples.plan_of(samples.chain)  # imports modules, for which Python needs a deep stack
    job = samples.job_of(samples.proto_of(lambda p: samples.chain(p, 80)))
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(len(inspect.stack(0)) + 120)
    try:
        plan = plan_job(job)
    finally:
        sys.setrecursionlimit(limit)
    assert len(plan.stages) == 81
