"""What parts of a job wait for, as records that cross package borders."""

from __future__ import annotations

import enum

import attrs

from beam_runner_model.times import Timestamp


class WaitKind(enum.StrEnum):
    """What is awaited, and the fields of `Wait` that say more about it.

    The scheduler reports the kinds up to `UPSTREAM`, a host the others.
    """

    BUNDLES = "bundles"
    """`count` bundles that run."""
    RETRY = "retry"
    """The next attempts at `count` bundles that failed."""
    RESUMPTION = "resumption"
    """The processing time at which `count` pieces of work resume."""
    TIMER = "timer"
    """The processing time `until` of a timer in `shard`."""
    WATERMARK = "watermark"
    """The watermark `until` in `shard`; it is at `watermark`."""
    HOLD = "hold"
    """The release of the output watermark, which `shard` holds at `until`."""
    SIDE_INPUT = "side_input"
    """The `side_input`, in `window` or as a whole, for `count` pieces of data; `givers` make it, up to `watermark`."""
    END_OF_INPUT = "end_of_input"
    """The end of the input, which is at `watermark`."""
    END_OF_SECTION_INPUT = "end_of_section_input"
    """The end of all that a section of the stages `givers` reads."""
    UPSTREAM = "upstream"
    """The `collection`, which is at `watermark`: a consequence of other waits."""
    NEIGHBOUR = "neighbour"
    """A `neighbour` that has been unavailable for `seconds`, for a `reason`; the next try is at `until`, if known."""
    SLOT = "slot"
    """Places on the cluster for `count` bundles."""
    HARNESS = "harness"
    """An SDK harness that has been starting for `seconds`, for `count` bundles."""
    TASKS = "tasks"
    """Tasks of a section: `done` of `count` have ended."""
    PROCESS = "process"
    """A worker process, `pid` on `host`, that has not answered for `seconds`."""
    OTHER = "other"
    """Something that this version doesn't know."""

    @classmethod
    def _missing_(cls, value: object) -> WaitKind:
        return cls.OTHER


@attrs.frozen
class Wait:
    """Why work of a job doesn't go on. `WaitKind` says which fields are set.

    Attributes:
        kind: what is awaited.
        stage: the stage that waits; empty if the whole job does.
        steps: full names of the steps that wait, as far as a host knows them; "..." stands for some of many.
        count: how many bundles, tasks or pieces of data wait.
        done: how many tasks have ended.
        shard: the key shard.
        until: the awaited time (ms); an event time for `WATERMARK` and `HOLD`, else a processing time.
        watermark: the present watermark (ms) of what is awaited.
        collection: the collection that is awaited.
        side_input: the name of the side input.
        window: the window of the side input; empty if its end is awaited.
        givers: the names of what gives the awaited data.
        neighbour: the name of a store, a disk, or a cluster.
        reason: why the neighbour is unavailable, in one line.
        host: the machine of the process.
        pid: the process.
        seconds: how long the wait has lasted, if that is known.
    """

    kind: WaitKind = attrs.field(converter=WaitKind)
    stage: str = ""
    steps: tuple[str, ...] = ()
    count: int = 0
    done: int = 0
    shard: int | None = None
    until: Timestamp | None = None
    watermark: Timestamp | None = None
    collection: str = ""
    side_input: str = ""
    window: str = ""
    givers: tuple[str, ...] = ()
    neighbour: str = ""
    reason: str = ""
    host: str = ""
    pid: int = 0
    seconds: float = 0.0
