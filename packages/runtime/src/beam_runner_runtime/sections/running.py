"""Running sections of one job (stages that run as one Spark job), and running bundles that read or
write Spark tables.

Only the job's thread calls the methods of a running section. Times come from ``time.monotonic``.
"""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator

import attrs
from beam_runner_engine.scheduler.commands import Bundle
from beam_runner_engine.scheduler.events import SectionRefused
from beam_runner_planner.plan import JobPlan

from beam_runner_runtime.channel.attempts import Attempt, BundleFailure, SectionRefusal
from beam_runner_runtime.channel.messages import BundleReply, Entry, JobWork, RunBundle
from beam_runner_runtime.sections.ends import SectionEnd, TaskCounts
from beam_runner_runtime.sections.plan import list_stage_ids
from beam_runner_runtime.sections.ports import SectionHost, SlotCounter

LOOK_SECONDS = 1.0
"""Interval (s) at which the server polls Spark for the progress of sections (Spark jobs)."""
_LOGGER = logging.getLogger(__name__)


@attrs.define(eq=False)
class RunningSection:
    """Record of a section (stages that run as one Spark job) that Spark runs for the job.

    ``began`` is the start time of the section, ``changed`` is the time of its last progress, and
    ``places`` are the numbers of its slots.
    """

    bundle: Bundle
    began: float
    changed: float
    places: tuple[int, ...]

    @property
    def attempt(self) -> Attempt:
        """Bundle number and attempt number of the section (a section is one bundle for the
        scheduler).
        """
        return Attempt.from_bundle(self.bundle)


class SectionRunner:
    """Submits the sections of a job (stages that run as one Spark job) to Spark immediately. Spark
    queues the sections' tasks together with the tasks of other jobs.

    A section requests as many cluster slots as it can run tasks in parallel. Other jobs release
    slots for the section, as they do for waiting lanes.

    Args:
        host: host that runs sections.
        plan: plan of the job.
        order: function that returns the order for a bundle.
        work: function that returns the job's data for work with a table.
        on_end: callback for the result, called from other threads.
        width: maximum number of parallel tasks of a section.
        slots: slots of the cluster.

    Attributes:
        tasks: numbers of finished, running and known Spark tasks of all sections, from the last
            check.
        begun: number of finished section attempts in which user code ran, by stage.
    """

    def __init__(
        self,
        host: SectionHost,
        plan: JobPlan,
        order: Callable[[Bundle], RunBundle],
        work: Callable[[], JobWork],
        on_end: Callable[[SectionEnd], None],
        width: int,
        slots: SlotCounter,
    ) -> None:
        self._host = host
        self._plan = plan
        self._sources = plan.list_source_stage_ids()
        self._job_id = plan.context.job_id
        self._order = order
        self._work = work
        self._on_end = on_end
        self._width = width
        self._slots = slots
        self._running: dict[Attempt, RunningSection] = {}
        self._next_place = -1
        self._looked = 0.0
        self._done: set[Attempt] = set()
        self.tasks = TaskCounts()
        self.begun: Counter[str] = Counter()

    def is_section(self, bundle: Bundle) -> bool:
        """Returns True if a bundle runs as a Spark job (a section or a bundle with a Spark table),
        and not on a lane.
        """
        return bool(bundle.parts) or self._plan.stages[bundle.stage].table is not None

    def start_sections(self, bundles: Iterable[Bundle]) -> None:
        """Starts bundles that are sections or bundles of Spark tables, each as a Spark job."""
        for bundle in bundles:
            now = time.monotonic()
            # Use negative slot numbers for sections, because lanes use the numbers from 0 on.
            places = tuple(range(self._next_place, self._next_place - self._width, -1))
            self._next_place -= self._width
            section = RunningSection(bundle, now, now, places)
            self._running[section.attempt] = section
            for place in places:
                self._slots.record_requested_slot(place)
            title = f"{self.format_title(bundle)}, attempt {bundle.attempt}"
            # Log micro-batches of streaming tables at DEBUG level, because they start every second.
            level = logging.DEBUG if bundle.stage in self._sources else logging.INFO
            _LOGGER.log(level, "job %s: %s", self._job_id, title)
            self._host.start_section(self._order(bundle), self._work(), title, self._on_end)

    def handle_end(self, end: SectionEnd) -> Entry:
        """Handles the end of an attempt at a section (Spark job). Returns the journal entry about
        the result.
        """
        section = self._running.pop(end.attempt, None)
        if section is not None:
            for place in section.places:
                self._slots.count_released_slot(place)
            if not isinstance(end, SectionRefusal) or end.ran:
                self.begun.update(list_stage_ids(section.bundle))
        match end:
            case BundleReply():
                self._done.add(end.attempt)
                return end
            case BundleFailure():
                _LOGGER.warning(
                    "job %s: a section failed: %s", self._job_id, end.reason or "user code"
                )
                if end.failure is None and section is not None and section.bundle.parts:
                    # Add the section's title to the reason, because the message itself names only
                    # the first stage of the section.
                    end = attrs.evolve(
                        end, reason=f"{self.format_title(section.bundle)}: {end.reason}"
                    )
                return end.to_event()
            case SectionRefusal(attempt, reason, ran):
                level = logging.WARNING if ran else logging.INFO
                _LOGGER.log(level, "job %s: no section, but bundles: %s", self._job_id, reason)
                return SectionRefused(attempt.bundle, attempt.attempt, reason, ran)

    def record_commit(self, attempt: Attempt) -> bool:
        """Called when an attempt is committed. Returns whether the attempt ran as a Spark job."""
        was_here = attempt in self._done
        self._done.discard(attempt)
        return was_here

    @property
    def has_sections(self) -> bool:
        """Whether any section (Spark job) of the job is running."""
        return bool(self._running)

    def is_running(self, attempt: Attempt) -> bool:
        """Returns True if a running section (Spark job) executes this attempt."""
        return attempt in self._running

    def list_running(self) -> Iterator[RunningSection]:
        """Yields the records of the running sections (Spark jobs)."""
        return iter(self._running.values())

    def poll_progress(self) -> bool:
        """Asks Spark for the progress if a check is due. Returns whether the progress changed since the last check."""
        now = time.monotonic()
        if not self._running or now < self._looked + LOOK_SECONDS:
            return False
        self._looked = now
        before, self.tasks = self.tasks, self._host.count_section_tasks()
        self._count_taken_slots()
        moved = self.tasks.done != before.done
        if moved:
            for section in self._running.values():
                section.changed = now
        return moved

    def _count_taken_slots(self) -> None:
        """Counts a slot as used for each running task. Spark reports the number of running tasks,
        but not their sections.
        """
        places = [place for section in self._running.values() for place in section.places]
        for place in places[: self.tasks.running]:
            self._slots.record_received_slot(place)

    def format_title(self, bundle: Bundle) -> str:
        """Returns the title of a section, or of a Spark table's bundle."""
        if not bundle.parts:
            return self._plan.stages[bundle.stage].spec.title
        first, *_, last = (self._plan.stages[part.stage].spec.title for part in bundle.parts)
        return f"section of {first} to {last}"
