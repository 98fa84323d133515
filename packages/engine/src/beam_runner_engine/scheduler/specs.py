"""What a job is made of, told once at the start: stages, side inputs, TestStreams, limits."""

from __future__ import annotations

import enum
from typing import Any, Protocol, TypeAlias

import attrs
from attrs.validators import optional
from beam_runner_model.times import Duration, Timestamp, next_aligned
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
    """How a stage takes its data."""

    ORDINARY = "ordinary"
    """Any data in any bundle; many bundles at once."""
    STATEFUL = "stateful"
    """Data by key shard, with state and timers; one bundle at a time per shard."""
    GROUPING = "grouping"
    """Data by key shard, grouped by key and window; one bundle at a time per shard."""


class SideInputReadiness(enum.Enum):
    """When a window of a side input may be read."""

    END_OF_WINDOW = "end of window"
    """Once the watermark of the side input is beyond the window."""
    FIRST_PANE = "first pane"
    """As soon as there is data in the window, or the watermark is beyond it: for side inputs whose
    trigger may fire early, updating ones among them."""


class WindowMapping(Protocol):
    """Which window of a side input belongs to a window of the main input.

    A host implements it for windows that only an SDK can map. It must be deterministic and
    picklable; the job fails if it raises.
    """

    def side_window(self, main_window: Window | None) -> Window | None:
        """Returns the side input's window for a window of the main input.

        `main_window` is None where the main input has too many windows to tell. The answer None
        means that it can't be told: then the main input waits for the end of the side input.
        """
        ...


@attrs.frozen
class SideWindowOf:
    """The model's mapping: the earliest side window that ends after the last time of the main window.

    That one holds this time, unless it is in a gap between sliding windows.
    """

    window_fn: WindowFn = attrs.field(factory=GlobalWindows)

    def side_window(self, main_window: Window | None) -> Window | None:
        """Returns the side window; None for unknown windows and functions only an SDK knows."""
        if isinstance(self.window_fn, GlobalWindows):
            return GLOBAL_WINDOW
        if main_window is None or isinstance(self.window_fn, OpaqueWindows):
            return None
        last_time = main_window.max_timestamp()
        holders = assign_windows(self.window_fn, last_time)
        if not holders and isinstance(self.window_fn, SlidingWindows):
            next_start = next_aligned(last_time, self.window_fn.period, self.window_fn.offset)
            holders = assign_windows(self.window_fn, next_start)
        return holders[-1]


@attrs.frozen
class SideInputSpec:
    """A side input of a stage.

    `name` tells it from the stage's other side inputs. `retention` (ms) is how long after the end
    of a side window main input may still ask for it: the allowed lateness of the main input.
    With `replaces` the data a bundle commits for a window takes the place of what was there,
    instead of being added to it.
    """

    name: str
    collection: str
    mapping: WindowMapping = attrs.field(factory=SideWindowOf)
    readiness: SideInputReadiness = SideInputReadiness.END_OF_WINDOW
    retention: Duration = 0
    replaces: bool = False


@attrs.frozen
class StageSpec:
    """One stage: the unit in which work is given out.

    `inputs` and `outputs` name collections; several stages may write one collection, and its
    watermark is then the earliest of theirs. `splittable` stages may return residuals and are asked
    to truncate on drain. A stage with `whole_input` starts only when its input has ended, with all
    of it at once: bounded sections that run as one unit are such stages. With `joint_shards` such a
    keyed stage keeps nothing of a shard beyond its bundle; small shards of it then share a bundle.
    With `joint_pieces` so do, in their order, small pieces of an ordinary stage; they are given to
    idle slots as soon as that bundle is seen to take time. With `spans` it is bounded, and the host can
    run it as part of a section: in one bundle with the stages that it reads from, or that read from it.
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
    def keyed(self) -> bool:
        """Whether the stage takes its data by key shard."""
        return self.kind is not StageKind.ORDINARY


@attrs.frozen
class AddElements:
    """A TestStream's step that adds data to one of its outputs."""

    collection: str
    data: Data


@attrs.frozen
class AdvanceWatermark:
    """A TestStream's step that advances the watermark (ms) of one of its outputs."""

    collection: str
    watermark: Timestamp


@attrs.frozen
class AdvanceProcessingTime:
    """A TestStream's step that advances the job's processing time by `duration` ms."""

    duration: Duration


TestStreamStep: TypeAlias = AddElements | AdvanceWatermark | AdvanceProcessingTime


@attrs.frozen
class TestStreamSpec:
    """A scripted source. Each step is taken only when nothing else in the job can move.

    Several TestStreams of a job take steps in turn. After the last step the watermark of every
    output goes to the end of time. If any TestStream of a job advances processing time, the job has
    no other clock.
    """

    __test__ = False

    name: str
    outputs: tuple[str, ...]
    steps: tuple[TestStreamStep, ...]


@attrs.frozen
class GraphSpec:
    """All stages of a job. `roots` are collections whose data comes with the `Start` event."""

    stages: tuple[StageSpec, ...]
    roots: tuple[str, ...] = ()
    test_streams: tuple[TestStreamSpec, ...] = ()


@attrs.frozen
class Pauses:
    """Pauses that double with each failure: `shortest` ms, then twice as long, up to `longest` ms.

    A `shortest` of 0 means no pauses.
    """

    shortest: Duration
    longest: Duration

    def after(self, failures: int) -> Duration:
        """Returns the pause (ms) after this number of failures, 0 after none."""
        if failures < 1 or not self.shortest:
            return 0
        # The exponent is bounded, because 2**100_000 takes time and memory.
        return min(self.longest, self.shortest << min(failures - 1, _MOST_DOUBLINGS))


_MOST_DOUBLINGS = 40


def _at_least_one(instance: object, attribute: attrs.Attribute[int], value: int) -> None:
    if value < 1:
        raise ValueError(f"Limits.{attribute.name} must be at least 1, not {value}")


_LIMIT_OR_NONE: Any = optional(_at_least_one)


@attrs.frozen
class Limits:
    """How far the scheduler goes.

    `parallelism` is how many bundles the host can run at the same time: the aim of splitting, not a
    bound on open bundles. A splittable stage is not
    resumed while a consumer that is busy has more than `backlog_bytes` waiting. Shards and pieces
    that may be joined share a bundle as long as it has no more than `joint_bytes`. A section has at most
    `section_exchanges` inner collections in a row.

    The other limits are those of bundles that fail; `retries` says what each kind of failure does.
    `user_attempts` and `outside_attempts` are the most attempts at a bundle that may fail by that
    kind; None means that there is no last attempt. `pauses` come between attempts that failed by
    user code or from outside. While a neighbour is unavailable,
    `outage_pauses` come between attempts, and the job fails after `outage_limit` ms of one outage;
    None means that the job waits without limit.
    """

    parallelism: int = attrs.field(default=4, validator=_at_least_one)
    bundles_per_stage: int = attrs.field(default=64, validator=_at_least_one)
    user_attempts: int | None = attrs.field(default=1, validator=_LIMIT_OR_NONE)
    outside_attempts: int | None = attrs.field(default=4, validator=_LIMIT_OR_NONE)
    backlog_bytes: int = attrs.field(default=256 * 1024 * 1024, validator=_at_least_one)
    joint_bytes: int = attrs.field(default=64 * 1024, validator=_at_least_one)
    section_exchanges: int = attrs.field(default=8, validator=_at_least_one)
    pauses: Pauses = Pauses(0, 0)
    outage_pauses: Pauses = Pauses(1_000, 15_000)
    outage_limit: Duration | None = attrs.field(default=600_000, validator=_LIMIT_OR_NONE)
