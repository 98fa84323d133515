"""Warnings about steps that read files and emitted no elements. Without a warning, such a job is
DONE, and the user doesn't notice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from beam_runner_jobservices.ports import JobReporter
from beam_runner_model.jobs import Importance, JobMetrics, JobState, MessageLine, MessageRecord
from beam_runner_model.successions import Succession
from beam_runner_model.texts import truncate_text
from beam_runner_planner.file_steps import FileStep
from beam_runner_urns import metrics as metric_urns

_LONGEST = 500
_ZERO = b"\x00"


class EmptyReadsReporter:
    """Reporter that, before a job becomes DONE, adds a warning for each step that read files and
    emitted no elements.

    Implements `JobReporter`.

    Args:
        reporter: the reporter that receives all reports.
        reads: the steps to check.
        metrics: function that returns the metrics of the job.
        folder: the working directory of the workers.
    """

    def __init__(
        self,
        reporter: JobReporter,
        reads: Sequence[FileStep],
        metrics: Callable[[], JobMetrics],
        folder: str,
    ) -> None:
        self._reporter = reporter
        self._reads = reads
        self._metrics = metrics
        self._folder = folder

    def report_state(
        self, state: JobState, reason: str | None = None, record: MessageRecord = None
    ) -> bool:
        if state is JobState.DONE and self._reads:
            for text in describe_empty_reads(self._reads, self._metrics(), self._folder):
                self._reporter.report_message(Importance.WARNING, text)
        return self._reporter.report_state(state, reason, record)

    def report_message(
        self,
        importance: Importance,
        text: str,
        transform: str | None = None,
        record: MessageRecord = None,
    ) -> None:
        self._reporter.report_message(importance, text, transform, record)

    def record_succession(self, change: Succession) -> None:
        self._reporter.record_succession(change)

    def report_messages(self, lines: Iterable[MessageLine]) -> None:
        self._reporter.report_messages(lines)


def describe_empty_reads(reads: Iterable[FileStep], metrics: JobMetrics, folder: str) -> list[str]:
    """Returns a warning for each step that read files and emitted no elements."""
    counted = {
        info.labels.get(metric_urns.LABEL_PCOLLECTION)
        for info in metrics.committed
        if info.urn == metric_urns.ELEMENT_COUNT and info.payload != _ZERO
    }
    return [
        _describe_empty_read(read, folder)
        for read in reads
        if read.inputs & counted and not read.outputs & counted
    ]


def _describe_empty_read(read: FileStep, folder: str) -> str:
    if not read.pattern:
        return f"The step '{read.name}' matched no files, or only empty files"
    text = (
        f"The step '{read.name}' read nothing: '{truncate_text(read.pattern, _LONGEST)}' matches no"
        " files, or only empty files"
    )
    if not read.is_relative or read.elsewhere:
        return text
    return f"{text}. The path is relative to the working directory of the workers, {folder}"
