"""Encoding of a job's journal: entries, and the ledger's state as a snapshot.

A snapshot contains its layout (the names of its record types and their fields). The entries after
the snapshot have the same layout. A server that resumes a job of another version therefore starts
with a new snapshot.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

import attrs
from beam_runner_data.rows.refs import Segment
from beam_runner_engine.scheduler import state
from beam_runner_engine.scheduler.commands import Bundle, FailJob, FinishJob
from beam_runner_engine.scheduler.events import BundleFailed
from beam_runner_engine.scheduler.state import FORMAT
from beam_runner_model.bundles import MonitoringInfo
from beam_runner_planner import plan
from beam_runner_runtime.channel.attempts import FailedStep, LanePlace, LostProcess
from beam_runner_runtime.channel.messages import BundleReply, Entry
from beam_runner_runtime.forms import CONSTANTS, FORMS, REMOVED, SHARED
from beam_runner_storage.journal.codec import RecordFormatError, RecordLayout, RecordRegistry

from beam_runner_driver.ledger.quarantine import QuarantinedFile, QuarantineState, ReplayedUnits

_ENTRY = b"beam entry 1\n"
_SNAPSHOT = b"beam ledger 1\n"
_SIZE_BYTES = 4

JournalEntry: TypeAlias = Entry | ReplayedUnits
"""Entry of a job's journal: an entry of a bundle or of the scheduler, or the commit of a replay."""


@attrs.frozen
class Tally:
    """Counts for one stage: committed bundles, failed attempts, retries and interrupted attempts.

    An attempt that ended because an external system was unavailable counts as interrupted, not as
    failed.
    """

    committed: int = 0
    failed: int = 0
    retried: int = 0
    interrupted: int = 0


@attrs.frozen
class LedgerState:
    """Complete state of a ledger (a job's committed state), which the journal saves and a restarted
    server restores.

    Attributes:
        metrics: sum of all committed metrics.
        engine_format: version of the meaning of the scheduler's state.
        open: bundles that have started and aren't committed, by number.
        uses: number of remaining uses of each file.
        segments: state segments of each key shard, by stage and shard.
        garbage: unneeded files whose deletion hasn't been requested yet.
        end: end of the job; None while the job runs.
        last_failure: last failed attempt at a bundle.
        tallies: counts of bundles, by stage.
        quarantine: input units (elements, groups, timers) that went to quarantine, because they
            always fail.
    """

    plan: plan.JobPlan
    shards: int
    metrics: tuple[MonitoringInfo, ...]
    scheduler: state.SchedulerState
    engine_format: int
    open: dict[int, Bundle]
    uses: dict[str, int]
    segments: dict[tuple[str, int], tuple[Segment, ...]]
    garbage: list[str]
    end: FinishJob | FailJob | None
    last_failure: BundleFailed | None
    tallies: dict[str, Tally] = attrs.field(factory=dict)
    quarantine: QuarantineState = attrs.field(factory=QuarantineState)


_OWN: Mapping[str, type] = {
    "BundleReply": BundleReply,
    "LedgerState": LedgerState,
    "Tally": Tally,
    "FailedStep": FailedStep,
    "LostProcess": LostProcess,
    "LanePlace": LanePlace,
    "QuarantineState": QuarantineState,
    "QuarantinedFile": QuarantinedFile,
    "ReplayedUnits": ReplayedUnits,
}
REGISTRY = RecordRegistry({**_OWN, **FORMS}, SHARED, CONSTANTS, REMOVED)
"""Registry of all persisted types, under names that are stable across versions."""


def encode_entries(entries: Sequence[JournalEntry]) -> bytes:
    """Encodes journal entries that one atomic commit contains."""
    return b"".join((_ENTRY, REGISTRY.layout.digest, REGISTRY.encode(tuple(entries))))


def decode_entries(blob: bytes, layout: RecordLayout | None = None) -> tuple[JournalEntry, ...]:
    """Decodes the output of `encode_entries`. The default `layout` is the layout of this version.

    Raises:
        RecordFormatError: If the entries have another layout, or if this version can't read them.
    """
    layout = layout or REGISTRY.layout
    start = len(_ENTRY) + len(layout.digest)
    if blob[:start] != _ENTRY + layout.digest:
        raise RecordFormatError(
            "the layout of a journal entry differs from the layout of its snapshot"
        )
    entries: tuple[JournalEntry, ...] = REGISTRY.decode(blob[start:], layout)
    return entries


def encode_ledger(ledger: LedgerState) -> bytes:
    """Encodes the complete state of a ledger as a snapshot, with the version of the snapshot's
    layout.
    """
    layout = REGISTRY.layout.encoded
    size = len(layout).to_bytes(_SIZE_BYTES)
    return b"".join((_SNAPSHOT, size, layout, REGISTRY.encode(ledger)))


class DecodedJournal:
    """Decoder of one job's journal, which this version or an earlier version of the runner wrote.

    Args:
        snapshot: snapshot from `encode_ledger`.

    Raises:
        RecordFormatError: If this version can't read the snapshot.
    """

    def __init__(self, snapshot: bytes) -> None:
        if not snapshot.startswith(_SNAPSHOT):
            raise RecordFormatError("the snapshot has the format of another version")
        start = len(_SNAPSHOT) + _SIZE_BYTES
        end = start + int.from_bytes(snapshot[len(_SNAPSHOT) : start])
        self._layout = RecordLayout.decode_layout(snapshot[start:end])
        self.ledger: LedgerState = REGISTRY.decode(snapshot[end:], self._layout)
        if self.ledger.engine_format != FORMAT:
            raise RecordFormatError("the scheduler state has the format of another version")

    @property
    def is_of_this_version(self) -> bool:
        """Whether the layout equals the layout of this version, so that entries can be appended."""
        return self._layout == REGISTRY.layout

    def decode_entries(self, blob: bytes) -> tuple[JournalEntry, ...]:
        """Decodes the journal entries that follow the snapshot.

        Raises:
            RecordFormatError: If this version can't read the entries.
        """
        return decode_entries(blob, self._layout)
