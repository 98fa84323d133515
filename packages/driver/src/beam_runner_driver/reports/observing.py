"""Observation of a running job by clients: running bundles, and stacks of worker threads.

After a client's request, the job's thread takes a snapshot in its next round, and the first request
after a pause waits for it. Without requests, the thread takes no snapshots.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterable, Iterator

import attrs
from beam_runner_model.observation import (
    BundleProcessKind,
    Execution,
    ObservedBundle,
    ThreadStack,
)
from beam_runner_model.waits import Wait
from beam_runner_planner.plan import JobPlan
from beam_runner_runtime.channel.messages import DumpStacks, StackDump
from beam_runner_runtime.channel.server import WorkerLink
from beam_runner_runtime.sections.plan import list_stage_ids
from beam_runner_runtime.sections.running import SectionRunner
from beam_runner_runtime.shutdown.limits import LIMITS

from beam_runner_driver.coordination.coordinator import JobCoordinator
from beam_runner_driver.lanes.lane import Lane
from beam_runner_driver.reports.failure_reports import describe_failed_bundles

ASKED_SECONDS = 10.0
"""Seconds after a client's request during which the job's thread takes new snapshots, because more
requests are likely.
"""
_STACKS_SECONDS = 3.0
_STALE_SECONDS = 1.0
"""Age of a snapshot from which a request waits for the next snapshot."""
_RENEWAL_SECONDS = 2.0
"""Maximum time for which a request waits. A round of the job's thread is far shorter, unless the
thread is blocked.
"""


class JobSnapshots:
    """Snapshots of a running job. Only the job's thread can call ``take_snapshot``; any thread can
    call the other methods.

    Args:
        links: function that returns the worker processes of the job.
        interface: function that returns the URL of Spark's web UI; empty without a web UI.
    """

    def __init__(
        self, plan: JobPlan, links: Callable[[], Iterable[WorkerLink]], interface: Callable[[], str]
    ) -> None:
        self._plan = plan
        self._links = links
        self._interface = interface
        self._asked = float("-inf")
        self._seen = Execution()
        self._seen_at = float("-inf")
        self._renewed = threading.Condition()
        self._is_renewing = False
        self._is_kept = False
        self._answered = threading.Condition()
        self._request = 0
        self._stacks: dict[WorkerLink, tuple[ThreadStack, ...]] = {}

    @property
    def has_recent_request(self) -> bool:
        """Whether a client sent a request in the last `ASKED_SECONDS`."""
        return time.monotonic() < self._asked + ASKED_SECONDS

    def record_request(self) -> None:
        """Records the time of a client's request, after which the job's thread takes snapshots."""
        self._asked = time.monotonic()

    @contextlib.contextmanager
    def renew(self) -> Iterator[None]:
        """Returns a context manager: within it, the job's thread takes a snapshot in each round after
        a request, so that requests can wait for the snapshot.
        """
        self._is_renewing = True
        try:
            yield
        finally:
            with self._renewed:
                self._is_renewing = False
                self._renewed.notify_all()

    def get_latest_execution(self) -> Execution:
        """Returns the current activity of the job. If the latest snapshot is old, waits up to 2 s
        for the next one, so that even a client's first request gets the truth.
        """
        self.record_request()
        with self._renewed:
            self._renewed.wait_for(self._is_current, _RENEWAL_SECONDS)
            return self._seen

    def _is_current(self) -> bool:
        is_recent = time.monotonic() < self._seen_at + _STALE_SECONDS
        return is_recent or self._is_kept or not self._is_renewing

    def take_snapshot(
        self, coordinator: JobCoordinator, waits: tuple[Wait, ...], still: float
    ) -> None:
        """Takes a snapshot of the running bundles.

        Args:
            waits: conditions that the job waits for.
            still: seconds without progress.
        """
        now = time.monotonic()
        found = []
        for lane in coordinator.lanes.list_busy_lanes():
            bundle = lane.running
            if bundle is None or lane.link is None:
                continue
            stage = self._plan.stages[bundle.stage]
            found.append(
                ObservedBundle(
                    stage=bundle.stage,
                    bundle=bundle.number,
                    attempt=bundle.attempt,
                    steps=tuple(stage.spec.name.split(" + ")),
                    host=lane.link.hello.host,
                    pid=lane.link.hello.pid,
                    seconds=round(now - lane.began, 1),
                    still=round(now - lane.changed, 1),
                    fraction=lane.fraction,
                    where=_locate_user_code(lane, embedded=stage.embedded),
                    silent=_measure_seconds_of_silence(lane.link, now),
                )
            )
        found += self._list_running_sections(coordinator.sections, now)
        found.sort(key=lambda one: -one.seconds)
        clock = coordinator.clock.now()
        self._publish_snapshot(
            Execution(
                tuple(found),
                describe_failed_bundles(coordinator.ledger, self._plan, clock),
                waits,
                round(still, 1),
                clock,
                self._interface(),
                *_count_slots(coordinator),
            )
        )

    def _publish_snapshot(self, seen: Execution) -> None:
        with self._renewed:
            self._seen, self._seen_at = seen, time.monotonic()
            self._renewed.notify_all()

    def publish_wait_reason(self, wait: Wait | None) -> None:
        """Adds the reason for which the job's thread is blocked to the latest snapshot. None removes the reason."""
        waits = () if wait is None else (wait,)
        if waits or self._is_kept:
            self._is_kept = bool(waits)
            self._publish_snapshot(attrs.evolve(self._seen, waits=waits))

    def _list_running_sections(
        self, sections: SectionRunner, now: float
    ) -> Iterator[ObservedBundle]:
        for section in sections.list_running():
            bundle, tasks = section.bundle, sections.tasks
            titles = [self._plan.stages[stage].spec.name for stage in list_stage_ids(bundle)]
            yield ObservedBundle(
                stage=bundle.stage,
                bundle=bundle.number,
                attempt=bundle.attempt,
                steps=tuple(step for title in titles for step in title.split(" + ")),
                host="Spark",
                seconds=round(now - section.began, 1),
                still=round(now - section.changed, 1),
                fraction=tasks.done / tasks.known if tasks.known else 0.0,
                where=BundleProcessKind.SECTION,
                tasks=tasks.known,
                tasks_done=tasks.done,
            )

    def collect_stacks(self) -> tuple[ThreadStack, ...]:
        """Returns the stacks of the threads of all worker processes that respond within 3 s."""
        links = tuple(self._links())
        with self._answered:
            self._request += 1
            self._stacks = {}
            for link in links:
                link.send(DumpStacks(self._request))
            self._answered.wait_for(lambda: len(self._stacks) == len(links), _STACKS_SECONDS)
            found = (stack for link in links for stack in self._stacks.get(link, ()))
            # Remove duplicate stacks: several workers can share one SDK process, and each worker
            # reports all threads of the process.
            return tuple(dict.fromkeys(found))

    def handle_stacks(self, link: WorkerLink, stacks: StackDump) -> None:
        """Handles the response of a worker process with its stacks."""
        with self._answered:
            if stacks.request == self._request:
                self._stacks[link] = stacks.threads
                self._answered.notify_all()


def _count_slots(coordinator: JobCoordinator) -> tuple[int, int]:
    """Returns the number of slots that a job can use at once, and the number of slots that it uses."""
    lanes = sum(not lane.is_starting for lane in coordinator.lanes.list_busy_lanes())
    has_sections = any(coordinator.sections.list_running())
    tasks = coordinator.sections.tasks.running if has_sections else 0
    return coordinator.lanes.core_count, lanes + tasks


def _locate_user_code(lane: Lane, *, embedded: bool) -> BundleProcessKind:
    """Returns the process and the thread that run the user code of a bundle."""
    if embedded:
        return BundleProcessKind.PROCESS
    return BundleProcessKind.STARTING_HARNESS if lane.prepares else BundleProcessKind.HARNESS


def _measure_seconds_of_silence(link: WorkerLink, now: float) -> float:
    """Returns the seconds since the last message of an unresponsive process, or 0 if the process responds."""
    silent = now - link.heard
    return round(silent, 1) if silent > LIMITS.silent_seconds else 0.0
