"""Tests that a cancel ends jobs that wait for Spark, before Spark is available."""

from __future__ import annotations

import threading
from concurrent.futures import Future
from typing import Any

import pytest
from beam_runner_model.jobs import JobState
from servers import Reporter

from beam_runner_server.waiting_jobs import NeverStartedJob, wait_for_requirement


def test_job_waiting_for_spark_is_cancelled_before_spark_is_available() -> None:
    reporter = Reporter()
    states = iter([JobState.STOPPED, JobState.STARTING, JobState.CANCELLING])
    handle = wait_for_requirement(Future(), lambda: next(states), reporter)
    assert isinstance(handle, NeverStartedJob)
    assert reporter.states == [(JobState.CANCELLED, None)]
    handle.cancel()
    handle.drain()
    assert handle.get_metrics().committed == ()


@pytest.mark.parametrize("state", [JobState.STARTING, JobState.DRAINING])
def test_job_waiting_for_spark_gets_spark_when_available(state: JobState) -> None:
    reporter = Reporter()
    spark: Future[str] = Future()
    threading.Timer(0.7, spark.set_result, ("Spark",)).start()
    assert wait_for_requirement(spark, lambda: state, reporter) == "Spark"
    assert reporter.states == []


@pytest.mark.parametrize("error", [RuntimeError("no Java"), TimeoutError("no executor")])
def test_job_waiting_for_spark_fails_if_spark_cannot_start(error: Exception) -> None:
    spark: Future[Any] = Future()
    spark.set_exception(error)
    with pytest.raises(type(error), match="no "):
        wait_for_requirement(spark, lambda: JobState.STARTING, Reporter())
