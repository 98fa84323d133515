"""Tests of jobs that wait for other jobs or for Spark: a cancel ends them, otherwise the next server resumes them."""

from __future__ import annotations

import threading

from beam_runner_model.errors import Unavailable
from beam_runner_model.jobs import JobMessage, JobState
from waiting import eventually

from beam_runner_jobservices import registry, threads

from .fakes import LIMIT, run_to_end
from .successors import Servers


def test_job_waiting_for_resources_is_cancelled_immediately(tmp_path, pipeline):
    servers = Servers(tmp_path)
    client = servers.start()
    first, second = client.submit_job(pipeline), client.submit_job(pipeline)
    for job_id in (first, second):
        servers.executor.job(job_id).reporter.report_state(JobState.RUNNING)
    goes_on = threading.Event()
    client = servers.start(lambda job: goes_on.wait(LIMIT))
    try:
        assert client.cancel_job(second) is JobState.CANCELLED
        assert client.cancel_job(first) is JobState.CANCELLING
    finally:
        goes_on.set()
    assert eventually(lambda: servers.resumed(first).cancels)
    assert client.wait_until_finish(second, LIMIT) is JobState.CANCELLED
    assert [job.spec.job_id for job in servers.executor.jobs] == [first]
    client = servers.start()
    assert client.get_state(second).state is JobState.CANCELLED
    servers.stop()


def test_job_waiting_for_resources_is_left_to_next_server(tmp_path, pipeline):
    servers = Servers(tmp_path)
    client = servers.start()
    job_id = client.submit_job(pipeline)
    servers.executor.job(job_id).reporter.report_state(JobState.RUNNING)
    asked = threading.Event()

    def can_not(job):
        asked.set()
        raise Unavailable("no executor has come")

    client = servers.start(can_not)
    assert asked.wait(LIMIT)
    assert not client.get_state(job_id).state.is_terminal
    client = servers.start()
    run_to_end(servers.resumed(job_id))
    assert client.wait_until_finish(job_id, LIMIT) is JobState.DONE
    servers.stop()


def test_restored_job_without_resources_is_resumed_later(tmp_path, pipeline, monkeypatch):
    monkeypatch.setattr(registry, "_RESUME_AGAIN_SECONDS", 0.05)
    servers = Servers(tmp_path)
    client = servers.start()
    job_id = client.submit_job(pipeline)
    servers.executor.job(job_id).reporter.report_state(JobState.RUNNING)
    asked = []

    def can_not_yet(job):
        asked.append(job)
        if len(asked) < 4:
            raise Unavailable("the disk is full")

    client = servers.start(can_not_yet)
    assert eventually(lambda: len(asked) == 4)
    run_to_end(asked[-1])
    assert client.wait_until_finish(job_id, LIMIT) is JobState.DONE
    texts = [
        one.text for one in client.follow_messages(job_id, LIMIT) if isinstance(one, JobMessage)
    ]
    assert sum("the disk is full" in text for text in texts) == 1
    assert sum("has restarted" in text for text in texts) == 1
    servers.stop()


def test_restored_job_waiting_for_resources_ends_when_cancelled(tmp_path, pipeline, monkeypatch):
    monkeypatch.setattr(registry, "_RESUME_AGAIN_SECONDS", 0.05)
    servers = Servers(tmp_path)
    client = servers.start()
    job_id = client.submit_job(pipeline)
    servers.executor.job(job_id).reporter.report_state(JobState.RUNNING)
    asked = threading.Event()

    def can_not(job):
        asked.set()
        raise Unavailable("the disk is full")

    client = servers.start(can_not)
    assert asked.wait(LIMIT)
    client.cancel_job(job_id)
    assert client.wait_until_finish(job_id, LIMIT) is JobState.CANCELLED
    servers.stop()


def test_error_while_resuming_job_does_not_affect_other_jobs(tmp_path, pipeline, monkeypatch):
    servers = Servers(tmp_path)
    client = servers.start()
    jobs = [client.submit_job(pipeline) for _ in range(3)]
    for job_id in jobs:
        servers.executor.job(job_id).reporter.report_state(JobState.RUNNING)
    errors = [SystemExit(0), MemoryError()]
    missing = registry.find_missing_artifact

    def broken(spec, store):
        if errors:
            raise errors.pop()
        return missing(spec, store)

    monkeypatch.setattr(registry, "find_missing_artifact", broken)
    monkeypatch.setattr(threads, "_AGAIN_SECONDS", 0.01)
    client = servers.start()
    for job_id in jobs:
        run_to_end(servers.resumed(job_id))
        assert client.wait_until_finish(job_id, LIMIT) is JobState.DONE
    assert errors == []
    servers.stop()
