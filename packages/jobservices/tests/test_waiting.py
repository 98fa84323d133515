"""Jobs that wait for others, or for what they are to run on, end when they are cancelled, and are left to the next server where it does not come."""

from __future__ import annotations

import threading

from beam_runner_jobservices import JobState, Unavailable

from .fakes import LIMIT, eventually, run_to_end
from .successors import Servers


def test_a_job_that_is_cancelled_while_it_waits_for_others_ends_at_once(tmp_path, pipeline):
    servers = Servers(tmp_path)
    client = servers.start()
    first, second = client.submit(pipeline), client.submit(pipeline)
    for job_id in (first, second):
        servers.executor.job(job_id).reporter.state(JobState.RUNNING)
    goes_on = threading.Event()
    client = servers.start(lambda job: goes_on.wait(LIMIT))
    try:
        assert client.cancel(second) is JobState.CANCELLED
        assert client.cancel(first) is JobState.CANCELLING
    finally:
        goes_on.set()
    assert eventually(lambda: servers.resumed(first).cancels)
    assert client.wait_until_finish(second, LIMIT) is JobState.CANCELLED
    assert [job.spec.job_id for job in servers.executor.jobs] == [first]
    client = servers.start()
    assert client.state(second).state is JobState.CANCELLED
    servers.stop()


def test_a_job_for_which_there_is_nothing_to_run_on_is_left_to_the_next_server(tmp_path, pipeline):
    servers = Servers(tmp_path)
    client = servers.start()
    job_id = client.submit(pipeline)
    servers.executor.job(job_id).reporter.state(JobState.RUNNING)
    asked = threading.Event()

    def can_not(job):
        asked.set()
        raise Unavailable("no executor has come")

    client = servers.start(can_not)
    assert asked.wait(LIMIT)
    assert not client.state(job_id).state.is_terminal
    client = servers.start()
    run_to_end(servers.resumed(job_id))
    assert client.wait_until_finish(job_id, LIMIT) is JobState.DONE
    servers.stop()
