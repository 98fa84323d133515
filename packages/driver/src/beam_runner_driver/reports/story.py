"""History of one bundle (commands, attempts, commit), reconstructed from the job's journal."""

from __future__ import annotations

from typing import Any

import attrs
from beam_runner_data.rows.refs import FileRows, Segment
from beam_runner_engine.scheduler.commands import (
    Bundle,
    CancelBundles,
    Command,
    OpenBundles,
    SectionStageInput,
)
from beam_runner_engine.scheduler.data import Data
from beam_runner_engine.scheduler.events import BundleFailed, SectionRefused, SplitDone
from beam_runner_model.stories import (
    BundleHistory,
    BundleStatus,
    DataPiece,
    HistoryEvent,
    HistoryEventKind,
)
from beam_runner_model.times import MAX_TIMESTAMP
from beam_runner_runtime.channel.attempts import FailedStep, LanePlace, LostProcess
from beam_runner_runtime.channel.messages import BundleReply
from beam_runner_runtime.sections.plan import list_stage_ids
from beam_runner_storage.journal.journal import Journal

from beam_runner_driver.ledger.journal_codec import DecodedJournal, JournalEntry
from beam_runner_driver.ledger.ledger import JobLedger
from beam_runner_driver.reports.failure_reports import describe_failure

_ENDS = {
    HistoryEventKind.COMMITTED: BundleStatus.COMMITTED,
    HistoryEventKind.CANCELLED: BundleStatus.CANCELLED,
    HistoryEventKind.REFUSED: BundleStatus.REFUSED,
}


def reconstruct_bundle_history(journal: Journal, bundle: int) -> BundleHistory:
    """Returns the complete history of a bundle in a journal. Reads the complete journal into
    memory.

    Any thread can call this function, even while the job appends to the journal.

    Args:
        journal: journal of the job.
        bundle: number of the bundle.

    Raises:
        JournalError: If the journal can't be read.
        RecordFormatError: If another version wrote the journal, and this version can't read it.
    """
    recovered = journal.read_committed_data()
    if recovered.snapshot is None:
        return BundleHistory(bundle, BundleStatus.NO_JOURNAL)
    kept = DecodedJournal(recovered.snapshot)
    teller = _HistoryReplay(JobLedger.from_state(kept.ledger), bundle, recovered.first)
    for number, blob in enumerate(recovered.entries, recovered.first):
        for entry in kept.decode_entries(blob):
            teller.apply_journal_entry(number, entry)
    return teller.make_history()


class _HistoryReplay:
    """Replay of journal entries that collects the events of one bundle."""

    def __init__(self, ledger: JobLedger, number: int, first: int) -> None:
        self._ledger = ledger
        self._number = number
        self._first = first
        self._known_before = ledger.next_bundle
        self._steps: list[HistoryEvent] = []
        paused = (retry.bundle for retry in ledger.list_retried_bundles())
        found = (one for one in (*ledger.open_bundles, *paused) if one.number == number)
        self._bundle: Bundle | None = next(found, None)
        if self._bundle is not None:
            self._add_step_event(
                HistoryEventKind.SNAPSHOT, first, self._bundle.attempt, reads=self._list_read_data()
            )

    def apply_journal_entry(self, entry: int, event: JournalEntry) -> None:
        """Applies a journal entry to the ledger (the job's committed state), and records the
        entry's effect on the bundle.
        """
        before = self._bundle
        counts = before is not None and self._is_current_attempt(event)
        commands = self._ledger.apply_journal_entry(event)
        if counts:
            self._add_event(entry, event)
        for command in commands:
            self._add_command(entry, command)

    def make_history(self) -> BundleHistory:
        """Returns the history of the bundle."""
        bundle, ledger = self._bundle, self._ledger
        if bundle is None:
            is_old = 0 <= self._number < self._known_before
            status = BundleStatus.COMPACTED if is_old else BundleStatus.UNKNOWN
            return BundleHistory(
                self._number, status, first_entry=self._first, next_bundle=ledger.next_bundle
            )
        names = [ledger.plan.stages[stage].spec.name for stage in list_stage_ids(bundle)]
        return BundleHistory(
            self._number,
            _ENDS.get(self._steps[-1].kind, BundleStatus.OPEN),
            bundle.stage,
            tuple(step for name in names for step in name.split(" + ")),
            bundle.shard,
            tuple(self._steps),
            self._first,
            ledger.next_bundle,
        )

    def _is_current_attempt(self, event: JournalEntry) -> bool:
        """Returns whether an event belongs to the current attempt at the bundle."""
        match event:
            case BundleReply():
                return event.attempt.bundle == self._number and self._ledger.is_open(event.attempt)
            case BundleFailed() | SectionRefused() | SplitDone():
                bundle = self._bundle
                assert bundle is not None
                return (event.bundle, event.attempt) == (self._number, bundle.attempt)
        return False

    def _add_event(self, entry: int, event: JournalEntry) -> None:
        match event:
            case BundleReply(done, state):
                written = [_describe_data(one.collection, one.data) for one in done.outputs]
                written += [_describe_data("residual", one.data) for one in done.residuals]
                if state is not None:
                    written += map(_describe_segment, state.segments)
                self._add_step_event(
                    HistoryEventKind.COMMITTED,
                    entry,
                    done.attempt,
                    place=event.place,
                    writes=tuple(written),
                )
            case BundleFailed(attempt=attempt, detail=detail):
                place = detail.place if isinstance(detail, FailedStep) else None
                failure = describe_failure(event, attempts=attempt, stage=self._stage)
                process = detail if isinstance(detail, LostProcess) else None
                self._add_step_event(
                    HistoryEventKind.FAILED,
                    entry,
                    attempt,
                    place=place,
                    failure=failure,
                    process=process,
                )
            case SectionRefused(attempt=attempt, reason=reason):
                self._add_step_event(HistoryEventKind.REFUSED, entry, attempt, reason=reason)
            case SplitDone(attempt=attempt, residuals=residuals) if residuals:
                given = tuple(_describe_data("residual", one.data) for one in residuals)
                self._add_step_event(HistoryEventKind.SPLIT, entry, attempt, writes=given)

    @property
    def _stage(self) -> str:
        return "" if self._bundle is None else self._bundle.stage

    def _add_command(self, entry: int, command: Command) -> None:
        match command:
            case OpenBundles(_, bundles):
                for bundle in bundles:
                    if bundle.number == self._number:
                        self._bundle = bundle
                        kind = (
                            HistoryEventKind.PLANNED
                            if bundle.attempt == 1
                            else HistoryEventKind.RETRIED
                        )
                        self._add_step_event(
                            kind, entry, bundle.attempt, reads=self._list_read_data()
                        )
            case CancelBundles(bundles):
                for number, attempt in bundles:
                    if number == self._number:
                        self._add_step_event(HistoryEventKind.CANCELLED, entry, attempt)

    def _add_step_event(
        self,
        kind: HistoryEventKind,
        entry: int,
        attempt: int,
        *,
        place: LanePlace | None = None,
        process: LostProcess | None = None,
        **more: Any,
    ) -> None:
        step = HistoryEvent(kind, entry, attempt, self._ledger.processing_time)
        if place is not None:
            step = attrs.evolve(step, lane=place.lane, host=place.host, pid=place.pid)
        elif process is not None:
            step = attrs.evolve(step, host=process.host, pid=process.pid)
        self._steps.append(attrs.evolve(step, **more))

    def _list_read_data(self) -> tuple[DataPiece, ...]:
        bundle = self._bundle
        assert bundle is not None
        found: list[DataPiece] = []
        parts: tuple[Bundle | SectionStageInput, ...] = (bundle, *bundle.parts)
        for part in parts:
            found += [_describe_data("input", one.data) for one in part.inputs]
            found += [
                _describe_data(side.name, data) for side in part.side_inputs for data in side.data
            ]
        found += map(_describe_segment, self._ledger.list_state_segments(bundle))
        return tuple(found)


def _describe_data(name: str, data: Data) -> DataPiece:
    facts, ref = data.facts, data.ref
    earliest = None if facts.min_timestamp >= MAX_TIMESTAMP else facts.min_timestamp
    file = ref.path if isinstance(ref, FileRows) else ""
    return DataPiece(name, file, facts.count, facts.size, earliest)


def _describe_segment(segment: Segment) -> DataPiece:
    return DataPiece("state", segment.path, bytes=segment.size)
