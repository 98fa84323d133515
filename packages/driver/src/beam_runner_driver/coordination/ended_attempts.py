"""Updates of metrics and of orphan files after an attempt at a bundle has ended."""

from __future__ import annotations

import attrs
from beam_runner_engine.scheduler.events import BundleFailed, SectionRefused
from beam_runner_runtime.channel.attempts import Attempt
from beam_runner_runtime.channel.messages import BundleReply
from beam_runner_runtime.sections.running import SectionRunner

from beam_runner_driver.coordination.metrics import JobMetricsSum
from beam_runner_driver.ledger.journal_codec import JournalEntry
from beam_runner_driver.ledger.ledger import JobLedger
from beam_runner_driver.ledger.orphan_files import OrphanFiles


@attrs.frozen
class AttemptEndRecorder:
    """Receiver of the ended attempts at bundles of one job, which updates metrics and schedules the
    deletion of files.

    Attributes:
        metrics: sum of committed and attempted metrics.
        orphan_files: files of failed attempts, which are deleted later.
    """

    ledger: JobLedger
    metrics: JobMetricsSum
    sections: SectionRunner
    orphan_files: OrphanFiles

    def record_end(self, entry: JournalEntry) -> None:
        """Updates metrics and orphan files if an entry reports the end of an attempt. Call this
        method before the ledger applies the entry.
        """
        if isinstance(entry, BundleReply):
            if self.ledger.is_open(entry.attempt):
                self.metrics.record_commit(entry.attempt, entry.metrics)
            if self.sections.record_commit(entry.attempt):
                self.orphan_files.schedule_section_files(entry.attempt)
        elif isinstance(entry, BundleFailed | SectionRefused):
            attempt = Attempt(entry.bundle, entry.attempt)
            self.orphan_files.schedule_attempt_files(attempt)
            self.metrics.record_failure(attempt)
