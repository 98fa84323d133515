"""What a job tells those who look at it now: its bundles that run, and what its workers' threads do.

Nothing here costs anything while nobody asks: the job's own thread is asked to look, and does so in its
next round.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator

import attrs
from beam_runner_model.observation import (
    BundlePlace,
    Execution,
    ObservedBundle,
    ThreadStack,
)
from beam_runner_model.waits import Wait
from beam_runner_planner.plan import JobPlan

from beam_runner_runtime.channel.messages import DumpStacks, Stacks
from beam_runner_runtime.channel.server import WorkerLink
from beam_runner_runtime.driver.coordinator import Coordinator
from beam_runner_runtime.driver.failure_reports import failed_bundles
from beam_runner_runtime.driver.lane import Lane
from beam_runner_runtime.sections.plan import stages_of
from beam_runner_runtime.sections.running import Sections
from beam_runner_runtime.shutdown.limits import LIMITS

ASKED_SECONDS = 10.0
"""For how long after a question a job looks at itself, for the next one."""
_STACKS_SECONDS = 3.0


class JobObserving:
    """``look`` belongs to the job's own thread; all else may be called from any.

    Args:
        plan: the job's.
        links: its worker processes.
        interface: finds the address of Spark's own pages; empty where it has none.
    """

    def __init__(
        self, plan: JobPlan, links: Callable[[], Iterable[WorkerLink]], interface: Callable[[], str]
    ) -> None:
        self._plan = plan
        self._links = links
        self._interface = interface
        self._asked = float("-inf")
        self._seen = Execution()
        self._is_kept = False
        self._answered = threading.Condition()
        self._request = 0
        self._stacks: dict[WorkerLink, tuple[ThreadStack, ...]] = {}

    @property
    def is_asked(self) -> bool:
        """Whether somebody has asked for anything lately."""
        return time.monotonic() < self._asked + ASKED_SECONDS

    def touch(self) -> None:
        """Somebody asks."""
        self._asked = time.monotonic()

    def execution(self) -> Execution:
        """What the job did at the last look."""
        self.touch()
        return self._seen

    def look(self, coordinator: Coordinator, waits: tuple[Wait, ...], still: float) -> None:
        """Sees what runs.

        Args:
            coordinator: of the job.
            waits: what the job waits for.
            still: for how many seconds nothing has moved.
        """
        now = time.monotonic()
        found = []
        for lane in coordinator.lanes.busy():
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
                    where=_where(lane, embedded=stage.embedded),
                    silent=_silence(lane.link, now),
                )
            )
        found += self._in_sections(coordinator.sections, now)
        found.sort(key=lambda one: -one.seconds)
        clock = coordinator.clock.now()
        self._seen = Execution(
            tuple(found),
            failed_bundles(coordinator.ledger, self._plan, clock),
            waits,
            round(still, 1),
            clock,
            self._interface(),
        )

    def awaits(self, wait: Wait | None) -> None:
        """Shows what keeps the job's own thread from looking, until the next look; None shows nothing more."""
        waits = () if wait is None else (wait,)
        if waits or self._is_kept:
            self._seen = attrs.evolve(self._seen, waits=waits)
        self._is_kept = bool(waits)

    def _in_sections(self, sections: Sections, now: float) -> Iterator[ObservedBundle]:
        for section in sections.running():
            bundle, tasks = section.bundle, sections.tasks
            titles = [self._plan.stages[stage].spec.name for stage in stages_of(bundle)]
            yield ObservedBundle(
                stage=bundle.stage,
                bundle=bundle.number,
                attempt=bundle.attempt,
                steps=tuple(step for title in titles for step in title.split(" + ")),
                host="Spark",
                seconds=round(now - section.began, 1),
                still=round(now - section.changed, 1),
                fraction=tasks.done / tasks.known if tasks.known else 0.0,
                where=BundlePlace.SECTION,
                tasks=tasks.known,
                tasks_done=tasks.done,
            )

    def stacks(self) -> tuple[ThreadStack, ...]:
        """What the threads of all worker processes do now; of those that answer within seconds."""
        links = tuple(self._links())
        with self._answered:
            self._request += 1
            self._stacks = {}
            for link in links:
                link.send(DumpStacks(self._request))
            self._answered.wait_for(lambda: len(self._stacks) == len(links), _STACKS_SECONDS)
            found = (stack for link in links for stack in self._stacks.get(link, ()))
            # Several workers may be served by one program, whose threads each of them tells of.
            return tuple(dict.fromkeys(found))

    def answered(self, link: WorkerLink, stacks: Stacks) -> None:
        """A worker process has told what its threads do."""
        with self._answered:
            if stacks.request == self._request:
                self._stacks[link] = stacks.threads
                self._answered.notify_all()


def _where(lane: Lane, *, embedded: bool) -> BundlePlace:
    """What runs the user code of the bundle in a lane."""
    if embedded:
        return BundlePlace.PROCESS
    return BundlePlace.STARTING_HARNESS if lane.prepares else BundlePlace.HARNESS


def _silence(link: WorkerLink, now: float) -> float:
    """For how long a process can't speak; 0 if it can."""
    silent = now - link.heard
    return round(silent, 1) if silent > LIMITS.silent_seconds else 0.0
