"""The standby: a Spark task in a warm worker process that waits for the next job's first lane.

Spark takes 0.1 s to start a task: it plans a job, forks a worker, and the worker connects to the
server. A small job would spend most of its time on that. So if Spark has a free slot, one task
always waits there. It belongs to no job before it gets a lane.
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
from beam_spark_io.spark.reasons import failure_reason

from beam_spark_executor.spark.lane import run_stand_by
from beam_spark_executor.spark.pool import WorkerPools, WorkerSlot
from beam_spark_executor.spark.threads import start_job_thread

_LOGGER = logging.getLogger(__name__)


class StandBy:
    """One waiting task. Any thread may call any method.

    Args:
        number: the task's number.
        slot: the slot of its worker process, which the job that uses the task takes over.

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
        """Gives the task a lane, and calls ``on_end`` at the lane's end; returns False if the task is
        assigned or has ended.
        """
        with self._changed:
            if self._ended or self._order is not None:
                return False
            self._order, self._on_end = lane, on_end
            self._changed.notify_all()
            return True

    def end_unless_assigned(self) -> None:
        """Ends the task, unless it has a lane."""
        with self._changed:
            self._order = self._order or EndStandBy()
            self._changed.notify_all()

    def wait_for_assignment(self, seconds: float) -> StandByOrder:
        """Returns the task's assignment when it is known; None after the limit.

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


class StandByKeeper:
    """Keeper of one waiting task, if a standby is wanted. Any thread may call any method.

    Args:
        pools: the server's pools of Python workers.
        endpoints: the channel's addresses, where the tasks call `order`.
        wanted: returns whether Spark has a free slot.
    """

    def __init__(self, pools: WorkerPools, endpoints: EndpointFactory, *, wanted: bool) -> None:
        self._pools = pools
        self._endpoints = endpoints
        self._wanted = wanted
        self._numbers = itertools.count()
        self._lock = threading.Lock()
        self._ended = threading.Condition(self._lock)
        self._running: dict[int, StandBy] = {}
        self._waiting: StandBy | None = None

    def ensure_standby(self) -> None:
        """Starts a waiting task if none exists, without waiting for its start."""
        with self._lock:
            if not self._wanted or self._waiting is not None:
                return
            one = StandBy(next(self._numbers), self._pools.acquire_slot())
            self._waiting = self._running[one.number] = one
        try:
            start_job_thread(
                "stand-by",
                partial(self._run_standby, one),
                lambda error: self._on_failure(one, error),
            )
        except Exception as failure:  # Spark itself has ended
            self._on_failure(one, failure)

    def take_standby(self) -> StandBy | None:
        """Returns the waiting task, if one exists. The caller owns it and its slot from now on."""
        with self._lock:
            taken, self._waiting = self._waiting, None
            return taken

    def order(self, number: int) -> StandByOrder:
        """Returns the assignment of a task; None if the task should ask again."""
        with self._lock:
            one = self._running.get(number)
        return EndStandBy() if one is None else one.wait_for_assignment(LIMITS.stand_by_seconds)

    def close(self) -> None:
        """Ends all waiting tasks, and waits a moment for their exit.

        A task that can't ask again, because the channel is closed, would fail in Spark's log.
        """
        with self._lock:
            self._wanted = False
            waiting = self._waiting
        if waiting is not None:
            waiting.end_unless_assigned()
        with self._ended:
            self._ended.wait_for(lambda: not self._running, LIMITS.stand_down_seconds)

    def _run_standby(self, one: StandBy) -> None:
        wait = partial(
            run_stand_by, self._endpoints.make_endpoint(make_stand_by_scope(one.number)), one.number
        )
        error = self._pools.run_single_task(wait, one.slot, one.group)
        self._remove_ended(one)
        one.on_task_end(error)

    def _on_failure(self, one: StandBy, error: BaseException) -> None:
        self._remove_ended(one)
        one.on_task_end(failure_reason(error))

    def _remove_ended(self, one: StandBy) -> None:
        """Removes a task that has ended, or has not started."""
        with self._ended:
            self._running.pop(one.number, None)
            self._ended.notify_all()
            if self._waiting is one:
                self._waiting = None
                self._pools.retire_slot(one.slot)
