"""State of a job with which other graphs can continue: plain records, in which identities name stages
and collections.

A running scheduler numbers and names its stages differently in each graph. An identity stands for
the same stage or collection in all graphs. The records contain no graph, policy, limit or bundle,
so the format stays the same when the scheduler changes. Savepoints store this form, so names of
classes and attributes must not change.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs
from beam_runner_model.summary import EMPTY_SUMMARY, ShardSummary
from beam_runner_model.times import Timestamp
from beam_runner_model.windows import Window

from beam_runner_engine.scheduler.data import Data
from beam_runner_engine.scheduler.specs import StageKind


@attrs.frozen
class Identities:
    """Identities of the stages, collections and side inputs of a graph, by their names in the graph.

    In a capture, all stages need identities, and all collections except roots. In a transfer, the
    identities are those of the captured graph, and everything without an identity is new.

    Attributes:
        stages: the identity of each stage.
        collections: the identity of each collection.
        side_inputs: for a transfer, the identity of the stage and the name that each side input had
            in the captured graph, by the names of its stage and of the side input.
    """

    stages: Mapping[str, str]
    collections: Mapping[str, str]
    side_inputs: Mapping[tuple[str, str], tuple[str, str]] = attrs.field(factory=dict)


@attrs.frozen
class SavedDataPiece:
    """Data in a saved state, which pending work or side inputs use. `origins` are the indexes of
    the pieces that the data was split off, because their storage can be shared.
    """

    data: Data
    origins: tuple[int, ...] = ()


@attrs.frozen
class SavedWork:
    """Unfinished work of a stage in a saved state.

    Attributes:
        piece: the index of the piece with the data.
        windows: the windows to process; None for all windows of the data.
        watermark: the output watermark (ms) that the watermark estimator of a residual reported.
        estimator_state: the state of the watermark estimator.
        residual: whether the work is a residual.
        truncated: whether no drain truncates the restriction.
        due: the processing time (ms) at which a delayed residual resumes; None without a delay.
    """

    piece: int
    windows: frozenset[Window] | None = None
    watermark: Timestamp | None = None
    estimator_state: Any = None
    residual: bool = False
    truncated: bool = False
    due: Timestamp | None = None


@attrs.frozen
class SavedShard:
    """Key shard in a saved state: its latest committed summary, and the watermark (ms) of its latest bundle."""

    shard: int
    summary: ShardSummary
    watermark: Timestamp


@attrs.frozen
class SavedWindow:
    """Window of a side input in a saved state, with the indexes of the pieces of data in the window."""

    window: Window
    pieces: tuple[int, ...]


@attrs.frozen
class SavedSideInput:
    """Side input of a stage in a saved state: its name, the collection's identity, and the windows with data."""

    name: str
    collection: str
    windows: tuple[SavedWindow, ...]


@attrs.frozen
class SavedStage:
    """Stage in a saved state, with its work and key shards.

    Attributes:
        kind: the kind of the stage's input.
        splittable: whether the stage can return residuals.
        upstream: the watermark (ms) of the input collections.
        input: the input watermark (ms).
        output: the output watermark (ms).
        work: the unfinished work in the order of its creation, including the work of open bundles.
    """

    identity: str
    kind: StageKind
    splittable: bool
    upstream: Timestamp
    input: Timestamp
    output: Timestamp
    shards: tuple[SavedShard, ...] = ()
    work: tuple[SavedWork, ...] = ()
    side_inputs: tuple[SavedSideInput, ...] = ()

    @property
    def waiting_shards(self) -> tuple[SavedShard, ...]:
        """Key shards with a pending timer, trigger or expiry, or with a watermark hold."""
        return tuple(shard for shard in self.shards if shard.summary != EMPTY_SUMMARY)


@attrs.frozen
class SavedCollection:
    """Collection in a saved state, and its watermark (ms)."""

    identity: str
    watermark: Timestamp


@attrs.frozen
class SavedJobState:
    """Complete state of a job, from which `transfer_job_state` creates a scheduler of another graph.

    Attributes:
        now: the processing time (ms).
        next_bundle: the number of the next bundle. Numbers continue, because callers name files after
            them.
        pieces: all data that work, side inputs or other data items use.
        stages: the stages.
        collections: the collections.
    """

    now: Timestamp
    next_bundle: int
    pieces: tuple[SavedDataPiece, ...]
    stages: tuple[SavedStage, ...]
    collections: tuple[SavedCollection, ...]
