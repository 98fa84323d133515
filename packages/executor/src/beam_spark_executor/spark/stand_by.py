"""Standby task: a Spark task that is started before a job needs it, and waits for the first lane of
the next job.

Spark takes 0.1 s to start a task: it plans a job, forks a worker, and the worker connects to the
server. This is most of the time of a small job. Therefore, one standby task always waits if Spark
has a free slot. It doesn't belong to a job until it gets a lane.
"""

from __future__ import annotations

import itertools
import logging
import threading
from collections.abc import Callable
from functools import partial

from beam_runner_runtime.channel.endpoints import EndpointFactory, make_stand_by_scope
from beam_runner_runtime.channel.stand_by import EndStandBy, ServeLane, StandByOrder
from beam_runner_runtime.shutdown.limits import LIMITS
from beam_spark_io.spark.reasons import find_failure_reason

from beam_spark_executor.spark.lane import run_standby_task
from beam_spark_executor.spark.pool import WorkerPools, WorkerSlot
from beam_spark_executor.spark.threads import start_job_thread

_LOGGER = logging.getLogger(__name__)


class StandbyTask:
    """Spark task that waits for the first lane (worker slot) of the next job. Thread-safe.

    Args:
        slot: the slot (pool of Python workers) of the task, which the job takes over.

    Attributes:
        group: the job group of its Spark job.
    """

    def __init__(self, number: int, slot: WorkerSlot) -> None:
        self.number = number
        self.slot = slot
        self.group = f"beam-stand-by-{number}"
        self._changed = threading.Condition()
        self._order: StandByOrder = None
        self._on_end: Callable[[int, str], None] | None = None
        self._ended = False

    def assign_lane(self, lane: ServeLane, on_end: Callable[[int, str], None]) -> bool:
        """Assigns a lane (worker slot) of a job to the standby task, and calls ``on_end`` when the
        lane ends. Returns False if the task already has a lane or has ended.
        """
        with self._changed:
            if self._ended or self._order is not None:
                return False
            self._order, self._on_end = lane, on_end
            self._changed.notify_all()
            return True

    def end_unless_assigned(self) -> None:
        """Ends the standby task, unless the server has assigned a lane to the task."""
        with self._changed:
            self._order = self._order or EndStandBy()
            self._changed.notify_all()

    def wait_for_assignment(self, seconds: float) -> StandByOrder:
        """Waits until the task gets an assignment, and returns the assignment; None after
        `seconds`.

        If Spark repeats the task in another process, that process gets the same assignment.
        """
        with self._changed:
            self._changed.wait_for(lambda: self._order is not None, seconds)
            return self._order

    def on_task_end(self, error: str) -> None:
        """Called when Spark has ended the task."""
        with self._changed:
            self._ended = True
            order, on_end = self._order, self._on_end
        if isinstance(order, ServeLane) and on_end is not None:
            on_end(order.lane, error)
        elif error and order is None:
            _LOGGER.warning("a standby task failed: %s", error)


class StandbyTaskKeeper:
    """Starts standby tasks, so that one always waits if Spark has a free slot. Thread-safe.

    Args:
        pools: the server's pools of Python workers.
        endpoints: addresses of the server, at which the tasks ask for their assignment.
        wanted: function that returns whether Spark has a free slot.
    """

    def __init__(self, pools: WorkerPools, endpoints: EndpointFactory, *, wanted: bool) -> None:
        self._pools = pools
        self._endpoints = endpoints
        self._wanted = wanted
        self._numbers = itertools.count()
        self._lock = threading.Lock()
        self._ended = threading.Condition(self._lock)
        self._running: dict[int, StandbyTask] = {}
        self._waiting: StandbyTask | None = None

    def ensure_standby(self) -> None:
        """Starts a standby task if none exists. Doesn't wait for its start."""
        with self._lock:
            if not self._wanted or self._waiting is not None:
                return
            one = StandbyTask(next(self._numbers), self._pools.acquire_slot())
            self._waiting = self._running[one.number] = one
        try:
            start_job_thread(
                "stand-by",
                partial(self._run_standby, one),
                lambda error: self._handle_thread_failure(one, error),
            )
        except Exception as failure:  # Spark itself has ended
            self._handle_thread_failure(one, failure)

    def take_standby(self) -> StandbyTask | None:
        """Removes and returns the standby task, if one exists. The caller must release the task's slot later."""
        with self._lock:
            taken, self._waiting = self._waiting, None
            return taken

    def get_standby_order(self, number: int) -> StandByOrder:
        """Returns the assignment of a standby task; None if the task must ask again."""
        with self._lock:
            one = self._running.get(number)
        return EndStandBy() if one is None else one.wait_for_assignment(LIMITS.stand_by_seconds)

    def close(self) -> None:
        """Ends all standby tasks, and waits up to a time limit until the tasks have exited.

        Without the wait, a task could find the server closed, and Spark would log an error.
        """
        with self._lock:
            self._wanted = False
            waiting = self._waiting
        if waiting is not None:
            waiting.end_unless_assigned()
        with self._ended:
            self._ended.wait_for(lambda: not self._running, LIMITS.stand_down_seconds)

    def _run_standby(self, one: StandbyTask) -> None:
        wait = partial(
            run_standby_task,
            self._endpoints.make_endpoint(make_stand_by_scope(one.number)),
            one.number,
        )
        error = self._pools.run_single_task(wait, one.slot, one.group)
        self._remove_ended(one)
        one.on_task_end(error)

    def _handle_thread_failure(self, one: StandbyTask, error: BaseException) -> None:
        self._remove_ended(one)
        one.on_task_end(find_failure_reason(error))

    def _remove_ended(self, one: StandbyTask) -> None:
        """Removes a task that has ended, or has not started."""
        with self._ended:
            self._running.pop(one.number, None)
            self._ended.notify_all()
            if self._waiting is one:
                self._waiting = None
                self._pools.retire_slot(one.slot)
