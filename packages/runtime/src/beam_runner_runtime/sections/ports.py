"""Interfaces that a section (stages that run as one Spark job) needs from the server and its worker
processes.

The interfaces are the process that runs a task's bundles, the placement that runs the tasks, and
the slots for these tasks.
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
    """Worker process that runs the bundles of one Spark task of a section."""

    @property
    def work(self) -> JobWork:
        """Plan and settings of the job."""

    @property
    def data(self) -> FolderData:
        """Reader and writer of the job's files (not of data from other tasks of the section)."""

    @property
    def scratch(self) -> Path:
        """Folder on this machine for temporary files of this process."""

    @property
    def clock(self) -> ProcessingClock:
        """Processing-time clock of the job."""

    def run_bundle(
        self, order: RunBundle, stores: KeyedStoreProvider, data: BundleData
    ) -> BundleReply | BundleFailure:
        """Runs a bundle in the calling thread, and returns the bundle's reply. Never raises for a
        failure of the bundle.
        """

    def report_end(self, end: BundleFailure | SectionRefusal) -> None:
        """Reports to the server that the section must end, because a bundle failed or the section was refused."""

    def log_warning(self, text: str) -> None:
        """Logs a warning about the section (Spark job) for the user."""


class SlotCounter(Protocol):
    """Counter of the cluster slots that one job has requested and uses."""

    def record_requested_slot(self, lane: int) -> None:
        """Counts a requested slot."""

    def record_received_slot(self, lane: int) -> None:
        """Counts a slot as taken."""

    def count_released_slot(self, lane: int) -> None:
        """Counts a slot as free."""


class SectionHost(Protocol):
    """System that runs sections, and bundles that read or write Spark tables, as many parallel
    Spark tasks.
    """

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

    def handle_section_message(self, message: FromWorker) -> bool:
        """Handles a message from a worker process if the message is about a running section (Spark
        job). Returns whether it was.

        Thread-safe.
        """

    def count_section_tasks(self) -> TaskCounts:
        """Returns the combined progress of all Spark jobs that run sections of this job, or read or
        write tables.
        """
