"""Tests of the handle of a job that replaces another job."""

from __future__ import annotations

from typing import Any
from unittest.mock import Mock

import pytest
from beam_runner_driver.updates.job_update import JobUpdate
from beam_runner_jobservices.errors import NotReady
from beam_runner_jobservices.ports import JobObserver
from beam_runner_model.jobs import JobMetrics

from beam_runner_server.updating_job import UpdatingJob


@pytest.fixture
def update() -> JobUpdate:
    parts: Any = (None, None)
    return JobUpdate("new", *parts, 1.0, False, lambda report: None, lambda report: None)


def test_handle_of_updating_job_reports_no_metrics_before_replacement(update: JobUpdate) -> None:
    handle = UpdatingJob(update)
    assert isinstance(handle, JobObserver)
    assert handle.get_metrics() == JobMetrics()
    assert handle.get_stage_series() == ()
    with pytest.raises(NotReady):
        handle.get_execution()
    with pytest.raises(NotReady):
        handle.get_stacks()


def test_cancel_of_new_job_before_replacement_cancels_update(update: JobUpdate) -> None:
    UpdatingJob(update).cancel()
    assert update.withdrawn.is_set()


def test_requests_before_replacement_are_forwarded_to_new_job_after_its_start(
    update: JobUpdate,
) -> None:
    drained, cancelled = Mock(), Mock()
    handle = UpdatingJob(update)
    handle.drain()
    handle.attach_job(drained)
    drained.drain.assert_called_once_with()
    drained.cancel.assert_not_called()
    other = UpdatingJob(update)
    other.cancel()
    other.attach_job(cancelled)
    cancelled.cancel.assert_called_once_with()


def test_handle_of_updating_job_after_replacement_reports_new_job(
    update: JobUpdate,
) -> None:
    running = Mock()
    handle = UpdatingJob(update)
    handle.attach_job(running)
    assert handle.get_metrics() is running.get_metrics()
    assert handle.get_execution() is running.get_execution()
    assert handle.get_stacks() is running.get_stacks()
    assert handle.get_stage_series() is running.get_stage_series()
    handle.cancel()
    handle.drain()
    running.cancel.assert_called_once_with()
    running.drain.assert_called_once_with()
