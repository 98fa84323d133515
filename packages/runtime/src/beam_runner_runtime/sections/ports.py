"""What sections need: a process that runs their bundles, the tasks of a placement, and slots for these."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from beam_runner_runtime.bundles.bundle_data import BundleData, FolderData
from beam_runner_runtime.bundles.keyed import Stores
from beam_runner_runtime.channel.attempts import BundleBroke, SectionRefusal
from beam_runner_runtime.channel.messages import BundleReply, FromWorker, JobWork, RunBundle
from beam_runner_runtime.clock import ProcessingClock
from beam_runner_runtime.sections.ends import SectionEnd, Tasks


class TaskHost(Protocol):
    """The process in which a task of a section runs."""

    @property
    def work(self) -> JobWork:
        """The job."""

    @property
    def data(self) -> FolderData:
        """The job's files."""

    @property
    def scratch(self) -> Path:
        """A folder on this machine that belongs to this process."""

    @property
    def clock(self) -> ProcessingClock:
        """The job's processing time."""

    def run_bundle(
        self, order: RunBundle, stores: Stores, data: BundleData
    ) -> BundleReply | BundleBroke:
        """Processes a bundle to its end, in the calling thread; never raises for what went wrong in it."""

    def tell(self, end: BundleBroke | SectionRefusal) -> None:
        """Tells the server that the section must end."""

    def warn(self, text: str) -> None:
        """Tells people something about the section."""


class SlotUse(Protocol):
    """The slots of the cluster, as one job counts those that it asks for and has."""

    def started(self, lane: int) -> None:
        """Counts a slot that was asked for."""

    def opened(self, lane: int) -> None:
        """Counts a slot as taken."""

    def ended(self, lane: int) -> None:
        """Counts a slot as free."""


class SectionHost(Protocol):
    """What runs sections and tables, each as many tasks at once."""

    def start_section(
        self, order: RunBundle, work: JobWork, title: str, on_end: Callable[[SectionEnd], None]
    ) -> None:
        """Runs a section, or a bundle of a stage that has a table, and calls ``on_end`` with what came of it, on any thread.

        A placement that has no sections refuses each: its stages then run apart, on lanes. It is asked for tables only
        where `Placement.has_tables`.

        Args:
            order: a bundle with parts, or of a stage that has a table.
            work: the job.
            title: what people are to know it by.
            on_end: told once.
        """

    def heard(self, message: FromWorker) -> bool:
        """A worker process has said something: whether it is about a section that runs, and for nobody else.

        May be called from any thread.
        """

    def section_tasks(self) -> Tasks:
        """How far the sections and tables of the job are, together."""
