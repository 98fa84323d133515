"""Tests of the server through its clients."""

from __future__ import annotations

import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import grpc
import pytest
from beam_runner_model.errors import RunnerError
from beam_runner_model.jobs import (
    Importance,
    JobInfo,
    JobMessage,
    JobMetrics,
    JobState,
    MetricCell,
    OptionType,
    PipelineOption,
    StateEvent,
)
from waiting import eventually

from beam_runner_jobservices.client import JobClient
from beam_runner_jobservices.errors import AddressError, JobApiError, JobRejected, NotFound
from beam_runner_jobservices.guard import AccessGuard
from beam_runner_jobservices.limits import ServerLimits
from beam_runner_jobservices.server import JobServer

from .fakes import LIMIT, FakeExecutor, pipeline_proto, run_to_end, threads

OPTIONS = {"beam:option:job_name:v1": "words", "beam:option:flag:v1": True}


def shown(entries):
    return [entry.state.name if isinstance(entry, StateEvent) else entry.text for entry in entries]


def test_job_server_returns_state_of_each_job(server, client, executor, pipeline):
    done, other = client.submit_job(pipeline), client.submit_job(pipeline)
    run_to_end(executor.job(done))
    assert eventually(lambda: server.get_job_state(done) is JobState.DONE)
    assert server.get_job_state(other) is JobState.STARTING
    with pytest.raises(NotFound, match="no job 'unknown'"):
        server.get_job_state("unknown")


def test_job_runs_from_submission_to_end(client, executor, pipeline, clock):
    job_id = client.submit_job(pipeline, OPTIONS)
    fake = executor.job(job_id)
    assert client.get_state(job_id) == StateEvent(JobState.STARTING, clock.now)
    assert client.list_jobs() == (JobInfo(job_id, "words", JobState.STARTING, OPTIONS),)
    assert client.get_pipeline(job_id) == pipeline

    states, messages = client.follow_states(job_id, LIMIT), client.follow_messages(job_id, LIMIT)
    assert next(states).state is JobState.STARTING
    fake.reporter.report_state(JobState.RUNNING)
    fake.reporter.report_message(Importance.WARNING, "careful", transform="A/B")
    fake.reporter.report_state(JobState.DONE, "all is well")
    assert shown(states) == ["RUNNING", "DONE"]
    *others, message, reason, done = messages
    assert shown(others) == ["STOPPED", "STARTING", "RUNNING"]
    assert message == JobMessage(
        "1", "2023-11-14T22:13:20.000+00:00", Importance.WARNING, "[A/B] careful"
    )
    assert shown([reason, done]) == ["all is well", "DONE"]
    assert client.wait_until_finish(job_id, LIMIT) is JobState.DONE


def test_job_metrics_are_returned_while_running_and_afterwards(client, executor, pipeline):
    job_id = client.submit_job(pipeline)
    fake = executor.job(job_id)
    assert client.get_metrics(job_id) == JobMetrics()
    info = MetricCell("urn", "type", b"\x01", {"PTRANSFORM": "A"})
    fake.reported_metrics = JobMetrics(attempted=(info, info))
    assert client.get_metrics(job_id) == JobMetrics(attempted=(info, info))
    fake.reported_metrics = JobMetrics(attempted=(info,), committed=(info,))
    run_to_end(fake)
    assert client.get_metrics(job_id) == fake.reported_metrics


@pytest.mark.parametrize(
    ("wish", "on_the_way", "end"),
    [("cancel", "CANCELLING", "CANCELLED"), ("drain", "DRAINING", "DRAINED")],
)
def test_cancel_and_drain_change_job_state(client, executor, pipeline, wish, on_the_way, end):
    job_id = client.submit_job(pipeline)
    ask = getattr(client, f"{wish}_job")
    states = client.follow_states(job_id, LIMIT)
    assert next(states).state is JobState.STARTING
    assert ask(job_id).name in (on_the_way, end)
    assert shown(states) == [on_the_way, end]
    assert ask(job_id).name == end
    fake = executor.job(job_id)
    assert (fake.cancels, fake.drains) == ((1, 0) if wish == "cancel" else (0, 1))


def test_messages_and_states_of_parallel_jobs_are_separate(client, executor, pipeline):
    with ThreadPoolExecutor(10) as pool:
        ids = list(pool.map(lambda _: client.submit_job(pipeline), range(30)))
        streams = [
            pool.submit(lambda each: list(client.follow_messages(each, LIMIT)), i) for i in ids
        ]
        for number, job_id in enumerate(ids):
            reporter = executor.job(job_id).reporter
            reporter.report_message(Importance.BASIC, job_id)
            reporter.report_state(JobState.FAILED if number % 2 else JobState.DONE)
        for number, (job_id, stream) in enumerate(zip(ids, streams, strict=True)):
            ended = "FAILED" if number % 2 else "DONE"
            assert shown(stream.result(LIMIT)) == ["STOPPED", "STARTING", job_id, ended]
    assert len(set(ids)) == 30


METHODS = "get_state get_pipeline get_metrics cancel_job drain_job follow_states follow_messages"


@pytest.mark.parametrize("method", METHODS.split())
def test_request_for_unknown_job_fails_with_job_id(client, pipeline, method):
    prepared = client.prepare_job(pipeline)
    for job_id in ("nobody", "", "../x", prepared.preparation_id):
        with pytest.raises(JobApiError, match=repr(job_id)) as raised:
            list(getattr(client, method)(job_id))
        assert raised.value.code == "NOT_FOUND"


def test_unknown_preparation_is_not_found(client, pipeline):
    prepared = client.prepare_job(pipeline)
    client.run_job(prepared)
    with pytest.raises(JobApiError, match="nobody") as raised:
        client.run_job(type(prepared)("nobody", "", ""))
    assert raised.value.code == "NOT_FOUND"


@pytest.mark.parametrize(
    ("unsupported", "code"), [(True, "UNIMPLEMENTED"), (False, "INVALID_ARGUMENT")]
)
def test_job_rejection_is_reported_by_run_request_and_by_job(
    client, executor, pipeline, unsupported, code
):
    reason = "transform 'Léa/ParDo' uses state, which is not supported"

    def reject(fake):
        raise JobRejected(reason, unsupported=unsupported)

    executor.on_start = reject
    with pytest.raises(JobApiError, match=reason) as raised:
        client.submit_job(pipeline)
    assert raised.value.code == code
    (info,) = client.list_jobs()
    assert info.state is JobState.FAILED
    entries = client.follow_messages(info.job_id, LIMIT)
    assert shown(entries) == ["STOPPED", "STARTING", reason, "FAILED"]


def test_very_long_job_rejection_reaches_client(client, executor, pipeline):
    def reject(fake):
        raise JobRejected("first " + "é" * 100_000 + " last")

    executor.on_start = reject
    with pytest.raises(JobApiError, match="first é") as raised:
        client.submit_job(pipeline)
    assert raised.value.code == "UNIMPLEMENTED"


def test_failing_executor_returns_one_line_error(client, executor, pipeline):
    def fail(fake):
        raise RuntimeError("no\nSpark")

    executor.on_start = fail
    with pytest.raises(JobApiError) as raised:
        client.submit_job(pipeline)
    assert raised.value.code == "INTERNAL"
    assert raised.value.text.endswith("Can't start the job: RuntimeError: no Spark")


def test_failing_metrics_return_one_line_error(client, executor, pipeline):
    job_id = client.submit_job(pipeline)

    def fail():
        raise SystemExit("gone")

    executor.job(job_id).get_metrics = fail
    with pytest.raises(JobApiError, match="SystemExit: gone") as raised:
        client.get_metrics(job_id)
    assert raised.value.code == "INTERNAL"


def test_malformed_pipeline_is_refused_with_transform_name(client):
    broken = pipeline_proto()
    broken.components.transforms["impulse"].outputs["out"] = "gone"
    with pytest.raises(JobApiError, match="'Create/Impulse'.*'gone'") as raised:
        client.prepare_job(broken.SerializeToString())
    assert raised.value.code == "INVALID_ARGUMENT"
    with pytest.raises(JobApiError, match="no components") as raised:
        client.prepare_job(b"")
    assert raised.value.code == "INVALID_ARGUMENT"


@pytest.mark.parametrize("method", ["Prepare", "Run", "GetState", "Nonsense"])
@pytest.mark.parametrize("request_bytes", [b"\xff" * 100, b"", b"\x0a\xff\xff\xff\xff\x0f"])
def test_request_of_arbitrary_bytes_does_not_crash_server(
    server, client, pipeline, method, request_bytes, caplog
):
    with grpc.insecure_channel(server.address) as channel:
        call = channel.unary_unary(
            f"/org.apache.beam.model.job_management.v1.JobService/{method}",
            request_serializer=lambda data: data,
            response_deserializer=lambda data: data,
        )
        with pytest.raises(grpc.RpcError) as refused:
            call(request_bytes, timeout=LIMIT)
    if request_bytes and method != "Nonsense":
        assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT
        assert f"as a request to /org.apache.beam.model.job_management.v1.JobService/{method}" in (
            refused.value.details()
        )
    assert "Traceback" not in caplog.text
    client.submit_job(pipeline)


def test_thousand_preparations_of_one_client_do_not_block_other_clients(
    server, client, executor, pipeline
):
    prepared = [client.prepare_job(pipeline) for _ in range(1001)]
    executor.on_start = run_to_end
    with JobClient(server.address, timeout=LIMIT) as other:
        job_id = other.submit_job(pipeline)
        assert other.wait_until_finish(job_id, LIMIT) is JobState.DONE
    with pytest.raises(JobApiError, match="the server discarded the prepared job") as caught:
        client.run_job(prepared[0])
    assert caught.value.code == "RESOURCE_EXHAUSTED"
    client.run_job(prepared[-1])


def test_large_pipelines_are_accepted(client, executor):
    pipeline = pipeline_proto()
    pipeline.components.transforms["impulse"].annotations["large"] = b"x" * (20 << 20)
    job_id = client.submit_job(pipeline.SerializeToString())
    assert len(client.get_pipeline(job_id)) > 20 << 20


def test_describe_options_returns_options_of_runner(executor, tmp_path):
    options = (
        PipelineOption("workers", OptionType.INTEGER, "How many.", "2", "runner"),
        PipelineOption("fast", OptionType.BOOLEAN, "Faster."),
    )
    with (
        JobServer(executor, artifacts_dir=tmp_path, port=0, options=options) as server,
        JobClient(server.address) as client,
    ):
        assert client.describe_options() == options


def test_two_hundred_open_streams_do_not_block_calls_and_leave_no_thread(server, client, pipeline):
    job_id = client.submit_job(pipeline)
    streams = []
    for _ in range(100):
        streams += [client.follow_states(job_id), client.follow_messages(job_id)]
    for stream in streams:
        next(stream)
    assert threads("beam-job-api") >= 200
    started = time.monotonic()
    client.run_job(client.prepare_job(pipeline))
    assert time.monotonic() - started < LIMIT / 2
    for stream in streams:
        stream.close()
    assert eventually(lambda: threads("beam-job-api") == 0)


def test_stalled_reader_delays_no_other_client(client, executor, pipeline):
    job_id = client.submit_job(pipeline)
    slow = client.follow_messages(job_id)
    next(slow)
    reporter = executor.job(job_id).reporter
    started = time.monotonic()
    for _ in range(5_000):
        reporter.report_message(Importance.BASIC, "x" * 2_000)
    reporter.report_state(JobState.DONE)
    assert time.monotonic() - started < LIMIT / 2
    assert len(list(client.follow_messages(job_id, LIMIT))) > 5_000
    slow.close()


class TestLimits:
    @pytest.fixture
    def limits(self):
        return ServerLimits(streams=5)

    def test_response_streams_above_limit_are_refused_until_one_is_closed(self, client, pipeline):
        job_id = client.submit_job(pipeline)
        streams = [client.follow_states(job_id) for _ in range(5)]
        for stream in streams:
            next(stream)
        with pytest.raises(JobApiError, match="5 state and message streams") as raised:
            next(client.follow_states(job_id))
        assert raised.value.code == "RESOURCE_EXHAUSTED"
        streams[0].close()

        def opens():
            again = client.follow_states(job_id, LIMIT)
            try:
                return next(again).state is JobState.STARTING
            except JobApiError:
                return False

        assert eventually(opens)


def test_threads_of_disconnected_clients_end(server, pipeline, executor):
    vanishing = JobClient(server.address)
    job_id = vanishing.submit_job(pipeline)
    streams = [vanishing.follow_states(job_id), vanishing.follow_messages(job_id)]
    for stream in streams:
        next(stream)
    assert threads("beam-job-api") >= 2
    vanishing.close()
    assert eventually(lambda: threads("beam-job-api") == 0)
    assert executor.job(job_id).cancels == 0


class TestStarting:
    def test_server_with_port_in_use_fails_before_other_steps(self, server, executor, tmp_path):
        folder = tmp_path / "other"
        with pytest.raises(AddressError, match=f"{server.port}.*in use"):
            JobServer(executor, artifacts_dir=folder, port=server.port)
        assert not folder.exists()

    def test_server_start_with_folder_in_use_is_refused_and_releases_port(
        self, server, executor, tmp_path
    ):
        with socket.create_server(("127.0.0.1", 0)) as probe:
            port = probe.getsockname()[1]
        with pytest.raises(RunnerError, match="in use by another server"):
            JobServer(executor, artifacts_dir=tmp_path / "artifacts", port=port)
        JobServer(executor, artifacts_dir=tmp_path / "other", port=port).stop()

    def test_server_on_localhost_accepts_calls_over_ipv4_and_ipv6(self, server, pipeline):
        for address in ("127.0.0.1", "localhost"):
            with JobClient(f"{address}:{server.port}") as client:
                assert client.submit_job(pipeline)

    def test_wildcard_server_advertises_host_name(self, executor, tmp_path):
        anywhere = {"host": "0.0.0.0", "guard": AccessGuard(allow_remote=True, token="x" * 16)}
        server = JobServer(executor, artifacts_dir=tmp_path, port=0, **anywhere)
        assert not server.address.startswith("0.0.0.0")
        server.stop()
        server = JobServer(
            executor, artifacts_dir=tmp_path, port=0, advertised_host="me", **anywhere
        )
        assert server.address == f"me:{server.port}"
        server.stop()


class TestStopping:
    def test_server_shutdown_cancels_running_jobs_and_notifies_streams(self, tmp_path, pipeline):
        executor = FakeExecutor()
        server = JobServer(executor, artifacts_dir=tmp_path, port=0)
        server.start()
        with JobClient(server.address) as client:
            job_id = client.submit_job(pipeline)
            heard = []

            def read():
                for event in client.follow_states(job_id, LIMIT):
                    heard.append(event.state.name)

            reader = threading.Thread(target=read)
            reader.start()
            assert eventually(lambda: heard == ["STARTING"])
            assert server.stop(grace=LIMIT) == ()
            reader.join(LIMIT)
        assert heard == ["STARTING", "CANCELLING", "CANCELLED"]
        assert server.stop() == ()
        assert not (tmp_path / "sha256").exists()
        assert eventually(lambda: threads("beam-job-api") == 0)

    def test_server_shutdown_names_job_that_does_not_end_and_continues(self, tmp_path, pipeline):
        executor = FakeExecutor()
        server = JobServer(executor, artifacts_dir=tmp_path, port=0)
        server.start()
        with JobClient(server.address) as client:
            job_id = client.submit_job(pipeline)
            executor.job(job_id).cancel = lambda: None
            stream = client.follow_states(job_id, LIMIT)
            next(stream)
            started = time.monotonic()
            assert server.stop(grace=0.1) == (job_id,)
            assert time.monotonic() - started < LIMIT / 2
            with pytest.raises(JobApiError):
                list(stream)
        assert eventually(lambda: threads("beam-job-api") == 0)

    def test_server_shutdown_releases_port(self, tmp_path, executor):
        server = JobServer(executor, artifacts_dir=tmp_path, port=0)
        server.start()
        server.stop()
        again = JobServer(executor, artifacts_dir=tmp_path, port=server.port)
        again.stop()
