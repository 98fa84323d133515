"""Tests that kill a process in each state of the server's link, and compare the detectors with the table."""

from __future__ import annotations

import json
import logging
import os
import queue
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

import attrs
import pytest
from waiting import wait_until

from beam_runner_runtime.channel.endpoints import make_job_scope
from beam_runner_runtime.channel.messages import (
    AbandonBundle,
    EndJob,
    ExitProcess,
    FromServer,
    FromWorker,
    TearDownDoFns,
    WorkerClosed,
)
from beam_runner_runtime.channel.place import ChannelAddress
from beam_runner_runtime.channel.server import ChannelServer, WorkerLink
from beam_runner_runtime.shutdown.detections import Detector, format_detection
from beam_runner_runtime.shutdown.kills import KILLS
from beam_runner_runtime.shutdown.states import WorkerState

FACTOR, SECONDS = 20, 60
"""Factor of the limits in the table on a busy machine, and the minimum limit in seconds."""
COMMANDS: dict[WorkerState, tuple[FromServer, ...]] = {
    WorkerState.WORKING: (),
    WorkerState.GIVING_UP: (AbandonBundle(),),
    WorkerState.TEARING_DOWN: (AbandonBundle(), TearDownDoFns()),
    WorkerState.ENDING: (TearDownDoFns(), EndJob()),
    WorkerState.CLOSED: (EndJob(),),
    WorkerState.ABORTING: (ExitProcess(),),
}
PEER = """
import json, os, socket, sys, threading
from beam_runner_runtime.channel.process_identity import read_process_identity
from beam_runner_runtime.channel.client import ChannelClient
from beam_runner_runtime.channel.messages import EndJob, Endpoint, WorkerClosed, WorkerHello

client = ChannelClient(Endpoint(**json.loads(sys.argv[1])), "job-1")

def obey(command):
    if isinstance(command, EndJob) and sys.argv[2] == "closes":
        client.send(WorkerClosed())

gone = threading.Event()
pid = os.getpid()
client.open_message_stream(WorkerHello("job-1", socket.gethostname(), pid, read_process_identity(pid)), obey, gone.set)
gone.wait()
"""
"""A worker process that runs no bundle, and obeys only `EndJob`."""


@attrs.define(eq=False)
class Job:
    """A job from the view of the channel."""

    links: queue.SimpleQueue[WorkerLink] = attrs.field(factory=queue.SimpleQueue)
    lost: queue.SimpleQueue[WorkerLink] = attrs.field(factory=queue.SimpleQueue)
    heard: queue.SimpleQueue[FromWorker] = attrs.field(factory=queue.SimpleQueue)

    def make_job_work(self) -> Any:
        raise LookupError("a peer asks for no work")

    def read_artifact(self, sha256: str) -> Iterator[bytes]:
        yield from ()

    def handle_worker_attached(self, link: WorkerLink) -> None:
        self.links.put(link)

    def handle_message(self, link: WorkerLink, message: FromWorker) -> None:
        self.heard.put(message)

    def handle_worker_detached(self, link: WorkerLink) -> None:
        self.lost.put(link)


@attrs.define
class Peer:
    """A peer, and the server's link to the peer."""

    job: Job
    process: subprocess.Popen[bytes]
    link: WorkerLink

    def bring_to(self, state: WorkerState) -> None:
        for command in COMMANDS[state]:
            self.link.send(command)
        if state is WorkerState.CLOSED:
            assert self.job.heard.get(timeout=SECONDS) == WorkerClosed()
            wait_until(lambda: self.link.state is state, SECONDS, f"{state}")
        assert self.link.state is state


@pytest.fixture
def peers() -> Iterator[Any]:
    job = Job()
    server = ChannelServer(ChannelAddress(), {"job-1": job}.get, lambda number: None)
    server.start()
    running: list[subprocess.Popen[bytes]] = []

    def start(kind: str) -> Peer:
        endpoint = json.dumps(attrs.asdict(server.endpoints.make_endpoint(make_job_scope("job-1"))))
        running.append(subprocess.Popen([sys.executable, "-c", PEER, endpoint, kind]))
        return Peer(job, running[-1], job.links.get(timeout=SECONDS))

    yield start
    for process in running:
        process.kill()
        process.wait()
    server.stop()


@pytest.mark.parametrize("state", COMMANDS, ids=lambda state: state.name)
def test_killed_worker_is_detected_as_listed_in_table(
    state: WorkerState, peers: Any, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    peer = peers("closes" if state is WorkerState.CLOSED else "stays")
    peer.bring_to(state)
    killed = time.monotonic()
    os.kill(peer.process.pid, signal.SIGKILL)
    assert peer.job.lost.get(timeout=SECONDS) is peer.link
    assert time.monotonic() - killed < SECONDS
    assert peer.link.state is WorkerState.GONE
    (row,) = [row for row in KILLS if row.state is state]
    text = format_detection(Detector.CHANNEL, f"{peer.link.name}, {state.name}")
    assert (text in caplog.messages) == (Detector.CHANNEL in row.detectors)


def test_worker_that_ignores_abort_is_killed_by_timer(
    peers: Any, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    peer = peers("stays")
    told = time.monotonic()
    peer.link.send(ExitProcess())
    assert peer.process.wait(SECONDS) == -signal.SIGKILL
    limit = Detector.ABORT.value.seconds
    assert limit <= time.monotonic() - told < max(limit * FACTOR, SECONDS)
    assert format_detection(Detector.ABORT, peer.link.name) in caplog.messages
