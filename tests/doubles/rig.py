"""A coordinator with workers that are objects: everything happens when `Rig.step` is called."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs
from beam_runner_driver.coordination.coherence import check_bundle_placement
from beam_runner_driver.coordination.coordinator import JobCoordinator
from beam_runner_driver.coordination.metrics import JobMetricsSum
from beam_runner_driver.lanes.slots import ClusterSlots, JobSlots
from beam_runner_driver.ledger.job_folder import JobFolder
from beam_runner_driver.ledger.journal_codec import decode_entries
from beam_runner_driver.ledger.ledger import JobLedger
from beam_runner_driver.ledger.retrying_journal import RetryingJournal
from beam_runner_driver.ledger.settings import JobSettings
from beam_runner_engine.scheduler.policy import SectionPolicy
from beam_runner_engine.scheduler.specs import Limits
from beam_runner_planner.plan import JobPlan
from beam_runner_runtime.channel.attempts import Attempt
from beam_runner_runtime.channel.messages import (
    BundleReply,
    CloseLane,
    ExitProcess,
    LaneOpened,
    RunBundle,
    RunFinalizers,
    RunLoop,
    SplitRequest,
)
from beam_runner_storage.journal.store import JournalStore
from beam_runner_storage.stores.spec import StoreSpec
from job_ledgers import open_ledger
from section_doubles import FakeSections
from worker_doubles import SHARDS, FakeHarness, FakeWorker, Transform, harnesses

NO_LOOP = -1
"""As `JobSettings.loop_bytes`: every bundle runs in a lane."""
ANYWHERE = "anywhere"
"""As `Crashes.point`: all points count."""
_MOST_STEPS = 400


class LoggedJournal:
    """A journal that notes which bundles are committed, in the order of all that is noted."""

    def __init__(self, journal: Any, log: list[tuple[str, Attempt]]) -> None:
        self._journal = journal
        self._log = log

    def append_entries(self, entries: Sequence[bytes]) -> None:
        self._journal.append_entries(entries)
        for blob in entries:
            for entry in decode_entries(blob):
                if isinstance(entry, BundleReply):
                    attempt = Attempt(entry.done.bundle, entry.done.attempt)
                    self._log.append(("commit", attempt))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._journal, name)


class Rig:
    """Server process with one job, which resumes from the files of the previous server.

    Attributes:
        stages: harnesses, which a test can change before a step.
        workers: all attached workers, in order.
        log: committed and finalized bundles, in order.
    """

    def __init__(
        self,
        place: Path,
        plan: JobPlan,
        transforms: Mapping[str, Transform],
        *,
        cores: int = 1,
        loop_bytes: int = NO_LOOP,
        limits: Mapping[str, int] | None = None,
        section_policy: SectionPolicy | None = None,
        slots: ClusterSlots | None = None,
    ) -> None:
        self.plan = plan
        self.folder = place / "files"

        self.files = JobFolder(StoreSpec(str(self.folder)))
        self.stages: dict[str, FakeHarness] = harnesses(plan, transforms)
        self.workers: list[FakeWorker] = []
        self.lanes: dict[int, FakeWorker] = {}
        self.starting: list[int] = []
        self.log: list[tuple[str, Attempt]] = []
        self.section_policy = section_policy
        self.sections = FakeSections(plan, self.stages, self.folder)
        self.store = JournalStore(place / "journal", durable=False)
        self.journal: Any = LoggedJournal(self.store.get_journal("job-1"), self.log)
        try:
            ledger = self._ledger({"parallelism": 4 * cores, **(limits or {})})
        except BaseException:
            self.stop()
            raise
        self.folder.mkdir(exist_ok=True)
        self.metrics = JobMetricsSum(ledger.metrics.infos())
        self.coordinator = JobCoordinator(
            ledger,
            RetryingJournal(self.journal, None, lambda outage: False),
            self.metrics,
            self.starting.append,
            self.sections,
            lambda end: self.coordinator.handle_section_end(end),
            JobSlots(slots or ClusterSlots(), "job-1"),
            JobSettings(self.files, self.store.epoch, cores, 4 * cores, loop_bytes),
        )
        work = self.coordinator.run_round

        def checked() -> None:
            work()
            check_bundle_placement(self.coordinator)

        self.coordinator.run_round = checked  # type: ignore[method-assign]

    def _ledger(self, limits: Mapping[str, int]) -> JobLedger:
        policy = self.section_policy
        return open_ledger(self.journal, self.files, self.plan, SHARDS, Limits(**limits), policy)

    @property
    def ledger(self) -> JobLedger:
        """Committed state of the job."""
        return self.coordinator.ledger

    def stop(self) -> None:
        """Stops the server, as a stop or a kill does."""
        self.store.close()

    def begin(self) -> None:
        """Starts the job, up to the first orders for workers."""
        self.coordinator.resume_job()
        self.coordinator.run_round()

    def open_lanes(self) -> None:
        """Starts all requested lanes, as Spark does."""
        while self.starting:
            self.open_lane(self.starting.pop(0))
        self.coordinator.run_round()

    def open_lane(self, number: int) -> FakeWorker:
        """Starts a lane in a new process."""
        worker = FakeWorker(self.plan, self.stages, self.folder, len(self.workers))
        self.workers.append(worker)
        self.lanes[number] = worker
        self.heard(worker, LaneOpened(number))
        return worker

    def heard(self, worker: FakeWorker, *messages: Any) -> None:
        """Passes a message of the worker to the server."""
        for message in messages:
            self.coordinator.handle_message(worker, message)  # type: ignore[arg-type]

    def lose(self, worker: FakeWorker) -> None:
        """Ends the worker's process."""
        self.coordinator.handle_process_exit(worker)  # type: ignore[arg-type]

    def obey(self, worker: FakeWorker) -> None:
        """Runs the worker's first pending command."""
        match worker.pending.popleft():
            case RunBundle() as order:
                self.heard(worker, worker.run(order))
            case RunLoop() as order:
                self.heard(worker, *worker.loop(order))
            case RunFinalizers(bundles):
                self.log += [("finalize", attempt) for attempt in bundles]
            case CloseLane():
                (number,) = (n for n, known in self.lanes.items() if known is worker)
                self.coordinator.handle_lane_end(number, "")
            case ExitProcess():
                self.lose(worker)
            case SplitRequest():
                raise AssertionError("the test expected no split")

    def step(self) -> None:
        """Runs one command of every worker, finishes sections, and starts requested lanes."""
        self.open_lanes()
        self.sections.end_all()
        for worker in list(self.workers):
            if worker.pending:
                self.obey(worker)
        self.coordinator.run_round()

    def run(self, until: Callable[[], bool] = lambda: False) -> None:
        """Runs steps until the job is finished, or until a condition is true."""
        for _ in range(_MOST_STEPS):
            if self.ledger.end is not None or until():
                return
            self.step()
            wait = self.coordinator.seconds_to_alarm
            if wait is not None and wait < 1:
                time.sleep(wait)
        raise AssertionError(f"the job hangs: {self.ledger.open_bundles}")


@attrs.define
class Crashes:
    """Crash of a server at the n-th time that it reaches a point of the commit protocol.

    Attributes:
        point: name of the point; empty for never.
        countdown: number of passes before the crash.
        happened: whether the crash has happened.
    """

    point: str = ""
    countdown: int = 0
    happened: bool = False
    passed: list[str] = attrs.field(factory=list)

    def at(self, point: str) -> None:
        """Called when the server reaches a point."""
        self.passed.append(point)
        if self.point in (point, ANYWHERE):
            if not self.countdown:
                self.happened = True
                self.point = ""
                raise Crashed(point)
            self.countdown -= 1


class Crashed(BaseException):
    """The server is gone: nothing that it would have done after this is done."""
