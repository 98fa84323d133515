"""Tests of pool workers that are threads: their load and their shutdown."""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import apache_beam as beam
import grpc
import pytest
from apache_beam.portability.api import beam_fn_api_pb2, beam_fn_api_pb2_grpc
from beam_runner_model.stages import Environment, JobContext
from tiny_host import Artifacts, Logs, TinyHost, create_job, external, new_pipeline, pickle_by_value
from waiting import wait_until

from beam_runner_worker.fnapi.harness import HarnessLimits
from beam_runner_worker.fnapi.server import FnApiServer

pytestmark = [
    pytest.mark.timeout(120),
    pytest.mark.skipif(sys.platform != "linux", reason="only Linux shows who holds a socket"),
]
pickle_by_value(__name__)


def wait_for_file(_, begun: Path, go_on: Path) -> None:
    begun.touch()
    while not go_on.exists():
        time.sleep(0.02)


def spin(_, begun: Path, go_on: Path) -> None:
    begun.touch()
    while not go_on.exists():
        pass


@pytest.mark.parametrize(("work", "waits"), [(spin, False), (wait_for_file, True)])
def test_worker_pool_threads_report_whether_interpreter_is_idle(
    thread_pool: Environment, tmp_path: Path, work, waits: bool
):
    begun, go_on = tmp_path / "begun", tmp_path / "go on"
    p = new_pipeline()
    p | beam.Impulse() | beam.Map(work, begun, go_on)
    host = TinyHost(p)
    job = create_job(thread_pool, environments=host.environment_ids)
    server = FnApiServer(job, Artifacts(), Logs())
    thread = threading.Thread(target=host.run, args=(server.get_harness,))
    thread.start()
    try:
        wait_until(begun.exists)
        sdk = server.get_harness(host.environment_ids[0]).get_connected_sdk()
        sdk.has_idle_interpreter()
        told = []
        while waits not in told and len(told) < 20:
            time.sleep(0.5)  # a busy machine can give a process more or less of this time
            told.append(sdk.has_idle_interpreter())
        assert waits in told
    finally:
        go_on.touch()
        thread.join(20)
        server.close()


class PoolOfGo(beam_fn_api_pb2_grpc.BeamFnExternalWorkerPoolServicer):
    """A pool whose threads keep their data stream open until they are stopped, like the Go SDK."""

    def __init__(self) -> None:
        self.stopped: list[str] = []

    def StartWorker(self, request, context):
        metadata = [("worker_id", request.worker_id)]
        channel = grpc.insecure_channel(request.control_endpoint.url)
        self.streams = [
            stub.__getattribute__(name)(iter(threading.Event().wait, True), metadata=metadata)
            for stub, name in (
                (beam_fn_api_pb2_grpc.BeamFnControlStub(channel), "Control"),
                (beam_fn_api_pb2_grpc.BeamFnDataStub(channel), "Data"),
            )
        ]
        return beam_fn_api_pb2.StartWorkerResponse()

    def StopWorker(self, request, context):
        self.stopped.append(request.worker_id)
        for stream in self.streams:
            stream.cancel()
        return beam_fn_api_pb2.StopWorkerResponse()


class PoolOfJava(PoolOfGo):
    """A pool whose threads close their log after teardown, and never close their data stream, like the Java SDK."""

    def StartWorker(self, request, context):
        super().StartWorker(request, context)
        logging = beam_fn_api_pb2_grpc.BeamFnLoggingStub(
            grpc.insecure_channel(request.control_endpoint.url)
        )
        control = self.streams[0]

        def log():
            with contextlib.suppress(grpc.RpcError):
                list(control)  # until the runner closes the stream
            return
            yield

        self.logs = logging.Logging(log(), metadata=[("worker_id", request.worker_id)])
        return beam_fn_api_pb2.StartWorkerResponse()

    def StopWorker(self, request, context):
        self.stopped.append(request.worker_id)
        return beam_fn_api_pb2.StopWorkerResponse()


@pytest.mark.parametrize("kind", [PoolOfGo, PoolOfJava])
def test_worker_pool_threads_are_not_awaited_after_teardown(kind: type[PoolOfGo]):
    pool = kind()
    threads = grpc.server(ThreadPoolExecutor(2))
    beam_fn_api_pb2_grpc.add_BeamFnExternalWorkerPoolServicer_to_server(pool, threads)
    environment = external(f"127.0.0.1:{threads.add_insecure_port('127.0.0.1:0')}")
    threads.start()
    job = JobContext("job", "name", "{}", {"go": environment})
    server = FnApiServer(job, Artifacts(), Logs(), limits=HarnessLimits(teardown=300.0))
    try:
        connection = server.get_harness("go").get_connected_sdk().connection
        wait_until(
            lambda: not connection.wait_until_data_stream_ended(0.5)
        )  # once the stream has started
    finally:
        before = time.monotonic()
        server.close()
        took = time.monotonic() - before
        threads.stop(0).wait(5)
    assert took < 60
    assert pool.stopped == [connection.worker_id]
