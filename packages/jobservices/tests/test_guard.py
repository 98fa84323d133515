"""Tests of guarded servers: the server checks every call of every service, and accepts clients with credentials."""

from __future__ import annotations

import logging

import grpc
import pytest
from beam_runner_model.jobs import JobState
from waiting import eventually

from beam_runner_jobservices.channels import CHANNEL_OPTIONS, Credentials, open_channel
from beam_runner_jobservices.client import JobClient
from beam_runner_jobservices.errors import AddressError, JobApiError, JobServicesError
from beam_runner_jobservices.guard import AccessGuard, read_access_guard, read_token
from beam_runner_jobservices.server import JobServer

from . import certificates
from .fakes import (
    LIMIT,
    FakeExecutor,
    file_artifact,
    pipeline_proto,
    run_to_end,
    threads,
)

TOKEN = "0123456789abcdef-a-secret"
MODEL = "/org.apache.beam.model.job_management.v1"
METHODS = [
    *(
        f"JobService/{name}"
        for name in (
            *("Prepare", "Run", "GetJobs", "GetState", "GetPipeline", "Cancel", "Drain"),
            *("GetStateStream", "GetMessageStream", "GetJobMetrics", "DescribePipelineOptions"),
        )
    ),
    "ArtifactStagingService/ReverseArtifactRetrievalService",
    "ArtifactRetrievalService/ResolveArtifacts",
    "ArtifactRetrievalService/GetArtifact",
    "NoService/NoMethod",
]


@pytest.fixture(scope="module")
def pem(tmp_path_factory):
    folder = tmp_path_factory.mktemp("certificates")
    certificates.make(folder)
    return folder


@pytest.fixture
def guard():
    return AccessGuard(token=TOKEN)


@pytest.fixture
def server(executor: FakeExecutor, tmp_path, guard):
    executor.on_start = run_to_end
    artifacts = tmp_path / "artifacts"
    with JobServer(executor, artifacts_dir=artifacts, port=0, guard=guard) as running:
        yield running


@pytest.mark.parametrize(
    "metadata",
    [
        (),
        (("authorization", ""),),
        (("authorization", TOKEN),),
        (("authorization", f"Bearer {TOKEN[:-1]}"),),
        (("authorization", f"Bearer {TOKEN}x"),),
        (("authorization", f"bearer {TOKEN}"),),
        (("authorization", f"Bearer {TOKEN}"), ("authorization", f"Bearer {TOKEN}")),
        (("authorization-bin", f"Bearer {TOKEN}".encode()),),
    ],
)
def test_services_with_token_refuse_all_calls_without_token(server, metadata):
    with grpc.insecure_channel(server.address, options=CHANNEL_OPTIONS) as channel:
        for method in METHODS:
            call = channel.stream_stream(f"{MODEL}.{method}")
            with pytest.raises(grpc.RpcError) as refused:
                list(call(iter([b""]), metadata=metadata, timeout=LIMIT))
            assert refused.value.code() is grpc.StatusCode.UNAUTHENTICATED, method
            assert TOKEN not in refused.value.details()


def test_list_of_methods_in_token_tests_is_complete(server):
    """With the token, each method except the last returns a status other than UNIMPLEMENTED."""
    with open_channel(server.address, Credentials(token=TOKEN)) as channel:
        for method in METHODS:
            try:
                list(channel.stream_stream(f"{MODEL}.{method}")(iter([b""]), timeout=LIMIT))
                code = None
            except grpc.RpcError as error:
                code = error.code()
            assert code is not grpc.StatusCode.UNAUTHENTICATED
            assert (code is grpc.StatusCode.UNIMPLEMENTED) == ("NoMethod" in method)


def test_server_with_token_does_not_parse_request_without_token(server):
    read = []

    def endless():
        for number in range(1000):
            read.append(number)
            yield bytes(1 << 20)

    with grpc.insecure_channel(server.address, options=CHANNEL_OPTIONS) as channel:
        call = channel.stream_stream(
            f"{MODEL}.ArtifactStagingService/ReverseArtifactRetrievalService"
        )
        with pytest.raises(grpc.RpcError):
            list(call(endless(), timeout=LIMIT))
    assert len(read) < 500
    assert eventually(lambda: threads("beam-job-api") == 0)


def submit_with_a_file(server, credentials, tmp_path):
    (tmp_path / "data").write_bytes(b"content")
    pipeline = pipeline_proto()
    dependencies = pipeline.components.environments["python"].dependencies
    dependencies.append(file_artifact(tmp_path / "data", "data"))
    with JobClient(server.address, timeout=LIMIT, credentials=credentials) as client:
        job_id = client.submit_job(pipeline.SerializeToString())
        assert client.wait_until_finish(job_id, LIMIT) is JobState.DONE
        assert list(client.follow_messages(job_id, LIMIT))
        assert [job.job_id for job in client.list_jobs()] == [job_id]


def test_server_with_token_accepts_requests_with_token(server, tmp_path):
    submit_with_a_file(server, Credentials(token=TOKEN), tmp_path)


def test_token_appears_in_no_log_and_no_text(server, guard, caplog, tmp_path):
    with caplog.at_level(logging.DEBUG):
        submit_with_a_file(server, Credentials(token=TOKEN), tmp_path)
        with JobClient(server.address) as client, pytest.raises(JobApiError):
            client.list_jobs()
    for text in (caplog.text, repr(guard), str(guard), repr(Credentials(token=TOKEN))):
        assert TOKEN not in text


class TestTls:
    @pytest.fixture
    def guard(self, pem):
        return read_access_guard(
            certificate=pem / "server.pem",
            key=pem / "server.key",
            client_authority=pem / "ca.pem",
        )

    def test_server_with_client_certificates_accepts_client_with_certificate(
        self, server, pem, tmp_path
    ):
        credentials = Credentials(
            tls=True,
            authority=(pem / "ca.pem").read_bytes(),
            certificate=(pem / "client.pem").read_bytes(),
            key=(pem / "client.key").read_bytes(),
        )
        submit_with_a_file(server, credentials, tmp_path)

    @pytest.mark.parametrize("tls", [True, False])
    def test_server_with_client_certificates_refuses_other_clients(self, server, pem, tls):
        credentials = Credentials(tls=tls, authority=(pem / "ca.pem").read_bytes())
        with (
            JobClient(server.address, timeout=5, credentials=credentials) as client,
            pytest.raises(JobApiError, match="UNAVAILABLE"),
        ):
            client.list_jobs()


class TestReading:
    def test_token_is_read_from_file(self, tmp_path):
        (tmp_path / "token").write_text(f" {TOKEN}\n\n")
        assert read_access_guard(token_file=tmp_path / "token").token == TOKEN

    @pytest.mark.parametrize(
        "content", [b"", b"\n", b"short", b"two lines\nof a token, long", b"\xff" * 32]
    )
    def test_invalid_token_is_refused_and_hidden_in_error(self, tmp_path, content):
        (tmp_path / "token").write_bytes(content)
        with pytest.raises(
            JobServicesError, match="contains no valid token; expected 16"
        ) as refused:
            read_token(tmp_path / "token")
        assert "two lines" not in str(refused.value)

    def test_missing_token_file_is_reported_with_its_path(self, tmp_path):
        with pytest.raises(JobServicesError, match=f"Can't read {tmp_path}/token: No such file"):
            read_access_guard(token_file=tmp_path / "token")

    @pytest.mark.parametrize("left_out", ["certificate", "key"])
    def test_incomplete_tls_options_are_refused(self, pem, left_out):
        given = {"certificate": pem / "server.pem", "key": pem / "server.key"}
        given["client_authority"] = pem / "ca.pem"
        del given[left_out]
        with pytest.raises(JobServicesError, match="TLS needs"):
            read_access_guard(**given)

    @pytest.mark.parametrize("which", ["certificate", "key", "client_authority"])
    def test_invalid_certificate_files_are_reported_with_their_paths(self, pem, tmp_path, which):
        (tmp_path / "wrong.pem").write_text("wrong")
        given = {"certificate": pem / "server.pem", "key": pem / "server.key"}
        given |= {"client_authority": pem / "ca.pem", which: tmp_path / "wrong.pem"}
        with pytest.raises(JobServicesError, match=r"Can't use .*wrong\.pem.* for TLS"):
            read_access_guard(**given)


def test_process_of_server_owner_connects_through_unix_socket(executor, tmp_path, pem):
    executor.on_start = run_to_end
    folder = tmp_path / "own"
    folder.mkdir()
    guard = AccessGuard(
        certificate=(pem / "server.pem").read_bytes(),
        key=(pem / "server.key").read_bytes(),
        client_authority=(pem / "ca.pem").read_bytes(),
        token=TOKEN,
    )
    with JobServer(
        executor, artifacts_dir=tmp_path / "a", port=0, guard=guard, socket_path=folder / "jobs"
    ) as server:
        assert server.door.guarded
        with JobClient(server.door.target, credentials=Credentials(token=TOKEN)) as client:
            assert client.list_jobs() == ()
        with JobClient(server.door.target) as stranger, pytest.raises(JobApiError, match="token"):
            stranger.list_jobs()


def test_invalid_socket_path_is_reported(executor, tmp_path):
    path = tmp_path / ("x" * 120)
    with pytest.raises(AddressError, match="Can't listen at"):
        JobServer(executor, artifacts_dir=tmp_path / "a", port=0, socket_path=path)
