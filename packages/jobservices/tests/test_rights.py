"""Tests of a server with users: each method requires a right, and each job records its user."""

from __future__ import annotations

import json
import logging
import sqlite3

import grpc
import pytest
from beam_runner_model.jobs import JobState

from beam_runner_jobservices.channels import Credentials, open_channel
from beam_runner_jobservices.client import JobClient
from beam_runner_jobservices.errors import JobApiError
from beam_runner_jobservices.guard import read_access_guard
from beam_runner_jobservices.job_file import FILE
from beam_runner_jobservices.method_rights import METHOD_RIGHTS
from beam_runner_jobservices.observation_json import SERVICE
from beam_runner_jobservices.server import JobServer

from .fakes import LIMIT, pipeline_proto, run_to_end
from .successors import Servers
from .test_guard import METHODS, MODEL

TOKENS = {right: f"the token that may only {right}" for right in ("submit", "read", "cancel")}
ALL = "the token with every right"
PIPELINE = pipeline_proto().SerializeToString()
OPEN = {f"{MODEL}.JobService/DescribePipelineOptions", f"{MODEL}.NoService/NoMethod"}
OBSERVATIONS = (
    *("ListJobs", "GetExecution", "GetSeries", "GetStacks", "GetErrors", "GetLogs"),
    *("GetStory", "GetSuccession", "GetPages"),
)


@pytest.fixture
def users(tmp_path):
    path = tmp_path / "users.toml"
    tables = [f'[users.{name}]\ntoken = "{TOKENS[name]}"\nrights = ["{name}"]\n' for name in TOKENS]
    tables.append(f'[users.ann]\ntoken = "{ALL}"\nrights = ["submit", "read", "cancel"]\n')
    path.write_text("\n".join(tables))
    return path


@pytest.fixture
def server(executor, tmp_path, users):
    artifacts = tmp_path / "artifacts"
    guard = read_access_guard(users_file=users)
    with JobServer(executor, artifacts_dir=artifacts, port=0, guard=guard) as running:
        yield running


def connect(server, token):
    return JobClient(server.address, timeout=LIMIT, credentials=Credentials(token=token))


def find_status(server, token, method):
    with open_channel(server.address, Credentials(token=token)) as channel:
        try:
            list(channel.stream_stream(method)(iter([b""]), timeout=LIMIT))
        except grpc.RpcError as error:
            return error.code(), error.details()
    return None, ""


def test_every_service_method_requires_its_right(server, users):
    required = {f"{MODEL}.{method}": METHOD_RIGHTS.get(f"{MODEL}.{method}") for method in METHODS}
    required |= {f"/{SERVICE}/{name}": "read" for name in OBSERVATIONS}
    required[f"/{SERVICE}/MakeSavepoint"] = "submit"
    assert {method for method, right in required.items() if right is None} == OPEN
    for method, right in required.items():
        for name, token in TOKENS.items():
            code, text = find_status(server, token, method)
            assert code is not grpc.StatusCode.UNAUTHENTICATED
            denied = right is not None and right != name
            assert (code is grpc.StatusCode.PERMISSION_DENIED) == denied, (method, name)
            if denied:
                assert all(part in text for part in (f"'{name}'", f"'{right}'", str(users)))


def test_unknown_token_is_unauthenticated(server):
    for token in ("", "x" * 32):
        code, text = find_status(server, token, f"{MODEL}.JobService/GetJobs")
        assert code is grpc.StatusCode.UNAUTHENTICATED
        assert "x" * 32 not in text


def test_removed_user_is_refused_at_the_next_call(server, users):
    with connect(server, TOKENS["read"]) as client:
        assert client.list_jobs() == ()
        users.write_text(users.read_text().replace(TOKENS["read"], "another token of this user"))
        with pytest.raises(JobApiError, match="UNAUTHENTICATED"):
            client.list_jobs()


def test_job_list_has_the_user_who_submitted_each_job(server, executor):
    with connect(server, ALL) as ann, connect(server, TOKENS["submit"]) as other:
        first, second = ann.submit_job(PIPELINE), other.submit_job(PIPELINE)
        run_to_end(executor.job(second))
        assert ann.wait_until_finish(second, LIMIT) is JobState.DONE
        assert {one.job_id: one.user for one in ann.get_job_times()} == {
            first: "ann",
            second: "submit",
        }


@pytest.fixture
def owners(executor, tmp_path):
    """A server with two users who see only own jobs; returns its clients by user."""
    every = 'rights = ["submit", "read", "cancel"]'
    path = tmp_path / "owners.toml"
    path.write_text(
        "".join(
            f'[users.{name}]\ntoken = "the token of {name}"\n{every}\njobs = "{jobs}"\n'
            for name, jobs in (("bea", "own"), ("cid", "own"), ("admin", "all"))
        )
    )
    guard = read_access_guard(users_file=path)
    with JobServer(executor, artifacts_dir=tmp_path / "a", port=0, guard=guard) as server:
        clients = {
            name: connect(server, f"the token of {name}") for name in ("bea", "cid", "admin")
        }
        yield clients
        for client in clients.values():
            client.close()


def test_user_with_rights_to_own_jobs_cannot_see_or_end_other_jobs(owners):
    mine, other = (owners[name].submit_job(PIPELINE) for name in ("bea", "cid"))
    bea = owners["bea"]
    assert [one.job_id for one in bea.list_jobs()] == [mine]
    assert [one.job_id for one in bea.get_job_times()] == [mine]
    assert bea.get_pipeline(mine) == owners["admin"].get_pipeline(mine)
    calls = (
        *(bea.get_state, bea.get_pipeline, bea.get_metrics, bea.cancel_job, bea.drain_job),
        bea.get_execution,
        *(bea.get_stage_series, bea.get_errors, bea.query_logs, bea.get_stacks),
        *(
            lambda job: bea.get_bundle_history(job, 1),
            lambda job: list(bea.follow_states(job, LIMIT)),
        ),
        lambda job: list(bea.follow_messages(job, LIMIT)),
    )
    for call in calls:
        with pytest.raises(JobApiError, match="no job") as refused:
            call(other)
        assert refused.value.code == "NOT_FOUND"
    assert not owners["admin"].get_state(other).state.is_terminal


def test_user_with_rights_to_all_jobs_can_see_and_end_other_jobs(owners):
    jobs = {owners[name].submit_job(PIPELINE) for name in ("bea", "cid")}
    assert {one.job_id for one in owners["admin"].list_jobs()} == jobs
    for job_id in jobs:
        assert owners["admin"].cancel_job(job_id) is JobState.CANCELLED


def test_finished_job_is_visible_only_to_its_owner(owners, executor):
    job_id = owners["bea"].submit_job(PIPELINE)
    run_to_end(executor.job(job_id))
    assert owners["bea"].wait_until_finish(job_id, LIMIT) is JobState.DONE
    assert [one.job_id for one in owners["bea"].list_jobs()] == [job_id]
    assert owners["cid"].list_jobs() == ()


def test_server_log_contains_no_user_token(server, users, caplog):
    with caplog.at_level(logging.DEBUG):
        with connect(server, ALL) as client:
            client.submit_job(PIPELINE)
        with connect(server, TOKENS["read"]) as client, pytest.raises(JobApiError):
            client.submit_job(PIPELINE)
        users.write_text("[users")
        with connect(server, ALL) as client:
            assert client.list_jobs()
    for token in (*TOKENS.values(), ALL):
        assert token not in caplog.text
        assert token not in repr(server.door)


@pytest.fixture
def servers(tmp_path, users):
    made = Servers(tmp_path, guard=read_access_guard(users_file=users), token=ALL)
    yield made
    made.stop()


def test_user_of_a_job_is_known_after_a_server_restart(servers):
    client = servers.start()
    running, ended = client.submit_job(PIPELINE), client.submit_job(PIPELINE)
    run_to_end(servers.executor.job(ended))
    for _ in range(2):
        client = servers.start()
        assert {one.job_id: one.user for one in client.get_job_times()} == {
            running: "ann",
            ended: "ann",
        }
    assert servers.resumed(running).spec.user == "ann"


def test_server_without_users_stores_jobs_that_older_versions_can_read(tmp_path):
    """An older version refuses an unknown field in the times of a finished job."""
    servers = Servers(tmp_path)
    job_id = servers.start(run_to_end).submit_job(PIPELINE)
    assert servers.client.wait_until_finish(job_id, LIMIT) is JobState.DONE
    servers.stop()
    connection = sqlite3.connect(tmp_path / "state" / FILE)
    ((times,),) = connection.execute("SELECT times FROM jobs").fetchall()
    connection.close()
    assert "user" not in json.loads(times)
