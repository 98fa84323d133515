"""Tests of a server that persists its jobs: after a stop or a kill, the next server continues."""

from __future__ import annotations

import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from beam_runner_model.errors import RunnerError
from beam_runner_model.jobs import (
    Importance,
    JobMessage,
    JobMetrics,
    JobState,
    MessageLine,
    MetricCell,
    StateEvent,
)
from beam_runner_model.observation import Execution, StageTimeSeries
from waiting import eventually

from beam_runner_jobservices.client import JobClient
from beam_runner_jobservices.errors import JobApiError, JobRejected
from beam_runner_jobservices.job_log import LogQuery
from beam_runner_jobservices.limits import ServerLimits
from beam_runner_jobservices.server import JobServer, RemoteStorage

from .fakes import (
    LIMIT,
    FakeJob,
    file_artifact,
    pipeline_proto,
    run_to_end,
)
from .logs import MemoryFiles, MemoryLog
from .successors import Servers

RESUMED = "the job server has restarted; the job resumes from its last commit"

WHEREVER = pytest.mark.parametrize("servers", ["folders", "elsewhere"], indirect=True)


@pytest.fixture
def servers(request, tmp_path):
    is_elsewhere = getattr(request, "param", "") == "elsewhere"
    made = Servers(tmp_path, RemoteStorage(MemoryLog(), MemoryFiles()) if is_elsewhere else None)
    yield made
    made.stop()


def shown(entries):
    return [entry.state.name if isinstance(entry, StateEvent) else entry.text for entry in entries]


def test_client_created_before_server_start_connects_later(executor, tmp_path):
    with socket.socket() as taken:
        taken.bind(("localhost", 0))
        port = taken.getsockname()[1]
    with JobClient(f"localhost:{port}", timeout=LIMIT) as other:
        began = time.monotonic()
        while time.monotonic() - began < 2.5:  # the pauses between its checks grow
            with pytest.raises(JobApiError, match="onnect"):
                other.list_jobs()
        with (
            JobServer(executor, artifacts_dir=tmp_path / "artifacts", port=port) as server,
            JobClient(server.address, timeout=LIMIT) as client,
        ):
            assert not client.list_jobs()


@WHEREVER
def test_finished_jobs_keep_their_state_after_restart(servers, pipeline):
    client = servers.start()
    options = {"beam:option:job_name:v1": "words"}
    done, failed = client.submit_job(pipeline, options), client.submit_job(pipeline)
    metrics = JobMetrics((MetricCell("urn", "type", b"1"),))
    servers.executor.job(done).reported_metrics = metrics
    servers.executor.job(done).reporter.report_message(Importance.WARNING, "careful")
    run_to_end(servers.executor.job(done))
    servers.executor.job(failed).reporter.report_state(JobState.FAILED, "the reason")

    def everything(client):
        return (
            client.list_jobs(),
            [client.get_state(job_id) for job_id in (done, failed)],
            [list(client.follow_messages(job_id, LIMIT)) for job_id in (done, failed)],
            [client.get_metrics(job_id) for job_id in (done, failed)],
            client.get_pipeline(done),
        )

    before = everything(client)
    assert before[3][0] == metrics
    for _ in range(2):
        assert everything(servers.start()) == before
        assert servers.executor.jobs == []


@WHEREVER
def test_unfinished_job_is_resumed_by_executor_after_restart(servers, pipeline):
    client = servers.start()
    job_id = client.submit_job(pipeline, {"beam:option:x:v1": 1})
    first = servers.executor.job(job_id)
    first.reporter.report_state(JobState.RUNNING)
    first.reporter.report_message(Importance.BASIC, "before")
    address = servers.server.address
    client = servers.start()
    again = servers.resumed(job_id)
    assert again.spec.pipeline == first.spec.pipeline
    assert again.spec.options == first.spec.options
    assert again.spec.options_json == first.spec.options_json
    assert again.spec.retrieval_endpoint == servers.server.address != address
    assert (first.spec.resumed, again.spec.resumed) == (False, True)
    assert client.get_state(job_id).state is JobState.RUNNING
    assert not again.reporter.report_state(JobState.RUNNING)
    again.reporter.report_message(Importance.BASIC, "after")
    again.reporter.report_state(JobState.DONE)
    entries = list(client.follow_messages(job_id, LIMIT))
    expected = ["STOPPED", "STARTING", "RUNNING", "before", RESUMED, "after", "DONE"]
    assert shown(entries) == expected
    ids = [entry.message_id for entry in entries if isinstance(entry, JobMessage)]
    assert ids == ["1", "2", "3"]
    assert [info.state for info in servers.start().list_jobs()] == [JobState.DONE]


@WHEREVER
def test_job_whose_start_did_not_finish_is_started_after_restart(servers, pipeline):
    dying = threading.Event()

    def never_return(job):
        dying.wait(LIMIT)
        raise SystemExit

    client = servers.start(never_return)
    prepared = client.prepare_job(pipeline)
    client.stage_artifacts(prepared, pipeline)
    ThreadPoolExecutor(1).submit(client.run_job, prepared)
    assert eventually(lambda: servers.executor.jobs != [])
    job_id = servers.executor.jobs[0].spec.job_id
    old, servers.server = servers.server, None
    old._registry.suspend_all()
    old._file.close()
    old._store.close()
    servers.start()
    assert not servers.resumed(job_id).spec.resumed
    dying.set()
    client.close()
    old.stop()


def test_repeated_run_returns_same_job_after_restart(servers, pipeline):
    client = servers.start()
    prepared = client.prepare_job(pipeline)
    client.stage_artifacts(prepared, pipeline)
    job_id = client.run_job(prepared)
    assert servers.start().run_job(prepared) == job_id
    assert len(servers.executor.jobs) <= 1


def test_cancel_request_before_restart_is_forwarded_to_next_executor(servers, pipeline):
    client = servers.start()
    job_id = client.submit_job(pipeline)
    servers.executor.job(job_id).cancel = lambda: None
    assert client.cancel_job(job_id) is JobState.CANCELLING
    client = servers.start()
    assert client.wait_until_finish(job_id, LIMIT) is JobState.CANCELLED
    assert servers.executor.job(job_id).cancels == 1


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (JobRejected("its harness is gone"), "its harness is gone"),
        (ValueError("oh"), "Can't start the job: ValueError: oh"),
    ],
)
def test_job_that_cannot_be_resumed_fails_with_reason(servers, pipeline, error, reason):
    client = servers.start()
    job_id = client.submit_job(pipeline)

    def fail(job):
        raise error

    client = servers.start(fail)
    assert client.wait_until_finish(job_id, LIMIT) is JobState.FAILED
    assert shown(client.follow_messages(job_id, LIMIT))[-2:] == [reason, "FAILED"]
    client = servers.start()
    assert client.get_state(job_id).state is JobState.FAILED
    assert servers.executor.jobs == []


class TestArtifacts:
    @pytest.fixture
    def with_artifact(self, tmp_path):
        source = tmp_path / "main.pickle"
        source.write_bytes(b"session")
        proto = pipeline_proto()
        environment = proto.components.environments["python"]
        environment.dependencies.append(file_artifact(source, "main.pickle"))
        return proto.SerializeToString()

    def test_artifacts_of_unfinished_jobs_stay_and_others_are_removed(
        self, servers, tmp_path, with_artifact
    ):
        client = servers.start()
        job_id = client.submit_job(with_artifact)
        prepared = client.prepare_job(with_artifact)
        client.stage_artifacts(prepared, with_artifact)
        (tmp_path / "artifacts" / "sha256" / "ff").mkdir()
        stray = tmp_path / "artifacts" / "sha256" / "ff" / ("f" * 64)
        stray.write_bytes(b"of nobody")
        client = servers.start()
        again = servers.resumed(job_id)
        ((artifact,),) = again.spec.artifacts.values()
        assert b"".join(client.read_artifact(artifact)) == b"session"
        assert not stray.exists()
        run_to_end(again)
        with pytest.raises(JobApiError, match="no artifact"):
            list(client.read_artifact(artifact))

    @pytest.mark.parametrize("servers", ["elsewhere"], indirect=True)
    def test_artifacts_of_unfinished_jobs_move_to_next_machine(self, servers, with_artifact):
        client = servers.start()
        job_id = client.submit_job(with_artifact)
        ((before,),) = servers.executor.job(job_id).spec.artifacts.values()
        client = servers.start()
        again = servers.resumed(job_id)
        ((artifact,),) = again.spec.artifacts.values()
        assert artifact.path != before.path
        assert Path(artifact.path).read_bytes() == b"session"
        assert b"".join(client.read_artifact(artifact)) == b"session"
        run_to_end(again)
        assert servers.elsewhere.artifacts.files == {}

    def test_job_with_missing_artifact_fails(self, servers, with_artifact, tmp_path):
        client = servers.start()
        job_id = client.submit_job(with_artifact)
        servers.stop()
        for path in (tmp_path / "artifacts" / "sha256").glob("*/*"):
            path.unlink()
        client = servers.start()
        assert client.wait_until_finish(job_id, LIMIT) is JobState.FAILED
        reason = shown(client.follow_messages(job_id, LIMIT))[-2]
        assert "'main.pickle' is missing" in reason
        assert servers.executor.jobs == []


class TestStopping:
    @pytest.mark.parametrize("state", [JobState.CANCELLED, JobState.FAILED, JobState.DONE])
    def test_job_reports_during_server_shutdown_are_ignored(self, servers, pipeline, state):
        client = servers.start()
        job_id = client.submit_job(pipeline)
        job = servers.executor.job(job_id)
        job.reporter.report_state(JobState.RUNNING)
        stream = client.follow_states(job_id, LIMIT)
        assert next(stream).state is JobState.RUNNING
        assert servers.server.stop() == (job_id,)
        assert not job.reporter.report_state(state, "the server is shutting down")
        assert job.cancels == 0
        with pytest.raises(JobApiError, match="resumes after the server has restarted") as raised:
            next(stream)
        assert raised.value.code == "UNAVAILABLE"
        client = servers.start()
        assert client.get_state(job_id).state is JobState.RUNNING
        run_to_end(servers.resumed(job_id))
        assert client.wait_until_finish(job_id, LIMIT) is JobState.DONE

    def test_second_server_in_state_folder_is_refused(self, servers, tmp_path):
        servers.start()
        with pytest.raises(RunnerError, match="state folder .* is in use by another server"):
            JobServer(
                servers.executor,
                artifacts_dir=tmp_path / "other",
                state_dir=tmp_path / "state",
                port=0,
            )


def test_finished_jobs_are_retained_up_to_limit_after_restart(servers, pipeline):
    client = servers.start(run_to_end)
    ids = [client.submit_job(pipeline) for _ in range(5)]
    client = servers.start(run_to_end)
    assert [info.job_id for info in client.list_jobs()] == ids[2:]
    newest = client.submit_job(pipeline)
    assert [info.job_id for info in servers.start().list_jobs()] == [*ids[3:], newest]


def test_damaged_job_file_is_reported_and_preserved_at_restart(servers, pipeline, tmp_path):
    client = servers.start()
    client.submit_job(pipeline)
    assert servers.server.damage == ()
    servers.stop()
    (tmp_path / "state" / "jobs.sqlite").write_bytes(b"damaged")
    client = servers.start()
    (sentence,) = servers.server.damage
    assert "jobs.sqlite is damaged" in sentence
    assert client.list_jobs() == ()
    assert (tmp_path / "state" / "jobs.sqlite.damaged-1").read_bytes() == b"damaged"


def test_job_history_reports_number_of_dropped_messages_after_restart(servers, pipeline):
    servers.limits = ServerLimits(messages=1_000)
    client = servers.start()
    job_id = client.submit_job(pipeline)
    reporter = servers.executor.job(job_id).reporter
    for number in range(1, 2_051):
        reporter.report_message(Importance.BASIC, str(number))
    client = servers.start()
    run_to_end(servers.resumed(job_id))
    stopped, starting, gap, *rest = shown(client.follow_messages(job_id, LIMIT))
    assert (stopped, starting) == ("STOPPED", "STARTING")
    assert gap == f"({int(rest[0]) - 1} earlier messages were discarded)"
    assert rest[-4:] == ["2050", RESUMED, "RUNNING", "DONE"]
    assert [int(text) for text in rest[:-3]] == list(range(int(rest[0]), 2_051))
    assert len(rest) >= 900


def test_errors_of_dropped_job_messages_survive_restarts(servers, pipeline):
    servers.limits = ServerLimits(messages=1_000)
    client = servers.start()
    job_id = client.submit_job(pipeline)
    reporter = servers.executor.job(job_id).reporter
    reporter.report_state(JobState.RUNNING)
    reporter.report_message(Importance.ERROR, "ValueError: early", "Create/Impulse")
    for _ in range(40):
        reporter.report_messages([MessageLine(Importance.BASIC, "a line")] * 100)
    before = client.get_errors(job_id).groups
    assert (before[0].failure.text, before[0].failure.step) == ("early", "impulse")
    client = servers.start()
    assert client.get_errors(job_id).groups == before
    servers.resumed(job_id).reporter.report_state(JobState.FAILED, "ValueError: at last")
    assert [one.failure.text for one in client.get_errors(job_id).groups] == ["early", "at last"]
    client = servers.start()
    assert [one.failure.text for one in client.get_errors(job_id).groups] == ["early", "at last"]


class Observed(FakeJob):
    """A job that reports the progress of its stages."""

    points = ()

    def get_execution(self):
        return Execution()

    def get_stage_series(self):
        return (StageTimeSeries("s", self.points),)

    def get_stacks(self):
        return ()


def test_stage_series_continue_after_restarts_and_stay_for_finished_jobs(
    servers, pipeline, monkeypatch
):
    monkeypatch.setattr("packages.jobservices.tests.fakes.FakeJob", Observed)
    client = servers.start()
    job_id = client.submit_job(pipeline)
    servers.executor.job(job_id).reporter.report_state(JobState.RUNNING)
    servers.executor.job(job_id).points = tuple((10.0 * n, n, 0, 1, n) for n in range(60))
    client = servers.start()
    resumed = servers.resumed(job_id)
    resumed.points = ((700.0, 70, 0, 1, 70),)
    assert eventually(lambda: client.get_stage_series(job_id)[0].points[-1][0] == 700.0)
    (found,) = client.get_stage_series(job_id)
    assert [point[0] for point in found.points] == [*(60.0 * n for n in range(10)), 700.0]
    resumed.reporter.report_state(JobState.DONE)
    assert client.get_stage_series(job_id) == (found,)
    assert servers.start().get_stage_series(job_id) == (found,)


def test_job_log_lines_have_their_workers_after_restart(servers: Servers, pipeline: bytes) -> None:
    client = servers.start()
    job_id = client.submit_job(pipeline)
    reporter = servers.executor.job(job_id).reporter
    reporter.report_state(JobState.RUNNING)
    reporter.report_messages(
        [MessageLine(Importance.WARNING, "careful", "Create/Impulse", "host:12")]
    )
    reporter.report_message(Importance.BASIC, "of the job")
    query = LogQuery(step="Create")
    before = client.query_logs(job_id, query)
    (line,) = before.lines
    assert (line.worker, line.text, client.query_logs(job_id).found) == ("host:12", "careful", 2)
    client = servers.start()
    assert client.query_logs(job_id, query) == before
    servers.resumed(job_id).reporter.report_state(JobState.DONE)
    assert client.query_logs(job_id, query) == before
    client = servers.start()
    assert client.query_logs(job_id, query) == before
