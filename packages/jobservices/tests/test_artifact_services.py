"""Tests of artifacts: from clients to the store, and from the store to SDK harnesses."""

from __future__ import annotations

import hashlib
import queue
import resource
from pathlib import Path

import grpc
import pytest
from beam_runner_model.jobs import JobState
from waiting import eventually

from beam_runner_jobservices._protos import RetrievalStub, StagingStub
from beam_runner_jobservices._protos import beam_artifact_api_pb2 as artifact_api
from beam_runner_jobservices._protos import beam_runner_api_pb2 as runner_api
from beam_runner_jobservices.errors import JobApiError, JobServicesError
from beam_runner_jobservices.limits import ServerLimits
from beam_runner_jobservices.server import JobServer

from .fakes import LIMIT, file_artifact, files_in, pipeline_proto, run_to_end, threads

EVIL = ["../../../../etc/passwd", "/etc/passwd", "..", "", "a\\..\\b", "nul\0byte", "x" * 255]


def with_artifacts(*artifacts):
    pipeline = pipeline_proto()
    pipeline.components.environments["python"].dependencies.extend(artifacts)
    return pipeline.SerializeToString()


@pytest.fixture
def store(tmp_path):
    return tmp_path / "artifacts"


@pytest.fixture
def source(tmp_path):
    path = tmp_path / "source.bin"
    path.write_bytes(bytes(range(256)) * 20_000)
    return path


@pytest.fixture
def channel(server):
    with grpc.insecure_channel(server.address) as opened:
        yield opened


def test_artifact_is_staged_in_store_and_retrieved_by_harness(
    client, executor, source, store, tmp_path
):
    job_id = client.submit_job(with_artifacts(file_artifact(source, "data.bin")))
    spec = executor.job(job_id).spec
    (artifact,) = spec.artifacts["python"]
    content = source.read_bytes()
    assert artifact.sha256 == hashlib.sha256(content).hexdigest()
    assert (artifact.staged_name, artifact.size) == ("data.bin", len(content))
    assert Path(artifact.path).read_bytes() == content
    assert Path(artifact.path).is_relative_to(store)

    environment = runner_api.Pipeline.FromString(spec.pipeline).components.environments["python"]
    (information,) = environment.dependencies
    payload = runner_api.ArtifactFilePayload.FromString(information.type_payload)
    assert (payload.path, payload.sha256) == (artifact.path, artifact.sha256)
    assert information.role_payload == artifact.role_payload

    chunks = list(client.read_artifact(artifact))
    assert b"".join(chunks) == content
    assert max(map(len, chunks)) <= 2 << 20


def test_artifacts_fetched_by_beam_worker_equal_staged_files(
    client, executor, source, channel, tmp_path
):
    from apache_beam.runners.portability.artifact_service import resolve_artifacts

    job_id = client.submit_job(with_artifacts(file_artifact(source, "data.bin")))
    pipeline = runner_api.Pipeline.FromString(executor.job(job_id).spec.pipeline)
    dependencies = pipeline.components.environments["python"].dependencies
    target = tmp_path / "worker"
    target.mkdir()
    (fetched,) = resolve_artifacts(list(dependencies), RetrievalStub(channel), str(target))
    path = runner_api.ArtifactFilePayload.FromString(fetched.type_payload).path
    assert Path(path).read_bytes() == source.read_bytes()


@pytest.mark.parametrize("name", EVIL)
def test_artifact_names_of_client_are_not_used_as_server_paths(
    client, executor, source, store, tmp_path, name
):
    before = files_in(tmp_path)
    job_id = client.submit_job(with_artifacts(file_artifact(source, name)), job_name=name)
    (artifact,) = executor.job(job_id).spec.artifacts["python"]
    assert artifact.staged_name == name
    assert files_in(tmp_path) == sorted([*before, Path(artifact.path)])
    assert artifact.path.endswith(f"/sha256/{artifact.sha256[:2]}/{artifact.sha256}")
    assert artifact.file_name not in ("", ".", "..")
    assert not {"/", "\\", "\0"} & set(artifact.file_name)


def test_artifacts_shared_by_jobs_are_removed_with_last_job(client, executor, source, store):
    pipeline = with_artifacts(file_artifact(source, "data.bin"))
    first, second = client.submit_job(pipeline), client.submit_job(pipeline)
    assert len(files_in(store)) == 1
    executor.job(first).reporter.report_state(JobState.DONE)
    assert len(files_in(store)) == 1
    executor.job(second).reporter.report_state(JobState.FAILED)
    assert files_in(store) == []


def test_artifacts_of_rejected_job_are_removed(client, executor, source, store):
    def fail(fake):
        raise ValueError

    executor.on_start = fail
    with pytest.raises(JobApiError):
        client.submit_job(with_artifacts(file_artifact(source, "data.bin")))
    assert files_in(store) == []


def test_job_without_its_artifacts_is_not_run(client, source):
    pipeline = with_artifacts(file_artifact(source, "data.bin"))
    prepared = client.prepare_job(pipeline)
    with pytest.raises(JobApiError, match=r"'python'.*data\.bin") as raised:
        client.run_job(prepared)
    assert raised.value.code == "FAILED_PRECONDITION"
    client.stage_artifacts(prepared, pipeline)
    client.run_job(prepared)


def test_staged_file_with_wrong_digest_is_refused(client, source, store):
    good, bad = file_artifact(source, "good.bin"), file_artifact(source, "data.bin", "0" * 64)
    pipeline = with_artifacts(good, bad)
    prepared = client.prepare_job(pipeline)
    with pytest.raises(JobApiError, match=r"data\.bin.*0000") as raised:
        client.stage_artifacts(prepared, pipeline)
    assert raised.value.code == "INVALID_ARGUMENT"
    assert eventually(lambda: files_in(store) == [])


def test_staged_file_that_client_cannot_read_is_reported_as_client_error(client, store, tmp_path):
    pipeline = with_artifacts(file_artifact(tmp_path / "missing", "data.bin"))
    prepared = client.prepare_job(pipeline)
    with pytest.raises(FileNotFoundError):
        client.stage_artifacts(prepared, pipeline)
    assert eventually(lambda: files_in(store) == [] and threads("beam-job-api") == 0)


def test_client_stages_only_artifacts_named_by_pipeline(client, source):
    prepared = client.prepare_job(with_artifacts(file_artifact("/etc/hostname", "secret")))
    with pytest.raises(JobServicesError, match="doesn't name"):
        client.stage_artifacts(prepared, with_artifacts(file_artifact(source, "data.bin")))


def test_unknown_staging_token_stages_nothing(client, pipeline):
    prepared = client.prepare_job(pipeline)
    forged = type(prepared)(prepared.preparation_id, prepared.staging_endpoint, "forged")
    with pytest.raises(JobApiError) as raised:
        client.stage_artifacts(forged, pipeline)
    assert raised.value.code == "NOT_FOUND"


def test_client_that_vanishes_while_staging_leaves_no_file(client, server, source, store):
    prepared = client.prepare_job(with_artifacts(file_artifact(source, "data.bin")))
    answers: queue.SimpleQueue = queue.SimpleQueue()
    answers.put(artifact_api.ArtifactResponseWrapper(staging_token=prepared.staging_token))
    channel = grpc.insecure_channel(server.address)
    call = StagingStub(channel).ReverseArtifactRetrievalService(iter(answers.get, None))
    assert next(call).HasField("get_artifact")
    chunk = artifact_api.GetArtifactResponse(data=b"x" * 100_000)
    answers.put(artifact_api.ArtifactResponseWrapper(get_artifact_response=chunk))
    assert eventually(lambda: len(files_in(store)) == 1)
    channel.close()
    answers.put(None)
    assert eventually(lambda: files_in(store) == [] and threads("beam-job-api") == 0)


def test_client_that_ends_staging_too_early_gets_error(client, channel, source):
    prepared = client.prepare_job(with_artifacts(file_artifact(source, "data.bin")))
    hello = artifact_api.ArtifactResponseWrapper(staging_token=prepared.staging_token)
    for said in ([], [hello]):
        with pytest.raises(grpc.RpcError, match="before it had sent all"):
            list(StagingStub(channel).ReverseArtifactRetrievalService(iter(said)))


class TestSilence:
    @pytest.fixture
    def limits(self):
        return ServerLimits(staging_idle=0.4)

    def test_silent_staging_client_is_disconnected_after_timeout(self, server, channel):
        silent: queue.SimpleQueue = queue.SimpleQueue()
        call = StagingStub(channel).ReverseArtifactRetrievalService(iter(silent.get, None))
        with pytest.raises(grpc.RpcError) as raised:
            next(call)
        silent.put(None)
        assert raised.value.code() is grpc.StatusCode.CANCELLED
        assert eventually(lambda: threads("beam-job-api") == 0)


class TestExpiry:
    @pytest.fixture
    def limits(self):
        return ServerLimits(preparation_ttl=0.4)

    def test_artifacts_of_job_that_is_never_run_are_removed(self, client, source, store, clock):
        pipeline = with_artifacts(file_artifact(source, "data.bin"))
        prepared = client.prepare_job(pipeline)
        client.stage_artifacts(prepared, pipeline)
        assert len(files_in(store)) == 1
        clock.now += 10
        assert eventually(lambda: files_in(store) == [])
        with pytest.raises(JobApiError) as raised:
            client.run_job(prepared)
        assert raised.value.code == "NOT_FOUND"


@pytest.fixture
def full_disk():
    """Limits every file to one megabyte, as on a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_full_disk_while_staging_is_reported_and_leaves_no_file(
    client, executor, source, store, full_disk, caplog
):
    with pytest.raises(JobApiError, match="Can't store the job's artifacts") as refused:
        client.submit_job(with_artifacts(file_artifact(source, "large")))
    assert refused.value.code == "RESOURCE_EXHAUSTED"
    assert files_in(store) == []
    assert "Traceback" not in caplog.text
    small = source.with_name("small")
    small.write_bytes(b"content")
    run_to_end(executor.job(client.submit_job(with_artifacts(file_artifact(small, "small")))))


@pytest.mark.parametrize(
    "information",
    [
        file_artifact("/etc/passwd", "x"),
        file_artifact("/etc/passwd", "x", sha256="0" * 64),
        file_artifact("x", "x", sha256="../../../../../../etc/passwd"),
        file_artifact("x", "x", sha256="/etc/passwd"),
        runner_api.ArtifactInformation(
            type_urn="beam:artifact:type:url:v1",
            type_payload=runner_api.ArtifactUrlPayload(
                url="file:///etc/passwd"
            ).SerializeToString(),
        ),
        runner_api.ArtifactInformation(type_urn="beam:artifact:type:deferred:v1"),
        runner_api.ArtifactInformation(),
    ],
)
def test_retrieval_service_returns_only_files_of_store(channel, information):
    request = artifact_api.GetArtifactRequest(artifact=information)
    with pytest.raises(grpc.RpcError) as raised:
        list(RetrievalStub(channel).GetArtifact(request, timeout=LIMIT))
    assert raised.value.code() is grpc.StatusCode.NOT_FOUND


def test_artifacts_embedded_in_request_are_returned_unchanged(channel):
    information = runner_api.ArtifactInformation(
        type_urn="beam:artifact:type:embedded:v1",
        type_payload=runner_api.EmbeddedFilePayload(data=b"content").SerializeToString(),
    )
    request = artifact_api.GetArtifactRequest(artifact=information)
    assert [item.data for item in RetrievalStub(channel).GetArtifact(request)] == [b"content"]


def test_artifact_store_is_empty_after_server_shutdown(executor, source, tmp_path):
    from beam_runner_jobservices.client import JobClient

    executor.on_start = lambda fake: None
    with (
        JobServer(executor, artifacts_dir=tmp_path / "a", port=0) as server,
        JobClient(server.address) as client,
    ):
        client.submit_job(with_artifacts(file_artifact(source, "data.bin")))
        assert len(files_in(tmp_path / "a")) == 1
        run_to_end(executor.jobs[0])
    assert files_in(tmp_path / "a") == []
