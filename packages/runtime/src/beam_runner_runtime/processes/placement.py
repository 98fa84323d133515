"""Placement (system that runs worker processes) on this machine, without Spark
(`beam_runner_server.placement_service.PlacementService`).

Each worker process asks the server for its next lane. The next request of the worker means that the
lane has ended.
"""

from __future__ import annotations

import itertools
import threading
from collections import deque
from collections.abc import Callable

import attrs

from beam_runner_runtime.channel.endpoints import EndpointFactory, make_stand_by_scope
from beam_runner_runtime.channel.stand_by import EndStandBy, ServeLane, StandByOrder
from beam_runner_runtime.processes.children import WorkerProcesses
from beam_runner_runtime.processes.forked_process import ForkedProcess
from beam_runner_runtime.processes.lanes_only import SingleMachineJob, SingleMachinePlacement
from beam_runner_runtime.shutdown.detections import Detector, log_detection
from beam_runner_runtime.shutdown.limits import LIMITS
from beam_runner_runtime.tuning import TUNING


class ProcessPlacement(SingleMachinePlacement):
    """Placement (system that runs worker processes) that runs each job in separate processes of
    this machine. The processes are forked from a preloaded process. One process always stands by
    for the next job.

    Args:
        cores: number of bundles that can use a core at the same time.
        fork_server: fork server to use; None to start a fork server.
    """

    name = "plain processes, without Spark"
    where = "this machine"
    loss_message = (
        "the fork server, from which worker processes are forked, has exited unexpectedly"
    )

    def __init__(self, cores: int, fork_server: ForkedProcess | None = None) -> None:
        self.cores = cores
        self.slots = self.cores * TUNING.slots_per_core
        self._children = WorkerProcesses(self._handle_worker_exit, fork_server)
        self._changed = threading.Condition()
        self._numbers = itertools.count()
        self._endpoints: EndpointFactory | None = None
        self._workers: dict[int, _Worker] = {}
        self._waiting: deque[_RequestedLane] = deque()
        self._stands_by = False

    @property
    def is_alive(self) -> bool:
        return self._children.is_alive

    def start(self) -> None:
        self._children.start()

    def set_endpoints(self, endpoints: EndpointFactory) -> None:
        self._endpoints = endpoints
        with self._changed:
            self._stands_by = True
            self._assign_lanes()

    def get_standby_order(self, number: int) -> StandByOrder:
        with self._changed:
            worker = self._workers.get(number)
            done = None if worker is None else worker.take_finished_lane()
            if done is not None:
                self._assign_lanes()
        if done is not None:
            done.on_end(done.number, "")
        if worker is None:
            return EndStandBy()
        with self._changed:
            self._changed.wait_for(lambda: worker.next_order is not None, LIMITS.stand_by_seconds)
            worker.begun = isinstance(worker.next_order, ServeLane)
            return worker.next_order

    def create_job_placement(self, job_id: str, name: str) -> ProcessJob:
        return ProcessJob(self, job_id)

    def end_standby_processes(self) -> None:
        with self._changed:
            self._stands_by = False
            self._dismiss_workers(lambda worker: worker.job_id is None)
            self._changed.wait_for(lambda: not self._workers, LIMITS.stand_down_seconds)

    def stop(self) -> None:
        self._children.stop()

    def kill(self) -> None:
        self._children.kill()

    # Methods that `ProcessJob` (the processes of one job) calls.

    def start_lane(self, lane: _RequestedLane) -> None:
        """Requests a worker process (lane) for a job. The lane starts as soon as a slot is free."""
        with self._changed:
            self._waiting.append(lane)
            self._assign_lanes()

    def cancel(self, job_id: str) -> None:
        """Ends the lanes (worker processes) of a job."""
        with self._changed:
            waiting = [lane for lane in self._waiting if lane.job_id == job_id]
            for lane in waiting:
                self._waiting.remove(lane)
            for worker in self._workers.values():
                if worker.job_id == job_id and worker.lane is not None:
                    worker.lane.attempts = LIMITS.lane_attempts
                    self._kill_worker(worker)
        for lane in waiting:
            lane.on_end(lane.number, "")

    def end_job(self, job_id: str, *, kill: bool) -> None:
        """Ends the processes of a job: kills them if `kill` is true, otherwise orders idle processes to exit."""
        with self._changed:
            self._dismiss_workers(lambda worker: worker.job_id == job_id)
            for worker in self._workers.values():
                if kill and worker.job_id == job_id:
                    self._kill_worker(worker)

    def _kill_worker(self, worker: _Worker) -> None:
        worker.is_killed = True
        self._children.kill_worker(worker.number)

    def _assign_lanes(self) -> None:
        """Assigns requested lanes to idle processes, and forks more processes if necessary. Keeps
        one additional process ready for the next job.
        """
        busy = sum(worker.lane is not None for worker in self._workers.values())
        for _ in range(min(len(self._waiting), self.slots - busy)):
            lane = self._waiting.popleft()
            idle = [worker for worker in self._workers.values() if worker.is_free(lane.job_id)]
            # Prefer an idle process of the same job to the stand-by process.
            worker = max(idle, key=lambda worker: worker.job_id or "", default=None)
            (worker or self._fork_worker()).assign_lane(lane)
        if self._stands_by and not any(w.job_id is None for w in self._workers.values()):
            self._fork_worker()
        self._changed.notify_all()

    def _fork_worker(self) -> _Worker:
        assert self._endpoints is not None
        worker = _Worker(next(self._numbers))
        self._workers[worker.number] = worker
        self._children.fork_worker(
            worker.number, self._endpoints.make_endpoint(make_stand_by_scope(worker.number))
        )
        return worker

    def _dismiss_workers(self, which: Callable[[_Worker], bool]) -> None:
        for worker in filter(which, self._workers.values()):
            worker.leaves = True
        self._changed.notify_all()

    def _handle_worker_exit(self, number: int, code: int) -> None:
        """Called when a worker process has exited, for any reason."""
        with self._changed:
            worker = self._workers.pop(number)
            if code and not worker.is_killed:
                log_detection(Detector.WORKER_EXIT, f"worker {number}")
            worker.leaves = (
                True  # unblocks the thread that waits for an order of the exited process
            )
            lane = worker.lane
            again = lane is not None and lane.attempts < LIMITS.lane_attempts and self.is_alive
            if lane is not None and again:
                self._waiting.appendleft(lane)
            self._assign_lanes()
        if lane is not None and not again:
            how = f"signal {-code}" if code < 0 else f"exit code {code}"
            lane.on_end(lane.number, f"its worker process ended with {how}")


class ProcessJob(SingleMachineJob):
    """Processes of one job (`beam_runner_driver.ports.JobPlacement`)."""

    loss_message = ProcessPlacement.loss_message

    def __init__(self, placement: ProcessPlacement, job_id: str) -> None:
        self._placement = placement
        self._job_id = job_id

    @property
    def is_alive(self) -> bool:
        return self._placement.is_alive

    def start_lane(self, number: int, on_end: Callable[[int, str], None]) -> None:
        self._placement.start_lane(_RequestedLane(self._job_id, number, on_end))

    def cancel(self) -> None:
        self._placement.cancel(self._job_id)

    def close(self, *, workers_gone: bool) -> None:
        self._placement.end_job(self._job_id, kill=not workers_gone)


@attrs.define(eq=False)
class _RequestedLane:
    """Lane that a job has requested and that hasn't ended."""

    job_id: str
    number: int
    on_end: Callable[[int, str], None]
    attempts: int = 0


@attrs.define(eq=False)
class _Worker:
    """Placement's record of one worker process.

    ``begun`` is whether the process has received its lane. ``job_id`` is None until the process
    gets its first lane. ``is_killed`` is whether the server killed the process.
    """

    number: int
    job_id: str | None = None
    lane: _RequestedLane | None = None
    begun: bool = False
    leaves: bool = False
    is_killed: bool = False

    @property
    def next_order(self) -> StandByOrder:
        """Next order for the process; None if the process must wait."""
        if self.lane is not None:
            return ServeLane(self.lane.job_id, self.lane.number)
        return EndStandBy() if self.leaves else None

    def is_free(self, job_id: str) -> bool:
        """Returns True if the process is idle, and can run a lane of the job."""
        return self.lane is None and not self.leaves and self.job_id in (None, job_id)

    def assign_lane(self, lane: _RequestedLane) -> None:
        """Assigns a lane to the process, as the answer to the process's next request."""
        self.job_id, self.lane, self.begun = lane.job_id, lane, False
        lane.attempts += 1

    def take_finished_lane(self) -> _RequestedLane | None:
        """Called when the process asks for its next lane: removes and returns the lane that has ended."""
        if not self.begun:
            return None
        done, self.lane, self.begun = self.lane, None, False
        return done
