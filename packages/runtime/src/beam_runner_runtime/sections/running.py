"""The sections of one job that run, and its bundles that are Spark's own: each as many tasks, on a thread of its own.

All methods belong to the job's own thread. Times are those of ``time.monotonic``.
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

from beam_runner_runtime.channel.attempts import Attempt, BundleBroke, SectionRefusal
from beam_runner_runtime.channel.messages import BundleReply, Entry, JobWork, RunBundle
from beam_runner_runtime.sections.ends import SectionEnd, Tasks
from beam_runner_runtime.sections.plan import stages_of
from beam_runner_runtime.sections.ports import SectionHost, SlotUse

LOOK_SECONDS = 1.0
"""How often Spark is asked how far sections are."""
_LOGGER = logging.getLogger(__name__)


@attrs.define(eq=False)
class RunningSection:
    """A section that runs; ``changed`` is when it was seen to come further, ``places`` are the numbers of its slots."""

    bundle: Bundle
    began: float
    changed: float
    places: tuple[int, ...]

    @property
    def attempt(self) -> Attempt:
        """Which attempt it is."""
        return Attempt.of(self.bundle)


class Sections:
    """Has sections run, each at once: Spark queues their tasks as it does everybody's.

    For the cluster's slots a section counts as so many lanes as it can have tasks at a time; others
    make room for them as for lanes that wait.

    Args:
        host: runs them.
        plan: the job's.
        order: makes the order to run one.
        work: what must be known of the job to run what is done with a table.
        on_end: called from other threads.
        width: how many tasks of one can run at a time.
        slots: of the cluster.

    Attributes:
        tasks: how far they are, together, at the last look.
        begun: by stage, in how many attempts that have ended user code has run.
    """

    def __init__(
        self,
        host: SectionHost,
        plan: JobPlan,
        order: Callable[[Bundle], RunBundle],
        work: Callable[[], JobWork],
        on_end: Callable[[SectionEnd], None],
        width: int,
        slots: SlotUse,
    ) -> None:
        self._host = host
        self._plan = plan
        self._sources = plan.sources()
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
        self.tasks = Tasks()
        self.begun: Counter[str] = Counter()

    def are_for(self, bundle: Bundle) -> bool:
        """Whether a bundle is a section, or Spark's own, and not a lane's."""
        return bool(bundle.parts) or self._plan.stages[bundle.stage].table is not None

    def run(self, bundles: Iterable[Bundle]) -> None:
        """Has sections run."""
        for bundle in bundles:
            now = time.monotonic()
            # Lanes have the numbers from 0 on.
            places = tuple(range(self._next_place, self._next_place - self._width, -1))
            self._next_place -= self._width
            section = RunningSection(bundle, now, now, places)
            self._running[section.attempt] = section
            for place in places:
                self._slots.started(place)
            title = f"{self.name(bundle)}, attempt {bundle.attempt}"
            # A turn at a stream comes every second, and is no news.
            level = logging.DEBUG if bundle.stage in self._sources else logging.INFO
            _LOGGER.log(level, "job %s: %s", self._job_id, title)
            self._host.start_section(self._order(bundle), self._work(), title, self._on_end)

    def ended(self, end: SectionEnd) -> Entry:
        """What came of an attempt is known: what that is to the journal."""
        section = self._running.pop(end.attempt, None)
        if section is not None:
            for place in section.places:
                self._slots.ended(place)
            if not isinstance(end, SectionRefusal) or end.ran:
                self.begun.update(stages_of(section.bundle))
        match end:
            case BundleReply():
                self._done.add(end.attempt)
                return end
            case BundleBroke():
                _LOGGER.warning(
                    "job %s: a section broke: %s", self._job_id, end.reason or "user code"
                )
                if end.failure is None and section is not None and section.bundle.parts:
                    # Else its first stage would be to blame.
                    end = attrs.evolve(end, reason=f"{self.name(section.bundle)}: {end.reason}")
                return end.to_event()
            case SectionRefusal(attempt, reason, ran):
                level = logging.WARNING if ran else logging.INFO
                _LOGGER.log(level, "job %s: no section, but bundles: %s", self._job_id, reason)
                return SectionRefused(attempt.bundle, attempt.attempt, reason, ran)

    def committed(self, attempt: Attempt) -> bool:
        """An attempt was committed: whether it was of a section, or a bundle that is Spark's own."""
        was_here = attempt in self._done
        self._done.discard(attempt)
        return was_here

    @property
    def alive(self) -> bool:
        """Whether any run."""
        return bool(self._running)

    def runs(self, attempt: Attempt) -> bool:
        """Whether an attempt is of a section that runs."""
        return attempt in self._running

    def running(self) -> Iterator[RunningSection]:
        """Those that run."""
        return iter(self._running.values())

    def look(self) -> bool:
        """Sees how far they are, if it is time to; whether that is further than at the last look."""
        now = time.monotonic()
        if not self._running or now < self._looked + LOOK_SECONDS:
            return False
        self._looked = now
        before, self.tasks = self.tasks, self._host.section_tasks()
        self._take_places()
        moved = self.tasks.done != before.done
        if moved:
            for section in self._running.values():
                section.changed = now
        return moved

    def _take_places(self) -> None:
        """Tells whose wait for a slot is over: Spark says how many tasks run, not of which section."""
        places = [place for section in self._running.values() for place in section.places]
        for place in places[: self.tasks.running]:
            self._slots.opened(place)

    def name(self, bundle: Bundle) -> str:
        """What people know a section by, or a bundle that is Spark's own."""
        if not bundle.parts:
            return self._plan.stages[bundle.stage].spec.title
        first, *_, last = (self._plan.stages[part.stage].spec.title for part in bundle.parts)
        return f"section of {first} to {last}"
