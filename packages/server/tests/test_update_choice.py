"""Tests of the choice of the running job that an update replaces."""

from __future__ import annotations

import pytest
from beam_runner_jobservices.errors import JobRejected
from beam_runner_model.jobs import JobInfo, JobSpec, JobState
from beam_runner_runtime.update_options import UpdateOptions, parse_update_options

from beam_runner_server.option_checks import parse_options
from beam_runner_server.update_choice import choose_job_to_replace

NEW = JobSpec("orders-9", "orders", b"", {}, "{}", {}, "")


def job(job_id: str, state: JobState = JobState.RUNNING, name: str = "orders") -> JobInfo:
    return JobInfo(job_id, name, state)


def choose(*jobs: JobInfo, job_id: str = "") -> str:
    own = job(NEW.job_id, JobState.STARTING)
    return choose_job_to_replace((*jobs, own), NEW, UpdateOptions(job_id=job_id))


def test_update_selects_only_running_job_with_same_name() -> None:
    others = (
        job("orders-1", JobState.UPDATED),
        job("orders-2", JobState.FAILED),
        job("other-1", name="other"),
    )
    assert choose(*others, job("orders-3")) == "orders-3"


def test_update_with_job_id_selects_that_job() -> None:
    jobs = (job("orders-1"), job("orders-2"), job("other-1", name="other"))
    assert choose(*jobs, job_id="orders-2") == "orders-2"
    assert choose(*jobs, job_id="other-1") == "other-1"


def test_update_without_running_job_of_same_name_is_refused() -> None:
    with pytest.raises(JobRejected, match="no running job has the name 'orders'"):
        choose(job("orders-1", JobState.UPDATED), job("other-1", name="other"))


def test_update_with_own_job_id_or_unknown_job_id_is_refused() -> None:
    for job_id in (NEW.job_id, "nobody"):
        with pytest.raises(JobRejected, match="no such job"):
            choose(job("orders-1"), job_id=job_id)


def test_update_with_several_jobs_of_same_name_is_refused_with_their_ids() -> None:
    with pytest.raises(JobRejected, match="2 running jobs .*: orders-1, orders-2"):
        choose(job("orders-1"), job("orders-2"), job("orders-3", JobState.DRAINING))


def test_update_prefers_running_job_to_starting_and_draining_jobs() -> None:
    others = (job("orders-1", JobState.DRAINING), job("orders-3", JobState.STARTING))
    assert choose(*others, job("orders-2")) == "orders-2"
    with pytest.raises(JobRejected, match="2 running jobs"):
        choose(*others)


@pytest.mark.parametrize("state", [one for one in JobState if one is not JobState.RUNNING])
def test_update_of_job_that_does_not_run_is_refused(state: JobState) -> None:
    with pytest.raises(JobRejected, match="job orders-1 .*can't replace it"):
        choose(job("orders-1", state), job_id="orders-1")


def test_update_with_invalid_option_is_refused() -> None:
    options = {"beam:option:beam_spark_update:v1": "now"}
    with pytest.raises(JobRejected, match="--beam_spark_update"):
        parse_options(JobSpec("a", "a", b"", options, "{}", {}, ""), parse_update_options)
