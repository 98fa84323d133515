"""The buffers between the stages of a job: what is written, how it is ordered and grouped, and who reads it from the side."""

from __future__ import annotations

import enum

import attrs

from beam_runner_model.stages import HarnessStage
from beam_runner_model.strategy import WindowingStrategy
from beam_runner_model.window_fns import GlobalWindows, WindowFn


class BufferKind(enum.Enum):
    """What happens to elements between the stages that write a buffer and those that read it."""

    STORED = "stored"
    """Kept in files as they are and read in the same order: at fan-outs and where stages can't fuse."""
    DEALT = "dealt"
    """Dealt out evenly over tasks, element by element: Reshuffle, Redistribute, splits of a source."""
    GROUPED = "grouped"
    """Grouped by key and window: GroupByKey."""
    KEYED = "keyed"
    """Whole elements by key shard: the input of a stateful transform."""
    SIDE_ITERABLE = "side_iterable"
    """Kept in files by window, as a side input that is read as a whole."""
    SIDE_MULTIMAP = "side_multimap"
    """Kept in files by window and key, as a side input that is looked up by key."""

    @property
    def is_shuffle(self) -> bool:
        """Whether a row of it is for one of the key shards, or shares, of the stage that reads it."""
        return self is BufferKind.DEALT or self.is_keyed

    @property
    def is_keyed(self) -> bool:
        """Whether a row of it is for one of the key shards of the stage that reads it."""
        return self in (BufferKind.GROUPED, BufferKind.KEYED)


@attrs.frozen
class MergingPlan:
    """How custom windows merge: by a stage of one transform, which only an SDK can run.

    Attributes:
        spec: what the harness must know. It reads the windows of keys, and writes how they merge.
        embedded: whether it runs in the Spark Python worker itself.
    """

    spec: HarnessStage
    embedded: bool


@attrs.frozen
class BufferPlan:
    """A buffer: written by some stages, read by others.

    Attributes:
        buffer_id: unique in the job; also the name of the scheduler's collection.
        kind: what happens in it.
        strategy: the windowing strategy of what is written to it; None where nothing is.
        bulk: for GROUPED and KEYED: it is bounded, and needs no state between bundles: for GROUPED
            where the trigger fires once.
        whole: for GROUPED and KEYED: it is bounded, and a shard is read once, when all of it is
            there; else it is read as it comes.
        merging: for GROUPED and KEYED: how its windows merge, if the engine does not know it.
        windows: for STORED, DEALT and KEYED: each piece of its data is of one window and tells it, since
            a stage that reads it waits for side inputs window by window.
        restrictions: for DEALT: its elements are restrictions with their sizes. Other elements share a bundle
            while they are few bytes; restrictions are much work however small they are.
    """

    buffer_id: str
    kind: BufferKind
    strategy: WindowingStrategy | None = None
    bulk: bool = True
    whole: bool = attrs.field(default=attrs.Factory(lambda self: self.bulk, takes_self=True))
    merging: MergingPlan | None = None
    windows: bool = False
    restrictions: bool = False


@attrs.frozen
class SideInputUse:
    """A stage's transform reads a buffer as the side input named by a tag.

    Attributes:
        mapping_fn: which window of the side input belongs to a window of the main input: the side
            input's own window function, or an opaque one where the engine can't tell.
        by_window: windows of it can be read one after the other, and not only when it has ended: it is
            unbounded, and the engine knows which of its windows are asked for.
        early: it may be read as soon as it has a pane: it is unbounded, in the global window, and its
            trigger may fire before the end.
        retention: how long (ms) after the end of a window of it late main input may still ask for
            it: the main input's allowed lateness.
        latest: of a window of it only the element that came last is seen: it is a single value, and
            there may be several panes.
    """

    transform_id: str
    tag: str
    buffer_id: str
    mapping_fn: WindowFn = attrs.field(factory=GlobalWindows)
    by_window: bool = False
    early: bool = False
    retention: int = 0
    latest: bool = False

    @property
    def name(self) -> str:
        """Its name among the side inputs of the stage."""
        return f"{self.transform_id}:{self.tag}"
