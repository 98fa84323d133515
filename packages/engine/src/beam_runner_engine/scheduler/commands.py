"""All that the scheduler wants done: the records `Scheduler.handle` returns, in the order to do
them.

Event time and processing time are in milliseconds.
"""

from __future__ import annotations

import enum
from typing import Any, TypeAlias

import attrs
from beam_runner_model.failures import EndingKind
from beam_runner_model.times import Timestamp
from beam_runner_model.windows import Window

from beam_runner_engine.scheduler.data import Data


@attrs.frozen
class Input:
    """Data that a bundle processes.

    Only the elements' `windows` given here are meant, None is all: the other windows wait for their
    side inputs and come in another bundle. With `truncate` restrictions must be truncated first.

    With `whole` the restrictions are processed to their end, and no drain truncates them: they were truncated
    before, or are the first part of a restriction whose second part was handed back. Whatever the host
    cuts from such an input is whole, too.
    """

    data: Data
    windows: frozenset[Window] | None = None
    truncate: bool = False
    estimator_state: Any = None
    whole: bool = False


@attrs.frozen
class SideInput:
    """All data of one window of a side input, in the order of its commits."""

    name: str
    window: Window
    data: tuple[Data, ...]


@attrs.frozen
class SectionPart:
    """What a stage of a section reads from outside of it: `inputs`, all of them, if it begins the section.

    `input_watermark` (ms) is the one by which data of these is late.
    """

    stage: str
    inputs: tuple[Input, ...]
    side_inputs: tuple[SideInput, ...]
    input_watermark: Timestamp


@attrs.frozen
class Bundle:
    """One unit of work of a stage; another attempt at it differs in `attempt` only.

    `input_watermark` is the one by which data of the bundle is late. After its inputs, a bundle of
    a keyed stage fires timers and triggers up to `end_watermark` and, in processing time, up to
    `processing_time`, and expires windows that `end_watermark` is beyond; a keyed bundle without
    inputs exists for these alone. Where shards are joined it may have several whole ones, in order,
    of which `shard` is the first; it is split between them only. `output_watermark` is the stage's
    when the bundle was opened: holds before it come too late. `draining` says that the job is being
    drained.

    The bundle of a section has `parts`, one for each of its stages in an order in which none comes before
    what it reads, and no inputs beside these; `stage` is the first. It is all there is to do for these
    stages: timers and triggers fire until nothing is left, and what it commits is of all of them.
    """

    number: int
    attempt: int
    stage: str
    shard: int | None
    inputs: tuple[Input, ...]
    side_inputs: tuple[SideInput, ...]
    input_watermark: Timestamp
    end_watermark: Timestamp
    output_watermark: Timestamp
    processing_time: Timestamp
    draining: bool = False
    parts: tuple[SectionPart, ...] = ()


@attrs.frozen
class OpenBundles:
    """Run these bundles of one stage, together or apart, and answer each with an event of its own."""

    stage: str
    bundles: tuple[Bundle, ...]


@attrs.frozen
class SplitBundle:
    """Ask a running bundle to give away part of what remains, and answer with `SplitDone`.

    `fraction` is the part of the remainder that the bundle keeps (`fraction_of_remainder` in
    `beam_fn_api.proto`): 0.5 halves it, 0.0 is a checkpoint.
    """

    bundle: int
    attempt: int
    fraction: float


@attrs.frozen
class CancelBundles:
    """Stop these bundles (number and attempt); no answer is expected, a late one is ignored."""

    bundles: tuple[tuple[int, int], ...]


@attrs.frozen
class FinalizeBundles:
    """Run the finalization callbacks of these committed bundles (their numbers)."""

    bundles: tuple[int, ...]


@attrs.frozen
class WakeAt:
    """Send a `Tick` at this processing time; replaces the earlier `WakeAt`."""

    time: Timestamp


@attrs.frozen
class ReleaseState:
    """Drop all state of a keyed stage: nothing will come to it any more.

    State of a window that expires is dropped by the bundle that expires it, not by this command.
    """

    stage: str


@attrs.frozen
class ReleaseData:
    """Drop this data: nothing will read it any more."""

    data: tuple[Data, ...]


class Outcome(enum.Enum):
    """How a job ended that did not fail."""

    DONE = "done"
    DRAINED = "drained"
    CANCELLED = "cancelled"


@attrs.frozen
class FinishJob:
    """The job has ended."""

    outcome: Outcome


@attrs.frozen
class FailJob:
    """The job has failed.

    If a bundle failed it, `causes` are those of its latest failed attempts, and `attempts` is the
    number of all of them.
    """

    reason: str
    stage: str | None = None
    causes: tuple[str, ...] = ()
    attempts: int = 0
    kind: EndingKind = attrs.field(default=EndingKind.OTHER, converter=EndingKind)


Command: TypeAlias = (
    OpenBundles
    | SplitBundle
    | CancelBundles
    | FinalizeBundles
    | WakeAt
    | ReleaseState
    | ReleaseData
    | FinishJob
    | FailJob
)
