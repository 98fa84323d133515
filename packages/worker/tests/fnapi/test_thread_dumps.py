"""Tests of thread dumps of SDK harnesses without a status stream, while they run a blocking bundle."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

import apache_beam as beam
import pytest
from apache_beam.portability.api import beam_fn_api_pb2
from beam_runner_model.stages import Environment
from tiny_host import Artifacts, Logs, TinyHost, create_job, new_pipeline, pickle_by_value
from waiting import wait_until

from beam_runner_worker.fnapi.connection import SdkConnection
from beam_runner_worker.fnapi.server import FnApiServer
from beam_runner_worker.fnapi.thread_dumps import request_thread_dump

pytestmark = pytest.mark.timeout(120)
pickle_by_value(__name__)


def block(element: bytes, begun: Path, go_on: Path) -> bytes:
    begun.touch()
    while not go_on.exists():
        time.sleep(0.02)
    return element


def test_thread_dump_includes_threads_of_in_process_pool(thread_pool: Environment, tmp_path: Path):
    begun, go_on = tmp_path / "begun", tmp_path / "go on"
    p = new_pipeline()
    p | beam.Impulse() | beam.Map(block, begun, go_on)
    host, logs = TinyHost(p), Logs()
    job = create_job(thread_pool, environments=host.environment_ids)
    server = FnApiServer(job, Artifacts(), logs)
    thread = threading.Thread(target=host.run, args=(server.get_harness,))
    thread.start()
    try:
        wait_until(begun.exists)
        for _ in range(2):
            (status,) = server.request_sdk_status(20.0)
            assert "in block\n" in status.text
            assert status.text.startswith("==")
            assert status.environment in host.environment_ids
            assert status.process in (None, os.getpid())
    finally:
        go_on.touch()
        thread.join(20)
        server.close()
    assert "Traceback" not in logs.messages
    assert server.request_sdk_status(0.1) == ()


@pytest.mark.parametrize(
    "answer",
    [
        beam_fn_api_pb2.InstructionResponse(error="no such thing"),
        beam_fn_api_pb2.InstructionResponse(),
        None,
    ],
    ids=["refuses", "tells nothing", "does not answer"],
)
def test_harness_without_thread_dump_has_no_stacks_and_raises_no_error(
    answer: beam_fn_api_pb2.InstructionResponse | None,
):
    connection = SdkConnection("sdk", "python")
    connection.register_stream("control", "ipv4:127.0.0.1:1", "grpc-python/1.70")

    def respond() -> None:
        connection.instructions.get(timeout=20)  # the descriptor
        request = connection.instructions.get(timeout=20)
        if answer is not None:
            answer.instruction_id = request.instruction_id
            connection.dispatch_response(answer)

    thread = threading.Thread(target=respond)
    thread.start()
    assert request_thread_dump(connection, "localhost:1", 20.0 if answer else 0.1) == ""
    thread.join(20)
