"""Tests of a server whose users have quotas."""

from __future__ import annotations

import pytest
from beam_runner_model.jobs import JobMessage, JobState
from waiting import eventually

from beam_runner_jobservices.channels import Credentials
from beam_runner_jobservices.client import JobClient
from beam_runner_jobservices.errors import JobApiError, JobRejected
from beam_runner_jobservices.guard import read_access_guard

from .fakes import LIMIT, pipeline_proto, run_to_end
from .successors import Servers

ANN, BOB = "the token of ann", "the token of bob"
PIPELINE = pipeline_proto().SerializeToString()


def write_users(path, running=1, waiting=2):
    rights = 'rights = ["submit", "read", "cancel"]'
    path.write_text(
        f'[users.ann]\ntoken = "{ANN}"\n{rights}\nrunning_jobs = {running}\n'
        f'waiting_jobs = {waiting}\n[users.bob]\ntoken = "{BOB}"\n{rights}\n'
    )


@pytest.fixture
def servers(tmp_path):
    write_users(tmp_path / "users.toml")
    made = Servers(tmp_path, guard=read_access_guard(users_file=tmp_path / "users.toml"), token=ANN)
    yield made
    made.stop()


def find_started(servers):
    return [job.spec.job_id for job in servers.executor.jobs]


def read_first_message(client, job_id):
    return next(e.text for e in client.follow_messages(job_id, LIMIT) if isinstance(e, JobMessage))


def test_jobs_above_quota_of_user_wait_and_run_in_order(servers):
    client = servers.start()
    jobs = [client.submit_job(PIPELINE) for _ in range(3)]
    assert [client.get_state(job).state.name for job in jobs] == ["STARTING", "STOPPED", "STOPPED"]
    assert find_started(servers) == jobs[:1]
    for ahead, job in enumerate(jobs[1:]):
        text = read_first_message(client, job)
        assert "'ann' has 1 running jobs" in text
        assert text.endswith(f"ahead: {ahead}")
    for number, job in enumerate(jobs):
        run_to_end(servers.resumed(job))
        assert client.wait_until_finish(job, LIMIT) is JobState.DONE
        assert eventually(lambda n=number: find_started(servers) == jobs[: n + 2])


def test_job_above_the_waiting_limit_of_a_user_is_refused_and_can_run_later(servers):
    client = servers.start()
    jobs = [client.submit_job(PIPELINE) for _ in range(3)]
    prepared = client.prepare_job(PIPELINE)
    with pytest.raises(JobApiError, match="'ann' has 1 running jobs and 2 waiting") as refused:
        client.run_job(prepared)
    assert refused.value.code == "RESOURCE_EXHAUSTED"
    assert len(client.list_jobs()) == 3
    client.cancel_job(jobs[1])
    assert client.get_state(client.run_job(prepared)).state is JobState.STOPPED


def test_job_of_another_user_does_not_wait_for_the_quota(servers):
    client = servers.start()
    for _ in range(3):
        client.submit_job(PIPELINE)
    with JobClient(servers.server.address, LIMIT, Credentials(token=BOB)) as bob:
        for _ in range(3):
            assert bob.get_state(bob.submit_job(PIPELINE)).state is JobState.STARTING


def test_job_waiting_for_a_quota_is_cancelled_without_a_start(servers):
    client = servers.start()
    first, second, third = (client.submit_job(PIPELINE) for _ in range(3))
    assert client.cancel_job(second) is JobState.CANCELLED
    run_to_end(servers.resumed(first))
    run_to_end(servers.resumed(third))
    assert client.wait_until_finish(third, LIMIT) is JobState.DONE
    assert find_started(servers) == [first, third]


def test_job_drained_while_waiting_for_a_quota_drains_when_it_starts(servers):
    client = servers.start()
    first, second = client.submit_job(PIPELINE), client.submit_job(PIPELINE)
    assert client.drain_job(second) is JobState.DRAINING
    run_to_end(servers.resumed(first))
    assert client.wait_until_finish(second, LIMIT) is JobState.DRAINED
    assert servers.resumed(second).drains == 1


def test_next_waiting_job_starts_after_rejected_job(servers):
    def refuse_second(job):
        if len(servers.executor.jobs) == 2:
            raise JobRejected("not this job")

    client = servers.start(refuse_second)
    first, second, third = (client.submit_job(PIPELINE) for _ in range(3))
    run_to_end(servers.resumed(first))
    assert client.wait_until_finish(second, LIMIT) is JobState.FAILED
    assert servers.resumed(third).spec.user == "ann"


def test_jobs_waiting_for_a_quota_survive_a_restart(servers):
    client = servers.start()
    jobs = [client.submit_job(PIPELINE) for _ in range(3)]
    for _ in range(2):
        client = servers.start()
        servers.resumed(jobs[0])
        assert [client.get_state(job).state.name for job in jobs[1:]] == ["STOPPED", "STOPPED"]
        assert find_started(servers) == jobs[:1]
    run_to_end(servers.resumed(jobs[0]))
    run_to_end(servers.resumed(jobs[1]))
    assert servers.resumed(jobs[2]).spec.resumed is False


def test_server_restarted_without_users_starts_the_waiting_jobs(servers):
    client = servers.start()
    jobs = {client.submit_job(PIPELINE) for _ in range(3)}
    servers.guard = None
    servers.start()
    assert eventually(lambda: set(find_started(servers)) == jobs)


def test_server_that_cancels_all_jobs_starts_no_waiting_job(servers, tmp_path):
    client = servers.start()
    for _ in range(3):
        client.submit_job(PIPELINE)
    assert servers.server.cancel_all(LIMIT) == ()
    assert {job.state for job in client.list_jobs()} == {JobState.CANCELLED}
    assert len(servers.executor.jobs) == 1


def test_larger_quota_starts_waiting_jobs(servers, tmp_path):
    client = servers.start()
    jobs = [client.submit_job(PIPELINE) for _ in range(2)]
    write_users(tmp_path / "users.toml", running=3)
    # A submission, an end of a job and the housekeeping look at the quotas.
    jobs.append(client.submit_job(PIPELINE))
    assert eventually(lambda: sorted(find_started(servers)) == sorted(jobs))
