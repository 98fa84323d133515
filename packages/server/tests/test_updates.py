"""Tests of the end of a job that an update of an earlier server has replaced."""

from __future__ import annotations

import time
from typing import Any
from unittest.mock import Mock

import pytest
from beam_runner_model.jobs import JobInfo, JobState

from beam_runner_server.updates import end_replaced_job


@pytest.mark.parametrize(
    ("values", "seconds"), [({}, 3600), ({"keep": "2h"}, 7200), ({"keep": "0s"}, 0)]
)
def test_program_of_replaced_job_is_retained_after_server_was_killed(
    values: dict[str, Any], seconds: float
) -> None:
    options = {"beam:option:update:v1": True} | {
        f"beam:option:beam_spark_update_{name}:v1": value for name, value in values.items()
    }
    reporter = Mock()
    before = time.time()
    end_replaced_job(reporter, "job-2", [JobInfo("job-2", "orders", JobState.RUNNING, options)])
    (succession,) = reporter.record_succession.call_args.args
    assert succession.successor == "job-2"
    until = succession.program_kept_until
    assert until - (before if seconds else 0) == pytest.approx(seconds, abs=60)
    reporter.report_state.assert_called_once_with(JobState.UPDATED)
