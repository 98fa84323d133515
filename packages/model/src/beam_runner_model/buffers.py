"""Plans of the buffers between the stages of a job: kinds, windowing, grouping and side-input
readers.
"""

from __future__ import annotations

import enum

import attrs

from beam_runner_model.stages import HarnessStage
from beam_runner_model.strategy import WindowingStrategy
from beam_runner_model.window_fns import GlobalWindows, WindowFn


class BufferKind(enum.Enum):
    """Kind of a buffer: how the buffer passes elements from the stages that write to the stages
    that read.
    """

    STORED = "stored"
    """Stored in files, read in the order of writing. Used at fan-outs and between stages that can't
    fuse.
    """
    DEALT = "dealt"
    """Rebalanced: elements are distributed evenly over tasks, for Reshuffle, Redistribute and
    splits of a source.
    """
    GROUPED = "grouped"
    """Grouped by key and window, for GroupByKey."""
    KEYED = "keyed"
    """Complete elements, partitioned by key shard: the input of a stateful transform."""
    SIDE_ITERABLE = "side_iterable"
    """Stored in files by window: a side input that transforms read as an iterable."""
    SIDE_MULTIMAP = "side_multimap"
    """Stored in files by window and key: a side input that transforms look up by key."""

    @property
    def is_shuffle(self) -> bool:
        """Whether each row (block of elements) belongs to one partition of the reading stage: a key
        shard, or a share of rebalanced elements.
        """
        return self is BufferKind.DEALT or self.is_keyed

    @property
    def is_keyed(self) -> bool:
        """Whether each row (block of elements) belongs to one key shard of the reading stage. A key
        shard is the set of keys with the same hash.
        """
        return self in (BufferKind.GROUPED, BufferKind.KEYED)


@attrs.frozen
class MergingPlan:
    """Plan of an extra stage that merges custom windows. The stage has one transform, which only an
    SDK can run.

    Attributes:
        spec: the description of the stage, for the harness that runs it. The stage reads the
            windows of keys and writes the merge results.
        embedded: whether the stage runs in the Spark Python worker process.
    """

    spec: HarnessStage
    embedded: bool


@attrs.frozen
class BufferPlan:
    """Plan of a buffer, which some stages write and other stages read.

    Attributes:
        buffer_id: unique ID in the job, also the name of the scheduler's collection.
        kind: how the buffer passes elements on.
        strategy: the windowing strategy of the buffer's elements; None if no elements are written.
        bulk: for GROUPED and KEYED: whether the data is bounded and needs no state between bundles.
            For GROUPED, the trigger must also fire only once.
        whole: for GROUPED and KEYED: whether the data is bounded and each shard is read once, after
            its last row is written. Otherwise, rows are read as they arrive.
        merging: for GROUPED and KEYED: the plan for merging windows, if the engine can't merge the
            windows itself.
        windows: for STORED, DEALT and KEYED: whether all elements of one stored output have the
            same window, which its statistics (`DataStatistics`) name. Required if the reading stage
            waits for side inputs by window.
        restrictions: for DEALT: whether the elements are sized restrictions, which can stand for
            much work even if they are small. Small other elements share a bundle.
        identity: the name by which an update finds the same buffer in the plan of the edited
            pipeline. Empty in plans of old versions that couldn't update jobs.
    """

    buffer_id: str
    kind: BufferKind
    strategy: WindowingStrategy | None = None
    bulk: bool = True
    whole: bool = attrs.field(default=attrs.Factory(lambda self: self.bulk, takes_self=True))
    merging: MergingPlan | None = None
    windows: bool = False
    restrictions: bool = False
    identity: str = ""


@attrs.frozen
class SideInputUse:
    """Use of a buffer as the side input `tag` of a transform.

    Attributes:
        transform_id: the transform that reads the side input.
        tag: the name of the side input in the transform.
        buffer_id: the buffer that holds the side input.
        mapping_fn: maps a window of the main input to a window of the side input. The value is the
            side input's window function, or an opaque function that the engine can't compute.
        by_window: whether readers can get one window before the whole side input ends. True if the
            side input is unbounded and the engine can compute the requested windows.
        early: whether readers can get the side input from its first pane on. True if the side input
            is unbounded, in the global window, and its trigger can fire early.
        retention: duration (ms) after the end of a side-input window in which late main input can
            still read the window: the main input's allowed lateness.
        latest: whether readers see only the last element of each window. True for a single value
            that can have several panes.
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
        """Name of the side input, unique in the stage."""
        return f"{self.transform_id}:{self.tag}"
