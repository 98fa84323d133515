"""Worker processes as entries of a heap: a thread answers each order when the bundle's simulated time is over.

The jobs, their scheduler, ledger and journal are the real ones. No process runs, no data is written,
and no message crosses the network.
"""

from __future__ import annotations

import heapq
import itertools
import threading
import time
from collections.abc import Callable
from random import Random
from typing import Any

import attrs
from beam_runner_driver.job.job import RunningJob
from beam_runner_engine.scheduler.events import BundleDone, Output, Residual
from beam_runner_model.buffers import BufferKind
from beam_runner_planner.plan import JobPlan
from beam_runner_runtime.channel.attempts import BundleFailure
from beam_runner_runtime.channel.messages import (
    BundleReply,
    CloseLane,
    EndJob,
    ExitProcess,
    FromServer,
    JobWork,
    LaneOpened,
    RunBundle,
    WorkerHello,
)
from beam_runner_runtime.channel.server import WorkerLink
from beam_runner_runtime.sections.ends import SectionEnd, TaskCounts
from sample_buffers import buffer
from small_plans import elements, plan_of, stage

VALUE = elements("values", b"value")


def make_stream_plan() -> JobPlan:
    """Returns a stream: `split` makes restrictions, `read` reads each restriction without an end and
    emits one element per bundle, `see` consumes the elements.
    """
    return plan_of(
        [
            stage("split", None, {"out": "restrictions"}),
            stage("read", "restrictions", {"out": "values"}, splittable=True),
            stage("see", "values"),
        ],
        [buffer("restrictions", BufferKind.DEALT), buffer("values", BufferKind.DEALT)],
    )


@attrs.define(eq=False)
class WorkerClock:
    """Thread that calls functions at their times, for the simulated workers of all jobs.

    Attributes:
        cpu_seconds: CPU time of the thread, which isn't time of the server.
    """

    cpu_seconds: float = 0.0
    _due: list[tuple[float, int, Callable[[], None]]] = attrs.field(factory=list)
    _changed: threading.Condition = attrs.field(factory=threading.Condition)
    _numbers: Any = attrs.field(factory=itertools.count)
    _ended: bool = False

    def start(self) -> None:
        """Starts the thread."""
        threading.Thread(target=self._run, name="simulated-workers", daemon=True).start()

    def stop(self) -> None:
        """Ends the thread."""
        with self._changed:
            self._ended = True
            self._changed.notify()

    def call_later(self, seconds: float, function: Callable[[], None]) -> None:
        """Calls a function after `seconds`."""
        with self._changed:
            heapq.heappush(self._due, (time.monotonic() + seconds, next(self._numbers), function))
            self._changed.notify()

    def _run(self) -> None:
        while True:
            with self._changed:
                if self._ended:
                    return
                now = time.monotonic()
                if not self._due or self._due[0][0] > now:
                    self._changed.wait(self._due[0][0] - now if self._due else None)
                    continue
                function = heapq.heappop(self._due)[2]
            function()
            self.cpu_seconds = time.thread_time()


@attrs.define(eq=False)
class SimulatedPlacement:
    """Placement of one job whose lanes are simulated worker processes. Implements `JobPlacement`.

    Attributes:
        clock: thread of all simulated workers.
        restrictions: number of restrictions that `split` makes.
        seconds: mean duration of a bundle; the durations are exponentially distributed.
        failures: share of the bundles that fail as if an outage had lost them.
        bundles: number of bundles that have ended.
        failed_bundles: number of these bundles that failed.
        lanes: numbers of the lanes that ran a bundle.
        delays: seconds from the time at which a worker became free to the next order for it.
        job: job of the placement.
    """

    clock: WorkerClock
    restrictions: int
    seconds: float
    failures: float = 0.0
    random: Random = attrs.field(factory=Random)
    bundles: int = 0
    failed_bundles: int = 0
    lanes: set[int] = attrs.field(factory=set)
    delays: list[float] = attrs.field(factory=list)
    job: RunningJob = attrs.field(init=False)
    is_alive: bool = True
    interface: str = ""
    loss_message: str = "the simulated workers have exited"
    _pids: Any = attrs.field(factory=lambda: itertools.count(100))

    def start_lane(self, number: int, on_end: Callable[[int, str], None]) -> None:
        """Opens a lane in a simulated process at once."""
        link = _SimulatedLink(self, number, next(self._pids), on_end)
        self.job.handle_worker_attached(link)
        self.job.handle_message(link, LaneOpened(number))

    def start_section(
        self, order: RunBundle, work: JobWork, title: str, on_end: Callable[[SectionEnd], None]
    ) -> None:
        raise AssertionError("a simulated job has no sections")

    def handle_section_message(self, message: Any) -> bool:
        return False

    def count_section_tasks(self) -> TaskCounts:
        return TaskCounts()

    def cancel(self) -> None: ...

    def close(self, *, workers_gone: bool) -> None: ...

    def make_reply(self, order: RunBundle) -> BundleReply | BundleFailure:
        """Returns the result of a bundle: one element for a bundle of `read`, with the rest of its input."""
        bundle, attempt = order.bundle, order.attempt
        if self.random.random() < self.failures:
            self.failed_bundles += 1
            return BundleFailure(attempt, None, "simulated loss")
        outputs: tuple[Output, ...] = ()
        residuals: tuple[Residual, ...] = ()
        if bundle.stage == "split":
            names = (f"restriction {number}" for number in range(self.restrictions))
            outputs = tuple(Output("restrictions", elements(one, b"restriction")) for one in names)
        elif bundle.stage == "read":
            outputs = (Output("values", VALUE),)
            residuals = tuple(Residual(one.data) for one in bundle.inputs if not one.truncate)
        done = BundleDone(attempt.bundle, attempt.attempt, outputs, residuals)
        return BundleReply(done, None, ())


class _SimulatedLink(WorkerLink):
    """Simulated worker process, and the server's connection to it."""

    def __init__(
        self, placement: SimulatedPlacement, lane: int, pid: int, on_end: Callable[[int, str], None]
    ) -> None:
        super().__init__(WorkerHello("job-1", "host", pid))
        self._placement, self._lane, self._on_end = placement, lane, on_end
        self._free_since: float | None = None

    def send(self, command: FromServer) -> None:
        super().send(command)
        self._commands.get_nowait()
        clock = self._placement.clock
        match command:
            case RunBundle():
                if self._free_since is not None:
                    self._placement.delays.append(time.monotonic() - self._free_since)
                seconds = self._placement.random.expovariate(1 / self._placement.seconds)
                clock.call_later(seconds, lambda: self._end_bundle(command))
            case CloseLane():
                clock.call_later(0.0, lambda: self._on_end(self._lane, ""))
            case EndJob() | ExitProcess():
                clock.call_later(0.0, lambda: self._placement.job.handle_worker_detached(self))

    def _end_bundle(self, order: RunBundle) -> None:
        self._free_since = time.monotonic()
        self.heard = time.monotonic()
        self._placement.bundles += 1
        self._placement.lanes.add(self._lane)
        self._placement.job.handle_message(self, self._placement.make_reply(order))
