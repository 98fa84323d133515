"""Worker process that serves a lane (its connection to the server) in a thread, with doubles for
the server and the harnesses.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

import attrs
import pytest
from beam_runner_model.buffers import BufferKind
from beam_runner_planner.plan import JobPlan
from beam_runner_runtime.bundles import process as process_module
from beam_runner_runtime.bundles import stages as stages_module
from beam_runner_runtime.bundles.process import WorkerProcess
from beam_runner_runtime.channel.messages import (
    CloseLane,
    Endpoint,
    Heartbeat,
    JobWork,
    LaneOpened,
    WorkerHello,
)
from beam_runner_storage.stores.spec import StoreSpec
from sample_buffers import buffer
from small_plans import plan_of, stage
from worker_doubles import FakeHarness

SECONDS = 60
PLAN = plan_of([stage("stage", "in", splittable=True)], [buffer("in", BufferKind.STORED)])


def nothing(values: list[bytes]) -> dict[str, list[bytes]]:
    """Returns a stage without output."""
    return {}


@attrs.define(eq=False)
class FakeChannel:
    """Server side of the channel, which records the process's messages."""

    work: JobWork
    said: queue.SimpleQueue[Any] = attrs.field(factory=queue.SimpleQueue)
    more_stacks: Any = tuple

    def open_message_stream(self, hello: WorkerHello, on_command: Any, on_lost: Any) -> None:
        self.said.put(hello)

    def request_job_work(self) -> JobWork:
        return self.work

    def send(self, message: Any) -> None:
        if isinstance(message, Heartbeat):
            return  # the message can arrive at any time
        self.said.put(message)

    def next(self) -> Any:
        return self.said.get(timeout=SECONDS)


@attrs.define(eq=False)
class FakeEnvironment:
    """Environment that returns one harness for all stages; the construction may fail."""

    harness: FakeHarness
    error: Exception | None = None
    closed: int = 0
    built: list[str] = attrs.field(factory=list)

    def get_stage_harness(self, spec: Any, side_inputs: Any) -> FakeHarness:
        if self.error is not None:
            raise self.error
        self.built.append(spec.stage_id)
        return self.harness

    def close(self) -> None:
        self.closed += 1


@attrs.define(eq=False)
class Served:
    """Worker process that serves a lane, in a separate thread."""

    process: WorkerProcess
    channel: FakeChannel
    environment: FakeEnvironment
    thread: threading.Thread

    def tell(self, command: Any) -> None:
        self.process._handle_command(command)

    @property
    def harness(self) -> FakeHarness:
        return self.environment.harness


class Serve(Protocol):
    """Fixture function that creates a process with one harness for all stages, and lets it serve lane 5."""

    def __call__(
        self, harness: FakeHarness, plan: JobPlan = PLAN, *, durable: bool = False
    ) -> Served: ...


@contextmanager
def serving(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Serve]:
    """Closes the lanes of all processes at the end of the test."""
    served: list[Served] = []

    def make(harness: FakeHarness, plan: JobPlan = PLAN, *, durable: bool = False) -> Served:
        channel = FakeChannel(JobWork(plan, 4, StoreSpec(str(folder), durable)))
        environment = FakeEnvironment(harness)
        monkeypatch.setattr(process_module, "ChannelClient", lambda *_: channel)
        monkeypatch.setattr(stages_module, "EmbeddedHarness", lambda *_, **__: environment)
        process = WorkerProcess(Endpoint("host:1", "token"), "job-1")
        thread = threading.Thread(target=process.serve_lane, args=(5,), daemon=True)
        thread.start()
        served.append(Served(process, channel, environment, thread))
        assert isinstance(channel.next(), WorkerHello)
        assert channel.next() == LaneOpened(5)
        return served[-1]

    yield make
    for one in served:
        one.tell(CloseLane())
        one.thread.join(SECONDS)
        assert not one.thread.is_alive()
