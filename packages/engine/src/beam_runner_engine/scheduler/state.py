"""Everything the scheduler knows: the mutable records that the other files of this folder work on.

Nothing here decides. All containers keep the order things were put in, so that the same events
always give the same commands, and everything can be pickled.
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
from beam_runner_engine.scheduler.minima import CountedTimes, KeyedMinimum
from beam_runner_engine.scheduler.policy import DefaultSectionPolicy, SectionPolicy, SplittingPolicy
from beam_runner_engine.scheduler.specs import Limits, SideInputSpec, StageSpec
from beam_runner_engine.scheduler.transitions import BundleState, Phase

FORMAT = 1
"""Goes up when the meaning of the state changes while its fields stay the same."""

Need = tuple[int, Window | None]
"""A window of a side input (its place in the stage's spec) that work needs; None is all of it."""

ClockKey = tuple[int, int, int]
"""Who waits for processing time: a stage, `SHARD`, `RESIDUAL`, `BUNDLE` or `RETRY`, and the shard or the
number of the work or the bundle.
"""

SHARD = 0
RESIDUAL = 1
BUNDLE = 2
RETRY = 3


@attrs.define(eq=False)
class Piece:
    """Some data and how many still need it."""

    data: Data
    uses: int
    origins: tuple[int, ...]
    """The pieces whose storage it may share, because it was split off them."""


@attrs.define(eq=False)
class Work:
    """Data that waits for a stage or is in one of its bundles."""

    number: int
    piece: int
    data: Data
    windows: frozenset[Window] | None
    needs: tuple[Need, ...] = ()
    """The side input windows it reads."""
    watermark: Timestamp | None = None
    """The output watermark (ms) its watermark estimator reported, for residuals."""
    estimator_state: Any = None
    residual: bool = False
    truncated: bool = False
    """Whether no drain truncates its restriction (any more), see `Input.whole`."""

    @property
    def time(self) -> Timestamp:
        """What it holds the input watermark at (ms)."""
        return self.data.facts.min_timestamp

    @property
    def hold(self) -> Timestamp:
        """What it holds the output watermark at (ms)."""
        return self.time if self.watermark is None else self.watermark


@attrs.define(eq=False)
class ShardState:
    """A key shard of a stage; an ordinary stage has one, with the key None."""

    ready: OrderedDict[int, list[Work]] = attrs.field(factory=OrderedDict)
    """The work that a bundle can take, by piece of data."""
    blocked: CountedTimes = attrs.field(factory=CountedTimes)
    """The times of work that waits for side inputs."""
    open: int = 0
    summary: ShardSummary = EMPTY_SUMMARY
    watermark: Timestamp = MIN_TIMESTAMP
    """The `end_watermark` of its last bundle."""


@attrs.define(eq=False)
class SideView:
    """The data of a side window as bundles see it, until the window changes."""

    pieces: tuple[int, ...]
    data: tuple[Data, ...]
    uses: int = 0
    """How many open bundles read it."""
    current: bool = True
    updating: bool = False
    """Whether it is of a side input that may be updated after it could be read first."""


@attrs.define(eq=False)
class SideState:
    """What a stage holds of one of its side inputs."""

    spec: SideInputSpec
    pieces: dict[Window, list[int]] = attrs.field(factory=dict)
    views: dict[Window, SideView] = attrs.field(factory=dict)
    """The views as last asked for, dropped when their window changes."""
    waiting: dict[Window | None, list[tuple[int | None, Work]]] = attrs.field(factory=dict)
    """Work (with its shard) that waits for a window; None is the whole side input."""
    ends: list[tuple[Timestamp, bytes, Window]] = attrs.field(factory=list)
    """A heap of the windows in `waiting` by their last time."""
    expiries: list[tuple[Timestamp, bytes, Window]] = attrs.field(factory=list)
    """A heap of the windows in `pieces` by the last time they are needed."""


@attrs.define(eq=False)
class StageState:
    """A stage: its watermarks (ms), its work and its shards."""

    number: int
    spec: StageSpec
    upstream: KeyedMinimum[str]
    """The watermarks of its input collections."""
    sides: list[SideState]
    seen_upstream: Timestamp = MIN_TIMESTAMP
    input: Timestamp = MIN_TIMESTAMP
    output: Timestamp = MIN_TIMESTAMP
    times: CountedTimes = attrs.field(factory=CountedTimes)
    """The event times of all its work, waiting or in bundles."""
    holds: CountedTimes = attrs.field(factory=CountedTimes)
    """What holds its output watermark: its work and its shards' holds."""
    shards: dict[int | None, ShardState] = attrs.field(factory=dict)
    candidates: dict[int | None, None] = attrs.field(factory=dict)
    """Shards that may have something to do: looked at when the event has been worked in."""
    event_wakes: KeyedMinimum[int] = attrs.field(factory=KeyedMinimum)
    """When shards want to be woken, in event time."""
    delayed: dict[int, Work] = attrs.field(factory=dict)
    """Residuals that wait for processing time, by number."""
    work: int = 0
    """How many pieces of work it has in all."""
    running: int = 0
    """How many of them are in bundles."""
    blocked: int = 0
    """How many of them wait for side inputs."""
    waiting_bytes: int = 0
    """The size of those not in a bundle."""
    open: int = 0
    """How many bundles it has open."""
    waking: int = 0
    """How many shards have a timer, trigger or expiry to come."""
    throttled: bool = False
    """Whether its residuals wait for a consumer to catch up."""
    complete: bool = False
    section: int | None = None
    """The number of the section it is in, if it is in one."""
    paused: int = 0
    """How many of its open bundles are in the pause before another attempt."""


class SectionPhase(enum.Enum):
    """Where a section is."""

    WAITING = "waiting"
    """For its whole input; until then its stages open no bundles."""
    OPEN = "open"
    """It has its one bundle."""
    DONE = "done"
    APART = "apart"
    """Its stages have bundles of their own. It is decided once."""


@attrs.define(eq=False)
class SectionState:
    """A section and where it is."""

    node: Section
    phase: SectionPhase = SectionPhase.WAITING


@attrs.define(eq=False)
class CollectionState:
    """A collection and its watermark (ms), the earliest of its producers'."""

    node: CollectionNode
    producers: KeyedMinimum[int]
    watermark: Timestamp = MIN_TIMESTAMP


@attrs.define(eq=False)
class PartRecord:
    """What a stage has in the open bundle of its section."""

    stage: int
    work: list[Work]
    views: list[SideView]


@attrs.define(eq=False)
class FailureRecord:
    """The failed attempts at a bundle.

    The fields `user` and `outside` count failures by their kind; a permanent failure is the last and
    counts as one from outside. `outages` counts the attempts in a row that found a neighbour
    unavailable, the first of them at `outage_since` (ms of processing time). `last` is the latest
    failure.
    """

    user: int = 0
    outside: int = 0
    outages: int = 0
    outage_since: Timestamp | None = None
    last: BundleFailed | None = None

    @property
    def attempts(self) -> int:
        """The number of failed attempts; an attempt during an outage isn't one."""
        return self.user + self.outside


@attrs.define(eq=False)
class BundleRecord:
    """An open bundle, across its attempts."""

    bundle: Bundle
    stage: int
    work: list[Work]
    views: list[SideView]
    truncated: bool
    """Whether the restrictions of its latest attempt were truncated, or all its work is whole."""
    split: SplitBundle | None = None
    """The split that was asked for and not yet answered."""
    progress: Progress | None = None
    stalled: int = 0
    """How many progress reports in a row have told of no progress."""
    user_failures: list[str] = attrs.field(factory=list)
    """The causes of the latest failures of user code."""
    outside_failures: list[str] = attrs.field(factory=list)
    """The causes of the latest failures of other kinds, outages aside."""
    section: int | None = None
    """The number of the section that it is the bundle of."""
    parts: list[PartRecord] = attrs.field(factory=list)
    """What the section's stages have in it."""
    failures: FailureRecord = attrs.field(factory=FailureRecord)
    due: Timestamp | None = None
    """The processing time (ms) at which the pause before the latest attempt ends, None after it."""

    @property
    def state(self) -> BundleState:
        """Where the latest attempt is."""
        if self.due is not None:
            return BundleState.PAUSED
        return BundleState.RUNNING if self.split is None else BundleState.SPLITTING


@attrs.define(eq=False)
class ScriptState:
    """How far a TestStream is."""

    next_step: int = 0
    ended: bool = False


@attrs.define(eq=False)
class SchedulerState:
    """All of it. `handle` is the only one who starts a change."""

    graph: Graph
    limits: Limits
    policy: SplittingPolicy
    numbers: dict[str, int]
    """The number of each stage by its name."""
    stages: list[StageState]
    collections: dict[str, CollectionState]
    scripts: list[ScriptState]
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
    """How many stages are not complete."""
    clock_wakes: KeyedMinimum[ClockKey] = attrs.field(factory=KeyedMinimum)
    """When shards and residuals want to be woken, and bundles to be asked, in processing time."""
    wake_told: Timestamp | None = None
    """The time of the last `WakeAt`."""
    stale: list[int] = attrs.field(factory=list)
    """A heap of the stages whose watermarks must be computed again; empty between events."""
    touched: dict[int, None] = attrs.field(factory=dict)
    """The stages that may have bundles to open or be complete; empty between events."""
    commands: list[Command] = attrs.field(factory=list)
    """The answer to the event that is being handled; empty between events."""
    released: list[Data] = attrs.field(factory=list)
    """Data that the event being handled has made superfluous; empty between events."""
    paused: int = 0
    """How many open bundles are in the pause before another attempt."""

    @property
    def running(self) -> bool:
        """Whether the job has begun and not ended."""
        return self.phase in (Phase.RUNNING, Phase.DRAINING)


def new_state(
    graph: Graph,
    limits: Limits,
    policy: SplittingPolicy,
    section_policy: SectionPolicy,
    sections: tuple[Section, ...],
) -> SchedulerState:
    """Returns the state of a job that has not begun."""
    section_of = {
        stage: number for number, section in enumerate(sections) for stage in section.stages
    }
    stages = [
        StageState(
            number=number,
            spec=spec,
            upstream=_minimum(spec.inputs),
            sides=[SideState(side) for side in spec.side_inputs],
            section=section_of.get(number),
        )
        for number, spec in enumerate(graph.stages)
    ]
    collections = {
        name: CollectionState(node, _minimum(node.producers))
        for name, node in graph.collections.items()
    }
    return SchedulerState(
        graph=graph,
        limits=limits,
        policy=policy,
        numbers={stage.spec.name: stage.number for stage in stages},
        stages=stages,
        collections=collections,
        scripts=[ScriptState() for _ in graph.test_streams],
        scripted_clock=graph.scripted_clock,
        section_policy=section_policy,
        sections=[SectionState(section) for section in sections],
        incomplete=len(stages),
    )


def _minimum(keys: tuple[Any, ...]) -> KeyedMinimum[Any]:
    minimum: KeyedMinimum[Any] = KeyedMinimum()
    for key in keys:
        minimum.put(key, MIN_TIMESTAMP)
    return minimum
