"""Tests that the server survives hostile requests without INTERNAL statuses, tracebacks and memory growth."""

from __future__ import annotations

import random
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import apache_beam as beam
import attrs
import grpc
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.runners.portability.portable_runner import PortableRunner
from beam_runner_jobservices.client import JobClient
from beam_runner_model.jobs import JobState
from beam_spark_io import ReadFromSpark, WriteToSpark

sys.path.insert(0, str(Path(__file__).parent))

from attacks import Known, attack

SECONDS = 60.0
USUAL_SECONDS = 30.0
GROWTH = 50 << 20
WARM_UP = 1_000
TELL_EACH = 5_000
OPTIONS = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)]
REFUSED_RIGHTLY = {
    "OK",
    "INVALID_ARGUMENT",
    "NOT_FOUND",
    "FAILED_PRECONDITION",
    "UNIMPLEMENTED",
} | {
    # Two messages, or no message, for a unary method; a stream that the client cancelled.
    *("RESOURCE_EXHAUSTED", "CANCELLED", "DEADLINE_EXCEEDED"),
}


class Row(NamedTuple):
    id: int


@attrs.define
class Attacked:
    """Process of the server, and its log."""

    process: subprocess.Popen[str]
    address: str
    log: list[str]

    def memory(self) -> int:
        """Bytes that it has resident."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(status.partition("VmRSS:")[2].split()[0]) << 10


@pytest.fixture
def server() -> Iterator[Attacked]:
    process = subprocess.Popen(
        [sys.executable, str(Path(__file__).with_name("translating_server.py"))],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    log: list[str] = []
    assert process.stdout is not None and process.stderr is not None
    threading.Thread(target=log.extend, args=(process.stderr,), daemon=True).start()
    try:
        yield Attacked(process, process.stdout.readline().strip(), log)
    finally:
        process.kill()
        process.wait()


def pipelines() -> list[bytes]:
    """Returns a few valid pipelines."""

    def grouped(pipeline: beam.Pipeline) -> None:
        _ = pipeline | beam.Create([("a", 1), ("b", 2)]) | beam.GroupByKey()

    def combined(pipeline: beam.Pipeline) -> None:
        windowed = pipeline | beam.Create([1, 2]) | beam.WindowInto(beam.window.FixedWindows(5))
        total = windowed | beam.CombineGlobally(sum).without_defaults()
        _ = windowed | beam.Map(lambda one, all: one, beam.pvalue.AsIter(total))

    def copied(pipeline: beam.Pipeline) -> None:
        rows = pipeline | ReadFromSpark(sql="SELECT 1 AS id", schema=Row)
        _ = rows | WriteToSpark("csv", "out", schema=Row)

    found = []
    options = PipelineOptions(["--environment_type=EXTERNAL", "--environment_config=localhost:1"])
    for build in (grouped, combined, copied):
        pipeline = beam.Pipeline(options=options)
        build(pipeline)
        proto = PortableRunner.get_proto_pipeline(pipeline, options)
        for environment in proto.components.environments.values():
            del environment.dependencies[:]
        found.append(proto.SerializeToString())
    return found


def serve_a_good_job(address: str, pipeline: bytes) -> float:
    """Runs a job; returns its duration, seconds."""
    began = time.monotonic()
    with JobClient(address, timeout=SECONDS) as client:
        job_id = client.submit_job(pipeline)
        assert client.wait_until_finish(job_id, SECONDS) is JobState.DONE
    return time.monotonic() - began


@pytest.mark.timeout(14_400)
def test_hostile_requests_leave_the_server_working(
    request: pytest.FixtureRequest, server: Attacked
) -> None:
    count, seed = request.config.getoption("--requests"), request.config.getoption("--seed")
    print(f"seed {seed}")
    dice, known = random.Random(seed), Known(pipelines())
    codes: Counter[str] = Counter()
    wrong: list[str] = []
    usual = serve_a_good_job(server.address, known.pipelines[0])
    settled = 0
    with grpc.insecure_channel(server.address, options=OPTIONS) as channel:
        for number in range(1, count + 1):
            method, messages = attack(dice, known)
            code, details = send(channel, known, method, messages)
            codes[code] += 1
            if code not in REFUSED_RIGHTLY:
                wrong.append(f"request {number}: {method}: {code}: {details[:300]}")
            if number % WARM_UP == 0 or number == count:
                took = serve_a_good_job(server.address, known.pipelines[1])
                assert took < max(USUAL_SECONDS, 5 * usual), f"seed {seed}, request {number}"
                settled = settled or server.memory()
            if number % TELL_EACH == 0:
                grown = (server.memory() - settled) >> 20
                print(f"{number} requests, {grown} MB more, {len(wrong)} wrong", flush=True)
    print(dict(codes), f"memory grew by {(server.memory() - settled) >> 20} MB")
    assert not wrong, f"seed {seed}: {wrong[:20]}"
    assert not [line for line in server.log if "Traceback" in line], f"seed {seed}"
    assert codes["OK"] > count / 20
    assert codes["INVALID_ARGUMENT"] > count / 20
    assert server.memory() - settled < GROWTH
    assert all(line.isprintable() or line.endswith("\n") for line in server.log)


def send(
    channel: grpc.Channel, known: Known, method: str, messages: list[bytes]
) -> tuple[str, str]:
    """Sends a request, stores useful data of the response, and returns its code and text."""
    call = channel.stream_stream(method)(iter(messages), timeout=SECONDS)
    try:
        for number, answer in enumerate(call):
            known.learn(method, answer)
            if number > 10:
                call.cancel()
    except grpc.RpcError as error:
        return error.code().name, error.details() or ""
    return "OK", ""
