"""Waits of a job: the reasons for which parts of a job make no progress, as records for all
packages.
"""

from __future__ import annotations

import enum

import attrs

from beam_runner_model.times import Timestamp


class WaitKind(enum.StrEnum):
    """Kind of condition that a part of a job waits for, with the fields of `Wait` that describe the
    condition.

    The scheduler reports the kinds from `BUNDLES` to `UPSTREAM`. The driver, which embeds the
    scheduler, reports the other kinds.
    """

    BUNDLES = "bundles"
    """Completion of `count` running bundles."""
    RETRY = "retry"
    """Next attempts at `count` failed bundles."""
    RESUMPTION = "resumption"
    """Processing time at which `count` residuals resume."""
    TIMER = "timer"
    """Processing time `until` of a timer in `shard`."""
    WATERMARK = "watermark"
    """Watermark `until` in `shard`; the current watermark is `watermark`."""
    HOLD = "hold"
    """Release of a watermark hold at `until` in `shard`."""
    SIDE_INPUT = "side_input"
    """Side input `side_input` for `count` stored outputs, in `window` or complete. The steps
    `givers` produce the side input; the watermark of these steps is `watermark`.
    """
    END_OF_INPUT = "end_of_input"
    """End of the input, whose current watermark is `watermark`."""
    END_OF_SECTION_INPUT = "end_of_section_input"
    """End of all inputs of a section; `givers` are the stages of the section."""
    UPSTREAM = "upstream"
    """Data of `collection`, whose current watermark is `watermark`. Always a consequence of another
    wait.
    """
    NEIGHBOUR = "neighbour"
    """Recovery of the external system `neighbour`, unavailable for `seconds` because of `reason`.
    The next attempt is at `until`, if known.
    """
    SLOT = "slot"
    """Free worker slots for `count` bundles."""
    HARNESS = "harness"
    """Start of an SDK harness for `count` bundles, which has taken `seconds` so far."""
    TASKS = "tasks"
    """Completion of a section's tasks: `done` of `count` tasks have finished."""
    PROCESS = "process"
    """Response of the worker process `pid` on `host`, which hasn't responded for `seconds`."""
    OTHER = "other"
    """Condition that this version doesn't know."""

    @classmethod
    def _missing_(cls, value: object) -> WaitKind:
        return cls.OTHER


@attrs.frozen
class Wait:
    """Reason for which a part of a job makes no progress. The kind determines the other fields.

    Attributes:
        kind: the condition that the part waits for.
        stage: the ID of the waiting stage; empty if the whole job waits.
        steps: the full names of the waiting steps, if known; "..." replaces omitted names.
        count: the number of waiting bundles, tasks or stored outputs.
        done: the number of finished tasks.
        shard: the key shard.
        until: the awaited time (ms): event time for `WATERMARK` and `HOLD`, otherwise processing
            time.
        watermark: the current watermark (ms) of the awaited collection.
        collection: the awaited collection.
        side_input: the name of the side input.
        window: the awaited window of the side input; empty if the part waits for the complete side
            input.
        givers: the names of the steps or stages that produce the awaited data.
        neighbour: the name of an external system, for example a store, a disk or a cluster.
        reason: the reason for which the external system is unavailable, in one line.
        host: the machine of the process.
        pid: the ID of the process.
        seconds: the duration of the wait so far, if known.
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
