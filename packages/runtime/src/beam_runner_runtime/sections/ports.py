"""Interfaces that a section (stages that run as one Spark job) needs from its host.

The interfaces are a process for the bundles, a placement that runs the tasks, and slots for these
tasks.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from beam_runner_runtime.bundles.bundle_data import BundleData, FolderData
from beam_runner_runtime.bundles.keyed import KeyedStoreProvider
from beam_runner_runtime.channel.attempts import BundleFailure, SectionRefusal
from beam_runner_runtime.channel.messages import BundleReply, FromWorker, JobWork, RunBundle
from beam_runner_runtime.clock import ProcessingClock
from beam_runner_runtime.sections.ends import SectionEnd, TaskCounts


class TaskHost(Protocol):
    """Process that runs a task of a section."""

    @property
    def work(self) -> JobWork:
        """Plan and settings of the job."""

    @property
    def data(self) -> FolderData:
        """Data of the job in its files (not data from other tasks of a section)."""

    @property
    def scratch(self) -> Path:
        """Folder on this machine that belongs to this process."""

    @property
    def clock(self) -> ProcessingClock:
        """Processing-time clock of the job."""

    def run_bundle(
        self, order: RunBundle, stores: KeyedStoreProvider, data: BundleData
    ) -> BundleReply | BundleFailure:
        """Runs a bundle in the calling thread, and returns its reply; never raises for a failure of the bundle."""

    def report_end(self, end: BundleFailure | SectionRefusal) -> None:
        """Reports to the server that the section must end, because a bundle failed or the section was refused."""

    def log_warning(self, text: str) -> None:
        """Logs a warning about the section for the user."""


class SlotUse(Protocol):
    """Count of the cluster slots that one job has requested and taken."""

    def started(self, lane: int) -> None:
        """Counts a requested slot."""

    def opened(self, lane: int) -> None:
        """Counts a slot as taken."""

    def ended(self, lane: int) -> None:
        """Counts a slot as free."""


class SectionHost(Protocol):
    """Host of sections and tables, which runs each as many parallel tasks."""

    def start_section(
        self, order: RunBundle, work: JobWork, title: str, on_end: Callable[[SectionEnd], None]
    ) -> None:
        """Runs a section, or a bundle of a stage with a table, and calls ``on_end`` with the result on
        any thread.

        A placement without sections refuses each section, so its stages run separately on lanes.
        The runner passes tables only to a placement with `Placement.has_tables`.

        Args:
            order: a bundle with parts, or a bundle of a stage with a table.
            work: the job.
            title: title for the user.
            on_end: callback, called once.
        """

    def heard(self, message: FromWorker) -> bool:
        """Called with a message of a worker process; returns whether the message concerns only a
        running section.

        Thread-safe.
        """

    def section_tasks(self) -> TaskCounts:
        """Returns the combined progress of the job's sections and tables."""
