"""Server with one job: threads replace its Spark jobs, and each lane is a separate worker process object."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import attrs
from beam_runner_driver.job.job import RunningJob
from beam_runner_driver.lanes.slots import ClusterSlots, JobSlots
from beam_runner_driver.ledger.job_folder import JobFolder
from beam_runner_driver.ledger.settings import JobSettings
from beam_runner_engine.scheduler.policy import SectionPolicy
from beam_runner_engine.scheduler.specs import Limits
from beam_runner_model.jobs import Importance, JobState, MessageLine
from beam_runner_planner.plan import JobPlan
from beam_runner_runtime.channel.messages import (
    CloseLane,
    EndJob,
    ExitProcess,
    JobWork,
    LaneOpened,
    RunBundle,
    RunLoop,
    WorkerHello,
)
from beam_runner_runtime.channel.server import WorkerLink
from beam_runner_runtime.sections.ends import SectionEnd, TaskCounts
from beam_runner_storage.journal.store import JournalStore
from beam_runner_storage.stores.spec import StoreSpec
from job_ledgers import open_ledger
from section_doubles import FakeSections
from small_jobs import PLAN, TRANSFORMS
from worker_doubles import SHARDS, FakeHarness, FakeWorker, harnesses, seen_in

SECONDS = 60
NO_LOOP = -1


@attrs.define(eq=False, slots=False)
class Reporter:
    """Recorder of reports, which can refuse the end of a job, as a stopping server does."""

    refuses: bool = False
    states: list[tuple[JobState, str | None]] = attrs.field(factory=list)
    messages: list[tuple[Any, ...]] = attrs.field(factory=list)

    def report_state(
        self, state: JobState, reason: str | None = None, record: object = None
    ) -> bool:
        self.states.append((state, reason))
        return not (self.refuses and state.is_terminal)

    def report_message(
        self,
        importance: Importance,
        text: str,
        transform: str | None = None,
        record: object = None,
    ) -> None:
        self.messages.append((importance, text, transform))

    def report_messages(self, lines: Iterable[MessageLine]) -> None:
        self.messages.extend(line[:4] for line in lines)


@attrs.define(eq=False)
class FakeSpark:
    """Spark jobs as threads; each lane's thread is a separate worker process object."""

    folder: Path
    stages: dict[str, FakeHarness]
    job: Any = None
    threads: list[threading.Thread] = attrs.field(factory=list)
    links: list[WorkerLink] = attrs.field(factory=list)
    closed: list[bool] = attrs.field(factory=list)
    sent: list[Any] = attrs.field(factory=list)
    refuses: str = ""
    is_alive: bool = True
    interface: str = ""
    loss_message: str = "Spark exited unexpectedly"
    dies: Callable[[Any], bool] = lambda order: False
    on_cancel: Callable[[], None] = lambda: None
    plan: JobPlan = PLAN
    cancelled: threading.Event = attrs.field(factory=threading.Event)
    section: Callable[[FakeSpark, RunBundle], SectionEnd] | None = None
    """Function that returns a section's outcome; None for the real outcome."""
    hears: list[Any] = attrs.field(factory=list)
    """Messages of workers for their sections."""

    def start_lane(self, number: int, on_end: Callable[[int, str], None]) -> None:
        if self.refuses:
            on_end(number, self.refuses)
            return
        thread = threading.Thread(target=self._lane, args=(number, on_end), daemon=True)
        self.threads.append(thread)
        thread.start()

    def start_section(
        self, order: RunBundle, work: JobWork, title: str, on_end: Callable[[SectionEnd], None]
    ) -> None:
        def run() -> None:
            sections = FakeSections(self.plan, self.stages, self.folder)
            end = sections.run(order) if self.section is None else self.section(self, order)
            on_end(end)

        threading.Thread(target=run, daemon=True).start()

    def handle_section_message(self, message: Any) -> bool:
        return message in self.hears

    def count_section_tasks(self) -> TaskCounts:
        return TaskCounts()

    def cancel(self) -> None:
        self.cancelled.set()
        self.on_cancel()
        for link in self.links:
            link.send(ExitProcess())

    def close(self, *, workers_gone: bool) -> None:
        self.closed.append(workers_gone)

    def end(self) -> None:
        """Stops Spark and all its threads."""
        self.is_alive, self.refuses = False, "connection refused"
        for link in self.links:
            link.send(ExitProcess())

    def _lane(self, number: int, on_end: Callable[[int, str], None]) -> None:
        link = WorkerLink(WorkerHello("job-1", "host", 100 + number))
        worker = FakeWorker(self.plan, self.stages, self.folder)
        self.links.append(link)
        self.job.handle_worker_attached(link)
        self.job.handle_message(link, LaneOpened(number))
        error = ""
        while True:
            command = link._commands.get(timeout=SECONDS)
            self.sent.append(command)
            match command:
                case RunBundle() | RunLoop() if self.dies(command):
                    error = "Python worker exited unexpectedly"
                    break
                case RunBundle():
                    self._pass_on(link, worker.run(command))
                case RunLoop():
                    for message in worker.loop(command):
                        self._pass_on(link, message)
                case CloseLane():
                    on_end(number, "")
                case EndJob() | ExitProcess():
                    break
                case _:
                    pass
        self.job.handle_worker_detached(link)
        on_end(number, error)

    def _pass_on(self, link: WorkerLink, message: Any) -> None:
        """Passes on a message of a worker; a worker of a stopped Spark sends none."""
        if self.is_alive:
            self.job.handle_message(link, message)


@attrs.define(eq=False, slots=False)
class Server:
    """A server's life with the job."""

    place: Path
    loop_bytes: int = NO_LOOP
    refuses_end: bool = False
    cores: int = 1
    attempts: int = 1
    resumable: bool = False
    slots: ClusterSlots = attrs.field(factory=ClusterSlots)
    plan: JobPlan = PLAN
    transforms: Any = attrs.field(factory=lambda: TRANSFORMS)
    section_policy: SectionPolicy | None = None
    limits: Any = attrs.field(factory=dict)
    keep_seconds: float = 0.0
    most_lanes: int = 4
    placement: Any = None
    """Placement of the job in place of `spark`."""

    def __attrs_post_init__(self) -> None:
        self.folder = self.place / "files"

        self.files = JobFolder(StoreSpec(str(self.folder)))
        self.store = JournalStore(self.place / "journal", durable=False)
        self.journal = self.store.get_journal("job-1")
        self.reporter = Reporter(self.refuses_end)
        self.ended: list[RunningJob] = []
        limits = Limits(**{"parallelism": 4, "user_attempts": self.attempts, **self.limits})
        policy = self.section_policy
        ledger = open_ledger(self.journal, self.files, self.plan, SHARDS, limits, policy)
        self.folder.mkdir(exist_ok=True)
        stages = harnesses(self.plan, self.transforms)
        self.spark = FakeSpark(self.folder, stages, plan=self.plan)
        settings = JobSettings(
            self.files,
            self.store.epoch,
            self.cores,
            self.most_lanes,
            self.loop_bytes,
            self.resumable,
            keep_seconds=self.keep_seconds,
        )
        self.job = self.spark.job = RunningJob(
            ledger,
            self.journal,
            self.reporter,
            self.placement or self.spark,  # type: ignore[arg-type]
            JobSlots(self.slots, "job-1"),
            settings,
            lambda sha: iter([sha.encode()]),
            self.ended.append,
        )

    def start(self) -> None:
        self.job.start()

    def run(self) -> JobState:
        """Runs the job to its end; the last state."""
        self.start()
        return self.wait()

    def wait(self) -> JobState:
        assert self.job.wait_for_end(SECONDS), "the job hangs"
        assert self.ended == [self.job]
        return self.reporter.states[-1][0]

    @property
    def reason(self) -> str:
        return self.reporter.states[-1][1] or ""

    @property
    def seen(self) -> dict[str, int]:
        return seen_in(self.job.get_metrics().committed)

    def stop(self) -> None:
        self.store.close()


def blocked(server: Server) -> threading.Event:
    """Starts the job, up to the point at which its last stage waits for the event."""
    begun, go_on = threading.Event(), threading.Event()

    def wait(chunk: Any) -> None:
        begun.set()
        go_on.wait(SECONDS)

    server.spark.stages["see"].during = wait
    server.start()
    assert begun.wait(SECONDS)
    return go_on
