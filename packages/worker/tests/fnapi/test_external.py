"""Tests of SDK harnesses of worker pools: started, lost and stopped, in threads and in processes."""

from __future__ import annotations

import json
import os
import signal
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import apache_beam as beam
import grpc
import pytest
from apache_beam.portability.api import beam_fn_api_pb2, beam_fn_api_pb2_grpc
from beam_runner_model.stages import Environment, JobContext
from life import LifecycleRecorder, read_torn_down_processes, run_expecting_error
from processes import is_alive
from tiny_host import Artifacts, Logs, TinyHost, create_job, new_pipeline, pickle_by_value
from waiting import wait_until

from beam_runner_worker.errors import BundleError, HarnessError
from beam_runner_worker.fnapi import server as server_module
from beam_runner_worker.fnapi.external import stop_external_worker
from beam_runner_worker.fnapi.server import FnApiServer
from beam_runner_worker.fnapi.services import SdkRegistry

pytestmark = pytest.mark.timeout(240)
pickle_by_value(__name__)

SOON_SECONDS = 30.0


@pytest.fixture(autouse=True)
def patient_server(monkeypatch: pytest.MonkeyPatch) -> None:
    """Returns a server with long limits: a short test proves that no limit ended the wait."""
    monkeypatch.setattr(server_module, "_STOP_SECONDS", 2 * SOON_SECONDS)


def server_for(host: TinyHost, environment: Environment, **options) -> FnApiServer:
    job = create_job(environment, environments=host.environment_ids)
    return FnApiServer(job, Artifacts(), Logs(), **options)


def run_whole(pipeline: beam.Pipeline, environment: Environment) -> None:
    host = TinyHost(pipeline)
    server = server_for(host, environment)
    try:
        host.run(server.get_harness)
    finally:
        server.close()


def one_stage(transform: beam.PTransform) -> TinyHost:
    p = new_pipeline()
    p | beam.Impulse() | transform
    return TinyHost(p)


def test_external_worker_reads_groups_and_side_inputs(thread_pool: Environment, tmp_path: Path):
    out = tmp_path / "out"
    p = new_pipeline()
    words = p | beam.Create(["a", "b", "a", "c", "a"])
    counts = words | beam.Map(lambda w: (w, 1)) | beam.CombinePerKey(sum)
    total = words | beam.combiners.Count.Globally()

    def write(line, n, d, path=str(out)):
        with open(path, "a") as f:
            f.write(json.dumps([line, n, sorted(d)]) + "\n")

    counts | beam.Map(write, beam.pvalue.AsSingleton(total), beam.pvalue.AsDict(counts))
    run_whole(p, thread_pool)
    assert sorted(map(json.loads, out.read_text().splitlines())) == [
        [["a", 3], 5, ["a", "b", "c"]],
        [["b", 1], 5, ["a", "b", "c"]],
        [["c", 1], 5, ["a", "b", "c"]],
    ]


def test_external_worker_gets_bundle_descriptor_before_it_requests_it(
    thread_pool: Environment, monkeypatch: pytest.MonkeyPatch
):
    asked: list[str] = []
    find = SdkRegistry.find_descriptor

    def descriptor(workers: SdkRegistry, wanted: str):
        asked.append(wanted)
        return find(workers, wanted)

    monkeypatch.setattr(SdkRegistry, "find_descriptor", descriptor)
    p = new_pipeline()
    p | beam.Create([("a", 1), ("a", 2)]) | beam.GroupByKey() | beam.Map(lambda group: group)
    run_whole(p, thread_pool)
    assert asked == []


@pytest.mark.parametrize("pool", ["thread_pool", "process_pool"])
def test_external_worker_tears_down_each_instance_once(pool: str, request, tmp_path: Path):
    environment = request.getfixturevalue(pool)
    life = tmp_path / "life"
    in_thread = pool == "thread_pool"
    host = one_stage(beam.ParDo(LifecycleRecorder(str(life), 0.05 if in_thread else 1.0)))
    server = server_for(host, environment)
    try:
        for _ in range(3):
            host.run(server.get_harness)
    finally:
        begin = time.monotonic()
        server.close()
    assert time.monotonic() - begin < SOON_SECONDS
    (pid,) = read_torn_down_processes(life)
    assert (pid == os.getpid()) == in_thread
    assert is_alive(pid) == in_thread


def kill_once(_, marker: Path) -> None:
    if not marker.exists():
        marker.touch()
        os.kill(os.getpid(), signal.SIGKILL)


def test_external_worker_killed_in_bundle_is_replaced(process_pool: Environment, tmp_path: Path):
    host = one_stage(beam.Map(kill_once, tmp_path / "killed"))
    workers = []
    server = server_for(
        host, process_pool, on_external_worker=lambda *worker: workers.append(worker)
    )
    try:
        with pytest.raises(HarnessError, match=r"(?s)closed its .* stream.*last log lines"):
            host.run(server.get_harness)
        host.run(server.get_harness)
    finally:
        server.close()
    assert len({worker_id for _, worker_id in workers}) == 2


def import_what_is_not_there(_) -> None:
    import no_such_module  # noqa: F401


def test_missing_module_of_pool_is_reported_with_advice(thread_pool: Environment):
    """LOOPBACK is such a pool, too. Sending the module, or using LOOPBACK, wouldn't help."""
    host = one_stage(beam.Map(import_what_is_not_there))
    server = server_for(host, thread_pool)
    try:
        with pytest.raises(BundleError) as caught:
            host.run(server.get_harness)
    finally:
        server.close()
    summary = caught.value.summary
    assert "'no_such_module' isn't installed" in summary
    assert "worker pools don't install packages" in summary
    assert "the submitting program" in summary
    assert "--setup_file" not in summary and "or run" not in summary


def sleep_for_ever(_, begun: Path) -> None:
    begun.write_text(str(os.getpid()))
    while True:
        time.sleep(1)


@pytest.fixture
def busy(process_pool: Environment, tmp_path: Path) -> Iterator[tuple]:
    """Starts a bundle in a user function that never returns. Returns server, worker, process, thread and errors."""
    begun = tmp_path / "begun"
    host = one_stage(beam.Map(sleep_for_ever, begun))
    workers, errors = [], []
    server = server_for(
        host, process_pool, on_external_worker=lambda *worker: workers.append(worker)
    )

    def run() -> None:
        try:
            host.run(server.get_harness)
        except HarnessError as error:
            errors.append(str(error))

    thread = threading.Thread(target=run)
    thread.start()
    wait_until(lambda: begun.exists() and begun.read_text() != "")
    yield server, workers[0], int(begun.read_text()), thread, errors
    server.close()
    thread.join(SOON_SECONDS)


def test_closed_external_worker_interrupts_busy_user_function(busy):
    server, _, pid, thread, errors = busy
    before = time.monotonic()
    server.close()
    thread.join(SOON_SECONDS)
    assert time.monotonic() - before < SOON_SECONDS
    assert not thread.is_alive()
    assert errors == ["the harness was closed while the bundle ran"]
    wait_until(lambda: not is_alive(pid))


def test_external_worker_can_be_stopped_from_other_thread(busy):
    _, (endpoint, worker_id), pid, thread, errors = busy
    assert stop_external_worker(endpoint, worker_id) is None
    thread.join(SOON_SECONDS)
    assert "closed its" in errors[0]
    assert not is_alive(pid)
    assert stop_external_worker(endpoint, worker_id) is None


def test_closed_external_worker_leaves_no_process_and_no_thread(thread_pool: Environment):
    before = set(threading.enumerate())
    host = one_stage(beam.Map(print))
    server = server_for(host, thread_pool)
    host.run(server.get_harness)
    server.close()
    server.close()

    def left() -> list[threading.Thread]:
        new = set(threading.enumerate()) - before
        return [thread for thread in new if thread.name.startswith("fnapi")]

    wait_until(lambda: not left())
    host_name, port = server.endpoint.split(":")
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((host_name, int(port)), 1)


def test_unknown_external_workers_are_refused():
    server = FnApiServer(JobContext("job", "name", "{}", {}), Artifacts(), Logs())
    try:
        with grpc.insecure_channel(server.endpoint) as channel:
            control = beam_fn_api_pb2_grpc.BeamFnControlStub(channel)
            with pytest.raises(grpc.RpcError) as caught:
                next(control.Control(iter([]), metadata=[("worker_id", "guess")], timeout=10))
            assert caught.value.code() is grpc.StatusCode.PERMISSION_DENIED
    finally:
        server.close()


def test_state_streams_of_unknown_workers_are_refused(thread_pool: Environment):
    """Streams are refused if they name an unknown worker, or neither a worker nor a running bundle."""
    server = FnApiServer(JobContext("job", "name", "{}", {"one": thread_pool}), Artifacts(), Logs())
    try:
        server.get_harness("one").get_connected_sdk()
        request = beam_fn_api_pb2.StateRequest(id="1", instruction_id="bundle#1")
        with grpc.insecure_channel(server.endpoint) as channel:
            stub = beam_fn_api_pb2_grpc.BeamFnStateStub(channel)
            for metadata in ([("worker_id", "guess")], [("worker_id", "")], None):
                with pytest.raises(grpc.RpcError) as caught:
                    next(stub.State(iter([request]), metadata=metadata, timeout=10))
                assert caught.value.code() is grpc.StatusCode.PERMISSION_DENIED
    finally:
        server.close()


def test_external_environments_share_one_server_port(
    thread_pool: Environment, process_pool: Environment
):
    host = one_stage(beam.Map(print))
    (spec,) = host.specs
    job = JobContext("job", "name", "{}", {"one": thread_pool, "two": process_pool})
    server = FnApiServer(job, Artifacts(), Logs())
    try:
        for environment_id in job.environments:
            host.run_stage(spec, server.get_harness(environment_id))
        assert server.get_harness("one") is server.get_harness("one")
    finally:
        server.close()


def wait_for_file(_, begun: Path, go_on: Path) -> None:
    begun.touch()
    while not go_on.exists():
        time.sleep(0.02)


def test_closed_loopback_worker_is_not_awaited_while_its_thread_is_busy(
    thread_pool: Environment, tmp_path: Path
):
    begun, go_on = tmp_path / "begun", tmp_path / "go on"
    host = one_stage(beam.Map(wait_for_file, begun, go_on))
    server = server_for(host, thread_pool)
    thread, errors = run_expecting_error(lambda: host.run(server.get_harness))
    wait_until(begun.exists)
    before = time.monotonic()
    try:
        server.close()
        thread.join(SOON_SECONDS)
        assert time.monotonic() - before < SOON_SECONDS
        assert errors == ["the harness was closed while the bundle ran"]
    finally:
        go_on.touch()
