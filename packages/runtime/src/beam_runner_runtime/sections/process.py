"""Adapter: a worker process runs the bundles of section tasks."""

from __future__ import annotations

import time
from functools import cache

from beam_runner_worker.log_records import LogRecord, Severity

from beam_runner_runtime.bundles.bundle_data import BundleData
from beam_runner_runtime.bundles.keyed import KeyedStoreProvider
from beam_runner_runtime.bundles.process import WorkerProcess
from beam_runner_runtime.channel.attempts import BundleFailure, SectionRefusal
from beam_runner_runtime.channel.messages import BundleReply, RunBundle
from beam_runner_runtime.sections.progress import SectionProgress


class SectionProcess:
    """Runs bundles of section tasks (Spark tasks of a section) in a worker process
    (`beam_runner_runtime.sections.ports.TaskHost`).

    Args:
        process: the worker process; its progress reports include all bundles of a section from now
            on.
    """

    def __init__(self, process: WorkerProcess) -> None:
        self._process = process
        self._progress = SectionProgress(process.channel.send)
        process.progress = self._progress.read_progress
        self.work = process.work
        self.data = process.data
        self.scratch = process.scratch
        self.clock = process.clock

    def run_bundle(
        self, order: RunBundle, stores: KeyedStoreProvider, data: BundleData
    ) -> BundleReply | BundleFailure:
        """Runs a bundle in this thread, and persists the files that the reply names."""
        return self._progress.record_bundle_end(
            self._process.run_section_bundle(order, stores, data)
        )

    def report_end(self, end: BundleFailure | SectionRefusal) -> None:
        """Reports to the server that a section must end, so that the server needn't wait for Spark's report."""
        self._process.channel.send(end)

    def log_warning(self, text: str) -> None:
        """Logs a warning about a section (Spark job) for the user."""
        record = LogRecord(Severity.WARN, int(time.time() * 1000), text)
        self._process.stages.log_records((record,))


@cache
def get_section_process(process: WorkerProcess) -> SectionProcess:
    """Returns the object that runs bundles of sections (Spark jobs) in a worker process. All tasks
    in one worker process share this object and its progress totals.
    """
    return SectionProcess(process)
