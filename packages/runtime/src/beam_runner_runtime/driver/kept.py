"""What a job's journal keeps, as bytes: entries, and the ledger's state as a snapshot.

A snapshot tells its layout, and the entries after it have the same: a server that goes on with a job of
another version's begins with a snapshot of its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import attrs
from beam_runner_data.rows.refs import Segment
from beam_runner_engine.scheduler import state
from beam_runner_engine.scheduler.commands import Bundle, FailJob, FinishJob
from beam_runner_engine.scheduler.events import BundleFailed
from beam_runner_engine.scheduler.state import FORMAT
from beam_runner_model.bundles import MonitoringInfo
from beam_runner_planner import plan
from beam_runner_storage.journal.codec import FormError, Layout, Registry

from beam_runner_runtime.channel.attempts import FailedStep, LanePlace, LostProcess
from beam_runner_runtime.channel.messages import BundleReply, Entry
from beam_runner_runtime.forms import CONSTANTS, FORMS, REMOVED, SHARED

_ENTRY = b"beam entry 1\n"
_SNAPSHOT = b"beam ledger 1\n"
_SIZE_BYTES = 4


@attrs.frozen
class Tally:
    """How many bundles of a stage were committed, how many attempts at them failed, and how often one
    was given out again. An attempt that found a neighbour unavailable isn't counted as failed, but as
    interrupted.
    """

    committed: int = 0
    failed: int = 0
    retried: int = 0
    interrupted: int = 0


@attrs.frozen
class LedgerState:
    """All of a ledger.

    Attributes:
        plan: the job's.
        shards: how many key shards there are.
        metrics: of everything committed.
        scheduler: the engine's state.
        engine_format: what the engine means by it.
        open: the bundles that are awaited.
        uses: how often each file is still needed.
        segments: the state of each key shard, by stage and shard.
        garbage: files that nobody needs, and nobody was told of.
        end: how the job ended, once it has.
        last_failure: the last attempt at a bundle that failed.
        tallies: by stage, how many bundles came to what.
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


_OWN: Mapping[str, type] = {
    "BundleReply": BundleReply,
    "LedgerState": LedgerState,
    "Tally": Tally,
    "FailedStep": FailedStep,
    "LostProcess": LostProcess,
    "LanePlace": LanePlace,
}
REGISTRY = Registry({**_OWN, **FORMS}, SHARED, CONSTANTS, REMOVED)
"""Everything that can be kept, under the names by which other versions find it."""


def encode_entries(entries: Sequence[Entry]) -> bytes:
    """What happened together, as bytes."""
    return b"".join((_ENTRY, REGISTRY.layout.digest, REGISTRY.encode(tuple(entries))))


def entries_of(blob: bytes, layout: Layout | None = None) -> tuple[Entry, ...]:
    """What `encode_entries` gave, by this version if no other layout is named.

    Raises:
        FormError: it has another layout, or can't be read by this version.
    """
    layout = layout or REGISTRY.layout
    start = len(_ENTRY) + len(layout.digest)
    if blob[:start] != _ENTRY + layout.digest:
        raise FormError("an entry has another layout than its snapshot tells")
    entries: tuple[Entry, ...] = REGISTRY.decode(blob[start:], layout)
    return entries


def encode_ledger(ledger: LedgerState) -> bytes:
    """A whole ledger, as bytes."""
    layout = REGISTRY.layout.encoded
    size = len(layout).to_bytes(_SIZE_BYTES)
    return b"".join((_SNAPSHOT, size, layout, REGISTRY.encode(ledger)))


class Kept:
    """What was kept of a job, by this version or another.

    Args:
        snapshot: what `encode_ledger` gave.

    Raises:
        FormError: it can't be read by this version.
    """

    def __init__(self, snapshot: bytes) -> None:
        if not snapshot.startswith(_SNAPSHOT):
            raise FormError("it is in the form of another version")
        start = len(_SNAPSHOT) + _SIZE_BYTES
        end = start + int.from_bytes(snapshot[len(_SNAPSHOT) : start])
        self._layout = Layout.decoded(snapshot[start:end])
        self.ledger: LedgerState = REGISTRY.decode(snapshot[end:], self._layout)
        if self.ledger.engine_format != FORMAT:
            raise FormError("its scheduler means something else by the same words")

    @property
    def is_of_this_version(self) -> bool:
        """Whether entries can be added to it."""
        return self._layout == REGISTRY.layout

    def entries(self, blob: bytes) -> tuple[Entry, ...]:
        """What `encode_entries` gave after that snapshot.

        Raises:
            FormError: it can't be read by this version.
        """
        return entries_of(blob, self._layout)
