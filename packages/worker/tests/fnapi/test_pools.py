"""Tests of worker pools that are missing or refuse, or whose workers start late or never."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import apache_beam as beam
import grpc
import pytest
from apache_beam.portability.api import beam_fn_api_pb2, beam_fn_api_pb2_grpc
from beam_runner_model.stages import Environment
from harness_commands import boot_command
from life import run_expecting_error
from tiny_host import Artifacts, Logs, TinyHost, create_job, external, new_pipeline
from waiting import wait_until

from beam_runner_worker.errors import BundleError, HarnessError, PoolUnreachable
from beam_runner_worker.fnapi import external as external_module
from beam_runner_worker.fnapi import pool_watch, start_watch
from beam_runner_worker.fnapi.external import stop_external_worker
from beam_runner_worker.fnapi.harness import HarnessLimits
from beam_runner_worker.fnapi.server import FnApiServer

pytestmark = pytest.mark.timeout(240)
needs_proc = pytest.mark.skipif(
    not Path("/proc/self/stat").exists(), reason="only Linux tells what a process does"
)
SOON_SECONDS = 30.0


def server_for(
    host: TinyHost, environment: Environment, logs: Logs | None = None, **options
) -> FnApiServer:
    job = create_job(environment, environments=host.environment_ids)
    return FnApiServer(job, Artifacts(), logs or Logs(), **options)


def one_stage(transform: beam.PTransform) -> TinyHost:
    p = new_pipeline()
    p | beam.Impulse() | transform
    return TinyHost(p)


def test_unreachable_worker_pool_is_reported_by_name():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        endpoint = f"127.0.0.1:{free.getsockname()[1]}"
    host = one_stage(beam.Map(print))
    server = server_for(host, external(endpoint))
    try:
        with pytest.raises(PoolUnreachable, match=f"{endpoint}.*LOOPBACK.*UNAVAILABLE"):
            host.run(server.get_harness)
    finally:
        server.close()
    assert "UNAVAILABLE" in (stop_external_worker(endpoint, "x") or "")


class FakePool(beam_fn_api_pb2_grpc.BeamFnExternalWorkerPoolServicer):
    """A pool that starts no workers, and stores its requests."""

    def __init__(self, error: str = "") -> None:
        self.error = error
        self.started: list[beam_fn_api_pb2.StartWorkerRequest] = []
        self.stopped: list[str] = []

    def StartWorker(self, request, context):
        self.started.append(request)
        return beam_fn_api_pb2.StartWorkerResponse(error=self.error)

    def StopWorker(self, request, context):
        self.stopped.append(request.worker_id)
        return beam_fn_api_pb2.StopWorkerResponse()


def begin_pool() -> tuple[FakePool, grpc.Server, Environment]:
    pool = FakePool()
    server = grpc.server(ThreadPoolExecutor(2))
    beam_fn_api_pb2_grpc.add_BeamFnExternalWorkerPoolServicer_to_server(pool, server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    return pool, server, external(f"127.0.0.1:{port}")


@pytest.fixture
def fake_pool() -> Iterator[tuple[FakePool, Environment]]:
    pool, server, environment = begin_pool()
    yield pool, environment
    server.stop(0).wait(5)


def test_refusal_of_worker_pool_is_quoted(fake_pool: tuple[FakePool, Environment]):
    pool, environment = fake_pool
    pool.error = "Traceback:\n  in start\nno room\n"
    host = one_stage(beam.Map(print))
    server = server_for(host, environment)
    try:
        with pytest.raises(HarnessError, match=r"did not start a worker: no room\n"):
            host.run(server.get_harness)
    finally:
        server.close()


def test_worker_on_another_machine_is_awaited_while_pool_responds(
    fake_pool: tuple[FakePool, Environment], monkeypatch: pytest.MonkeyPatch
):
    """The worker can run on another machine."""
    monkeypatch.setattr(external_module, "find_listening_process", lambda address: None)
    monkeypatch.setattr(start_watch, "_TELL_SECONDS", 1.0)
    pool, environment = fake_pool
    host = one_stage(beam.Map(print))
    logs = Logs()
    server = server_for(host, environment, logs, limits=HarnessLimits(connect=0.2, start=3.0))
    try:
        with pytest.raises(
            BundleError, match=r"within 3 seconds, although a worker of the pool at"
        ) as caught:
            host.run(server.get_harness)
        assert re.search(
            r"environment '.*logged nothing; the worker pool at .* the pool's log",
            caught.value.trace,
        )
        (request,) = pool.started
        assert request.control_endpoint.url == server.endpoint
        assert request.provision_endpoint.url == server.endpoint
        assert pool.stopped == [request.worker_id]
    finally:
        server.close()
    assert re.search(
        r"been starting for \d s; the activity of its worker .* isn't visible; the worker pool at .* the pool's log",
        logs.messages,
    )


def test_lost_worker_pool_is_reported_while_worker_is_awaited(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(pool_watch, "_PAUSE_SECONDS", 0.1)
    pool, serving, environment = begin_pool()
    host = one_stage(beam.Map(print))
    server = server_for(host, environment)
    going = threading.Thread(target=go_once_asked, args=(pool, serving))
    going.start()
    began = time.monotonic()
    try:
        with pytest.raises(HarnessError, match=r"doesn't respond.*LOOPBACK.*UNAVAILABLE"):
            host.run(server.get_harness)
    finally:
        server.close()
        going.join()
    assert time.monotonic() - began < SOON_SECONDS


def go_once_asked(pool: FakePool, serving: grpc.Server) -> None:
    wait_until(lambda: bool(pool.started))
    serving.stop(0).wait(5)


SlowPool = Callable[[str], Environment]


@pytest.fixture(scope="module")
def slow_pool(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SlowPool]:
    """Starts a pool in a separate process whose workers run a command before they boot."""
    folder = tmp_path_factory.mktemp("pool")
    first, command = folder / "first", folder / "slow-boot"
    command.write_text(f'#!/bin/sh\n. {first}\nexec {boot_command(folder)} "$@"\n')
    command.chmod(0o755)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    main = "apache_beam.runners.worker.worker_pool_main"
    flags = (f"--service_port={port}", f"--container_executable={command}")
    process = subprocess.Popen([sys.executable, "-m", main, *flags], process_group=0)

    def make(what: str) -> Environment:
        first.write_text(what)
        return external(f"127.0.0.1:{port}")

    with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
        grpc.channel_ready_future(channel).result(SOON_SECONDS)
    yield make
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()


@needs_proc
def test_starting_pool_worker_with_cpu_use_is_awaited(slow_pool: SlowPool):
    """The limit applies to its idle time. The worker is first busy for half of the limit."""
    burn = "import time\nwhile time.process_time() < 4: pass"
    host = one_stage(beam.Map(print))
    environment = slow_pool(f"{sys.executable} -c '{burn}'")
    server = server_for(host, environment, limits=HarnessLimits(connect=2.0))
    try:
        host.run(server.get_harness)
    finally:
        server.close()


@needs_proc
@pytest.mark.parametrize(
    "first",
    ["sleep 600", "sleep 1; exit 3", "exit 3"],
    ids=["stands still", "has ended", "was never seen"],
)
def test_starting_pool_worker_without_cpu_use_is_abandoned(first: str, slow_pool: SlowPool):
    """The pool leaves exited workers as zombies, and doesn't report them."""
    host = one_stage(beam.Map(print))
    server = server_for(host, slow_pool(first), limits=HarnessLimits(connect=2.0))
    try:
        with pytest.raises(
            HarnessError,
            match=r"its worker of the pool at .* neither ran nor waited .*the worker pool at .* the pool's log",
        ):
            host.run(server.get_harness)
    finally:
        server.close()


def test_closed_pool_ends_wait_for_its_worker(fake_pool: tuple[FakePool, Environment]):
    host = one_stage(beam.Map(print))
    server = server_for(host, fake_pool[1])
    thread, errors = run_expecting_error(lambda: host.run(server.get_harness))
    wait_until(lambda: bool(fake_pool[0].started))
    server.close()
    thread.join(SOON_SECONDS)
    assert errors
    assert "closed" in errors[0]
