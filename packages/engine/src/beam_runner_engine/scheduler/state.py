"""State of the scheduler: the mutable records that all modules of this package change.

This module contains no decisions. All containers preserve insertion order, so that the same events
produce the same commands. All records can be pickled.
"""

from __future__ import annotations

import enum
from collections import OrderedDict
from typing import Any

import attrs
from beam_runner_model.summary import EMPTY_SUMMARY, ShardSummary
from beam_runner_model.times import MIN_TIMESTAMP, Timestamp
from beam_runner_model.windows import Window

from beam_runner_engine.scheduler.commands import Bundle, Command, SplitBundle
from beam_runner_engine.scheduler.data import Data
from beam_runner_engine.scheduler.events import BundleFailed, Progress
from beam_runner_engine.scheduler.graph import CollectionNode, Graph, Section
from beam_runner_engine.scheduler.minima import KeyedMinimum, TimeMultiset
from beam_runner_engine.scheduler.policy import DefaultSectionPolicy, SectionPolicy, SplittingPolicy
from beam_runner_engine.scheduler.specs import Limits, SideInputSpec, StageSpec
from beam_runner_engine.scheduler.transitions import BundleState, Phase

FORMAT = 1
"""Version of the state; must increase if the meaning changes while the fields stay the same."""

Need = tuple[int, Window | None]
"""Side-input window that work needs: the index of the side input in the stage's spec, and the
window. None means the complete side input.
"""

ClockKey = tuple[int, int, int]
"""Key of a wake-up in processing time: a stage, a kind (`SHARD`, `RESIDUAL`, `BUNDLE` or `RETRY`),
and the number of the shard, work or bundle.
"""

SHARD = 0
RESIDUAL = 1
BUNDLE = 2
RETRY = 3


@attrs.define(eq=False)
class Piece:
    """Data that the scheduler must retain while work or side inputs use it, with a reference
    count.
    """

    data: Data
    uses: int
    origins: tuple[int, ...]
    """Numbers of the data items whose storage this data can share, because this data was split off
    them.
    """


@attrs.define(eq=False)
class Work:
    """Pending or running work of a stage."""

    number: int
    piece: int
    data: Data
    windows: frozenset[Window] | None
    needs: tuple[Need, ...] = ()
    """Side-input windows that the work reads."""
    watermark: Timestamp | None = None
    """Output watermark (ms) that the watermark estimator reported, for residuals."""
    estimator_state: Any = None
    residual: bool = False
    truncated: bool = False
    """Whether no drain truncates the restriction, see `Input.whole`."""

    @property
    def input_hold_time(self) -> Timestamp:
        """Event time (ms) at which the work holds back the stage's input watermark."""
        return self.data.facts.min_timestamp

    @property
    def output_hold_time(self) -> Timestamp:
        """Event time (ms) at which the work holds back the stage's output watermark."""
        return self.input_hold_time if self.watermark is None else self.watermark


@attrs.define(eq=False)
class ShardState:
    """State of a key shard. A stage without keys has a single shard with the key None."""

    ready: OrderedDict[int, list[Work]] = attrs.field(factory=OrderedDict)
    """Work that a bundle can take, by piece of data."""
    blocked: TimeMultiset = attrs.field(factory=TimeMultiset)
    """Times of the work that waits for side inputs."""
    open: int = 0
    summary: ShardSummary = EMPTY_SUMMARY
    watermark: Timestamp = MIN_TIMESTAMP
    """`end_watermark` of the latest bundle."""


@attrs.define(eq=False)
class SideInputView:
    """Content of a side-input window as bundles read it, until the window changes."""

    pieces: tuple[int, ...]
    data: tuple[Data, ...]
    uses: int = 0
    """Number of open bundles that read the view."""
    current: bool = True
    updating: bool = False
    """Whether the side input can be updated after it first became readable."""


@attrs.define(eq=False)
class SideInputState:
    """State of a side input of a stage: its windows, their data and the work that waits for them."""

    spec: SideInputSpec
    pieces: dict[Window, list[int]] = attrs.field(factory=dict)
    views: dict[Window, SideInputView] = attrs.field(factory=dict)
    """Latest view of each window; removed when the window changes."""
    waiting: dict[Window | None, list[tuple[int | None, Work]]] = attrs.field(factory=dict)
    """Work (with its shard) that waits for a window; None means the complete side input."""
    ends: list[tuple[Timestamp, bytes, Window]] = attrs.field(factory=list)
    """Heap of the windows in `waiting`, by last timestamp."""
    expiries: list[tuple[Timestamp, bytes, Window]] = attrs.field(factory=list)
    """Heap of the windows in `pieces`, by the last time at which a bundle can need the window."""


@attrs.define(eq=False)
class StageState:
    """State of a stage: watermarks (ms), work and shards."""

    number: int
    spec: StageSpec
    upstream: KeyedMinimum[str]
    """Watermarks of the input collections."""
    sides: list[SideInputState]
    seen_upstream: Timestamp = MIN_TIMESTAMP
    input: Timestamp = MIN_TIMESTAMP
    output: Timestamp = MIN_TIMESTAMP
    times: TimeMultiset = attrs.field(factory=TimeMultiset)
    """Event times of all pending and running work, which hold back the input watermark."""
    holds: TimeMultiset = attrs.field(factory=TimeMultiset)
    """Holds of the output watermark, from the work and from the shards."""
    shards: dict[int | None, ShardState] = attrs.field(factory=dict)
    candidates: dict[int | None, None] = attrs.field(factory=dict)
    """Key shards for which new bundles may be opened; checked at the end of each event."""
    event_wakes: KeyedMinimum[int] = attrs.field(factory=KeyedMinimum)
    """Wake-up times of the shards in event time."""
    delayed: dict[int, Work] = attrs.field(factory=dict)
    """Residuals that wait for a processing time, by number."""
    work: int = 0
    """Number of all pieces of work."""
    running: int = 0
    """Number of pieces of work in bundles."""
    blocked: int = 0
    """Number of pieces of work that wait for side inputs."""
    waiting_bytes: int = 0
    """Size in bytes of the work that is not in a bundle."""
    open: int = 0
    """Number of open bundles."""
    waking: int = 0
    """Number of shards with a pending timer, trigger or expiry."""
    throttled: bool = False
    """Whether residuals wait for a consumer to catch up."""
    complete: bool = False
    section: int | None = None
    """Number of the section that contains the stage, if any."""
    paused: int = 0
    """Number of open bundles that wait for their next attempt."""


class SectionPhase(enum.Enum):
    """Phase of a section (several stages that run as one bundle)."""

    WAITING = "waiting"
    """The section waits for its complete input; its stages open no bundles."""
    OPEN = "open"
    """The bundle of the section is open."""
    DONE = "done"
    APART = "apart"
    """The stages run in separate bundles. This decision is final."""


@attrs.define(eq=False)
class SectionState:
    """Section (stages that run in one bundle), and the current phase of the section."""

    node: Section
    phase: SectionPhase = SectionPhase.WAITING


@attrs.define(eq=False)
class CollectionState:
    """Collection and its watermark (ms), the minimum over its producers."""

    node: CollectionNode
    producers: KeyedMinimum[int]
    watermark: Timestamp = MIN_TIMESTAMP


@attrs.define(eq=False)
class SectionStageRecord:
    """Work and side inputs of one stage in the open bundle of the stage's section (stages that run
    as one bundle).
    """

    stage: int
    work: list[Work]
    views: list[SideInputView]


@attrs.define(eq=False)
class FailureRecord:
    """Counts of failed attempts at a bundle.

    `user` and `outside` count failures by kind; a permanent failure counts as outside. `outages`
    counts consecutive failures because of an unavailable external system, the first at
    `outage_since` (processing time, ms). `last` is the latest failure, and `user_detail` is the
    caller's record about the latest failure in user code.
    """

    user: int = 0
    outside: int = 0
    outages: int = 0
    outage_since: Timestamp | None = None
    last: BundleFailed | None = None
    user_detail: Any = None

    @property
    def attempts(self) -> int:
        """Number of failed attempts, without failures during outages."""
        return self.user + self.outside


@attrs.define(eq=False)
class BundleRecord:
    """Open bundle with the history of its attempts."""

    bundle: Bundle
    stage: int
    work: list[Work]
    views: list[SideInputView]
    truncated: bool
    """Whether the restrictions of the latest attempt were truncated, or no drain truncates any of
    its work.
    """
    split: SplitBundle | None = None
    """Pending split request."""
    progress: Progress | None = None
    stalled: int = 0
    """Number of consecutive progress reports without progress."""
    user_failures: list[str] = attrs.field(factory=list)
    """Causes of the latest failures in user code."""
    outside_failures: list[str] = attrs.field(factory=list)
    """Causes of the latest failures that aren't outages."""
    section: int | None = None
    """Number of the section, if the bundle belongs to a section."""
    parts: list[SectionStageRecord] = attrs.field(factory=list)
    """Parts of the section's stages."""
    failures: FailureRecord = attrs.field(factory=FailureRecord)
    due: Timestamp | None = None
    """Processing time (ms) at which the pause before the latest attempt ends; None while the
    attempt runs.
    """

    @property
    def state(self) -> BundleState:
        """State of the bundle's latest attempt."""
        if self.due is not None:
            return BundleState.PAUSED
        return BundleState.RUNNING if self.split is None else BundleState.SPLITTING


@attrs.define(eq=False)
class TestStreamState:
    """Progress of a TestStream: the index of its next step."""

    next_step: int = 0
    ended: bool = False


@attrs.define(eq=False)
class SchedulerState:
    """Complete state of the scheduler. Only `Scheduler.handle_event` starts changes."""

    graph: Graph
    limits: Limits
    policy: SplittingPolicy
    numbers: dict[str, int]
    """Number of each stage, by name."""
    stages: list[StageState]
    collections: dict[str, CollectionState]
    scripts: list[TestStreamState]
    scripted_clock: bool
    section_policy: SectionPolicy = attrs.field(factory=DefaultSectionPolicy)
    sections: list[SectionState] = attrs.field(factory=list)
    phase: Phase = Phase.NEW
    now: Timestamp = 0
    script_turn: int = 0
    pieces: dict[int, Piece] = attrs.field(factory=dict)
    bundles: dict[int, BundleRecord] = attrs.field(factory=dict)
    next_piece: int = 0
    next_work: int = 0
    next_bundle: int = 0
    incomplete: int = 0
    """Number of stages that are not complete."""
    clock_wakes: KeyedMinimum[ClockKey] = attrs.field(factory=KeyedMinimum)
    """Wake-up times in processing time, of shards, residuals, checkpoint requests and retries."""
    wake_told: Timestamp | None = None
    """Time of the latest `RequestTick` command."""
    stale: list[int] = attrs.field(factory=list)
    """Heap of the stages whose watermarks must be recomputed; empty between events."""
    touched: dict[int, None] = attrs.field(factory=dict)
    """Stages that can have new bundles or be complete; empty between events."""
    commands: list[Command] = attrs.field(factory=list)
    """Commands for the current event; empty between events."""
    released: list[Data] = attrs.field(factory=list)
    """Data that the current event released; empty between events."""
    paused: int = 0
    """Number of open bundles that wait for their next attempt."""
    held: tuple[int, ...] = ()
    """Numbers of the stages that open no bundles because of a `Hold`."""

    @property
    def running(self) -> bool:
        """Whether the job has started and not ended."""
        return self.phase in (Phase.RUNNING, Phase.DRAINING)


def create_state(
    graph: Graph,
    limits: Limits,
    policy: SplittingPolicy,
    section_policy: SectionPolicy,
    sections: tuple[Section, ...],
) -> SchedulerState:
    """Returns the state of a job that has not started."""
    section_of = {
        stage: number for number, section in enumerate(sections) for stage in section.stages
    }
    stages = [
        StageState(
            number=number,
            spec=spec,
            upstream=_create_minimum(spec.inputs),
            sides=[SideInputState(side) for side in spec.side_inputs],
            section=section_of.get(number),
        )
        for number, spec in enumerate(graph.stages)
    ]
    collections = {
        name: CollectionState(node, _create_minimum(node.producers))
        for name, node in graph.collections.items()
    }
    return SchedulerState(
        graph=graph,
        limits=limits,
        policy=policy,
        numbers={stage.spec.name: stage.number for stage in stages},
        stages=stages,
        collections=collections,
        scripts=[TestStreamState() for _ in graph.test_streams],
        scripted_clock=graph.scripted_clock,
        section_policy=section_policy,
        sections=[SectionState(section) for section in sections],
        incomplete=len(stages),
    )


def _create_minimum(keys: tuple[Any, ...]) -> KeyedMinimum[Any]:
    minimum: KeyedMinimum[Any] = KeyedMinimum()
    for key in keys:
        minimum.set_time(key, MIN_TIMESTAMP)
    return minimum
