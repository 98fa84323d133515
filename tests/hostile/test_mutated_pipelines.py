"""Tests that mutated pipelines are planned or refused by name in limited time, and that nothing is unpickled."""

from __future__ import annotations

import os
import time

import attrs
import pytest
import samples
from beam_runner_driver.ledger.ledger import JobLedger
from beam_runner_driver.ledger.scheduling import make_root_outputs
from beam_runner_engine.scheduler.events import Start
from beam_runner_engine.scheduler.policy import DefaultPolicy
from beam_runner_engine.scheduler.specs import Limits
from beam_runner_jobservices.errors import InvalidRequest
from beam_runner_jobservices.wire.pipelines import check_pipeline
from beam_runner_planner.errors import InvalidPipeline, UnsupportedPipeline
from beam_runner_planner.plan import JobPlan
from beam_runner_planner.translate import plan_job
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from mutations import mutated
from watched import nothing_unpickled

EXAMPLES = int(os.environ.get("BEAM_HOSTILE_EXAMPLES", "150"))
_SECONDS = 2.0
SHAPES = [(build, flags) for build in samples.ALL for flags in (samples.EMBEDDED, samples.EXTERNAL)]


def attempt(pipeline: bytes) -> JobPlan | str:
    """Returns the plan, or the reason of the refusal."""
    job = attrs.evolve(samples.job_of(samples.built(samples.without_a_source)), pipeline=pipeline)
    began = time.thread_time()
    try:
        with nothing_unpickled():
            check_pipeline(job.pipeline)
            plan = plan_job(job)
            ledger = JobLedger(plan, 2, Limits(parallelism=2), DefaultPolicy())
            ledger.apply_journal_entry(Start(0, make_root_outputs(plan)))
            return plan
    except (InvalidRequest, InvalidPipeline, UnsupportedPipeline) as refusal:
        return str(refusal)
    finally:
        assert time.thread_time() - began < _SECONDS


@settings(max_examples=EXAMPLES, suppress_health_check=list(HealthCheck))
@given(st.sampled_from(SHAPES), st.integers(0, 2**32), st.sampled_from((1, 1, 1, 2, 3, 8)))
def test_mutated_pipelines_are_planned_or_refused(
    shape: tuple[samples.Build, tuple[str, ...]], seed: int, changes: int
) -> None:
    build, flags = shape
    proto = samples.built(build, *flags)
    samples.job_of(proto)
    refused = attempt(mutated(proto.SerializeToString(), seed, changes))
    if isinstance(refused, str):
        assert refused.startswith(
            ("the ", "This runner", "Can't parse", "transform ", "environment ", "an ")
        )
        assert "Error" not in refused


@pytest.mark.parametrize("build", samples.ALL, ids=lambda build: build.__name__)
def test_unmutated_pipelines_are_planned(build: samples.Build) -> None:
    proto = samples.built(build)
    samples.job_of(proto)
    assert isinstance(attempt(proto.SerializeToString()), JobPlan)
