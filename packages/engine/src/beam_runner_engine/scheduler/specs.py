"""Specification of a job: stages, side inputs, TestStreams and limits."""

from __future__ import annotations

import enum
from typing import Any, Protocol, TypeAlias

import attrs
from attrs.validators import optional
from beam_runner_model.times import Duration, Timestamp, align_time_after
from beam_runner_model.window_fns import (
    GlobalWindows,
    OpaqueWindows,
    SlidingWindows,
    WindowFn,
    assign_windows,
)
from beam_runner_model.windows import GLOBAL_WINDOW, Window

from beam_runner_engine.scheduler.data import Data


class StageKind(enum.Enum):
    """Kind of a stage, by the input that it takes."""

    ORDINARY = "ordinary"
    """Any data in any bundle; many bundles can run at once."""
    STATEFUL = "stateful"
    """Data by key shard, with state and timers; each shard has at most one bundle at a time."""
    GROUPING = "grouping"
    """Data by key shard, grouped by key and window; each shard has at most one bundle at a time."""


class SideInputReadiness(enum.Enum):
    """Condition for reading a window of a side input."""

    END_OF_WINDOW = "end of window"
    """The watermark of the side input has passed the end of the window."""
    FIRST_PANE = "first pane"
    """The window contains data, or the watermark has passed its end. For side inputs whose trigger
    can fire early, including side inputs that are updated.
    """


class WindowMapping(Protocol):
    """Mapping from windows of the main input to windows of a side input.

    A caller implements this protocol for windows that only an SDK can map. Implementations must be
    deterministic and picklable. If a mapping raises an error, the job fails.
    """

    def map_window(self, main_window: Window | None) -> Window | None:
        """Returns the side-input window for a window of the main input.

        `main_window` is None if the main input has too many windows to list. If the result is None,
        the main input waits for the end of the side input.
        """
        ...


@attrs.frozen
class DefaultWindowMapping:
    """Beam's default window mapping: the earliest side-input window that ends at or after the last
    timestamp of the main window.

    The window of the side input contains the timestamp, unless the timestamp is in a gap between sliding windows.
    """

    window_fn: WindowFn = attrs.field(factory=GlobalWindows)

    def map_window(self, main_window: Window | None) -> Window | None:
        """Returns the side-input window, or None if the main window is unknown or only an SDK can
        compute the mapping.
        """
        if isinstance(self.window_fn, GlobalWindows):
            return GLOBAL_WINDOW
        if main_window is None or isinstance(self.window_fn, OpaqueWindows):
            return None
        last_time = main_window.max_timestamp()
        holders = assign_windows(self.window_fn, last_time)
        if not holders and isinstance(self.window_fn, SlidingWindows):
            next_start = align_time_after(last_time, self.window_fn.period, self.window_fn.offset)
            holders = assign_windows(self.window_fn, next_start)
        return holders[-1]


@attrs.frozen
class SideInputSpec:
    """Specification of a side input of a stage.

    Attributes:
        name: the name of the side input, unique in the stage.
        collection: the collection that the side input reads.
        mapping: the mapping from main-input windows to side-input windows.
        readiness: the condition for reading a window.
        retention: the duration (ms) after the end of a window in which main input can still read
            it: the allowed lateness of the main input.
        replaces: whether newly committed data of a window replaces the existing data instead of
            adding to it.
    """

    name: str
    collection: str
    mapping: WindowMapping = attrs.field(factory=DefaultWindowMapping)
    readiness: SideInputReadiness = SideInputReadiness.END_OF_WINDOW
    retention: Duration = 0
    replaces: bool = False


@attrs.frozen
class StageSpec:
    """Specification of a stage. The scheduler creates bundles for each stage.

    Attributes:
        name: the name of the stage, unique in the job.
        inputs: the main input collections.
        outputs: the output collections. If several stages write one collection, the collection's
            watermark is the minimum of the output watermarks of these stages.
        kind: the kind of input.
        side_inputs: the side inputs.
        splittable: whether bundles can return residuals, and must truncate restrictions in a drain.
        whole_input: whether the stage starts only after its input has ended, with the complete
            input.
        joint_shards: for a keyed stage with `whole_input`: whether small shards can share a bundle.
            Such a stage stores no state beyond the bundle.
        joint_pieces: for an ordinary stage: whether small inputs can share a bundle, in order. If
            the bundle runs long, idle slots take over some of the inputs.
        spans: whether the stage is bounded and can run in a section: in one bundle with upstream or
            downstream stages.
    """

    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...] = ()
    kind: StageKind = StageKind.ORDINARY
    side_inputs: tuple[SideInputSpec, ...] = ()
    splittable: bool = False
    whole_input: bool = False
    joint_shards: bool = False
    joint_pieces: bool = False
    spans: bool = False

    @property
    def is_keyed(self) -> bool:
        """Whether the stage takes its data by key shard."""
        return self.kind is not StageKind.ORDINARY


@attrs.frozen
class AddElements:
    """Step of a TestStream that adds data to an output."""

    collection: str
    data: Data


@attrs.frozen
class AdvanceWatermark:
    """Step of a TestStream that advances the watermark (ms) of an output."""

    collection: str
    watermark: Timestamp


@attrs.frozen
class AdvanceProcessingTime:
    """Step of a TestStream that advances the job's processing time by `duration` ms."""

    duration: Duration


TestStreamStep: TypeAlias = AddElements | AdvanceWatermark | AdvanceProcessingTime


@attrs.frozen
class TestStreamSpec:
    """Scripted source that takes a step only when no other work of the job can proceed.

    The TestStreams of a job alternate their steps. After the last step, the watermarks of all
    outputs advance to the maximum timestamp. If any TestStream advances processing time, the job
    ignores the caller's `Tick` events.
    """

    __test__ = False

    name: str
    outputs: tuple[str, ...]
    steps: tuple[TestStreamStep, ...]


@attrs.frozen
class GraphSpec:
    """Graph of a job. The data of the collections in `roots` comes with the `Start` event."""

    stages: tuple[StageSpec, ...]
    roots: tuple[str, ...] = ()
    test_streams: tuple[TestStreamSpec, ...] = ()


@attrs.frozen
class Pauses:
    """Exponential backoff: the pause starts at `shortest` ms and doubles after each failure, up to
    `longest` ms.

    If `shortest` is 0, retries have no pauses.
    """

    shortest: Duration
    longest: Duration

    def compute_retry_pause(self, failures: int) -> Duration:
        """Returns the pause (ms) after this number of failures; 0 for no failures."""
        if failures < 1 or not self.shortest:
            return 0
        # Bound the exponent, because 2**100_000 takes much time and memory.
        return min(self.longest, self.shortest << min(failures - 1, _MOST_DOUBLINGS))


_MOST_DOUBLINGS = 40


def _check_at_least_one(instance: object, attribute: attrs.Attribute[int], value: int) -> None:
    if value < 1:
        raise ValueError(f"Limits.{attribute.name} must be at least 1, not {value}")


_LIMIT_OR_NONE: Any = optional(_check_at_least_one)


@attrs.frozen
class Limits:
    """Limits of the scheduler. The table in `retries` specifies the effect of failures.

    Attributes:
        parallelism: the number of bundles that can run at once. Splitting aims at this number; more
            bundles can be open.
        bundles_per_stage: the maximum number of open bundles of a stage without keys.
        user_attempts: the maximum number of attempts that fail in user code; None for no maximum.
        outside_attempts: the maximum number of attempts that fail outside of user code; None for no
            maximum.
        backlog_bytes: the pending bytes of a busy consumer above which its splittable producers
            don't resume.
        joint_bytes: the maximum size (bytes) of a bundle that combines several shards or inputs.
        section_exchanges: the maximum number of inner collections in a row in a section.
        pauses: the backoff after failures in user code or outside of user code.
        outage_pauses: the backoff while an external system is unavailable.
        outage_limit: the duration (ms) of an outage after which the job fails; None for no limit.
    """

    parallelism: int = attrs.field(default=4, validator=_check_at_least_one)
    bundles_per_stage: int = attrs.field(default=64, validator=_check_at_least_one)
    user_attempts: int | None = attrs.field(default=1, validator=_LIMIT_OR_NONE)
    outside_attempts: int | None = attrs.field(default=4, validator=_LIMIT_OR_NONE)
    backlog_bytes: int = attrs.field(default=256 * 1024 * 1024, validator=_check_at_least_one)
    joint_bytes: int = attrs.field(default=64 * 1024, validator=_check_at_least_one)
    section_exchanges: int = attrs.field(default=8, validator=_check_at_least_one)
    pauses: Pauses = Pauses(0, 0)
    outage_pauses: Pauses = Pauses(1_000, 15_000)
    outage_limit: Duration | None = attrs.field(default=600_000, validator=_LIMIT_OR_NONE)
