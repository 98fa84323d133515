"""Events of a job: the records that `Scheduler.handle_event` takes.

Event times and processing times are in milliseconds. Events identify bundles by number and attempt,
so the scheduler recognizes and ignores duplicate and late events.
"""

from __future__ import annotations

import enum
from typing import Any, TypeAlias

import attrs
from beam_runner_model.failures import JobFailureKind
from beam_runner_model.summary import ShardSummary
from beam_runner_model.times import Duration, Timestamp
from beam_runner_model.windows import Window

from beam_runner_engine.scheduler.commands import Input
from beam_runner_engine.scheduler.data import Data


class FailureKind(enum.Enum):
    """Kind of a failed attempt. `retries` specifies the consequences of each kind."""

    USER = "user code"
    OUTSIDE = "outside of user code"
    """The attempt was lost, for example because its process exited."""
    UNAVAILABLE = "an unavailable neighbour"
    """An external system (a store, a disk, Spark, a broker or a sink) is unavailable and can recover.
    Doesn't count as an attempt.
    """
    PERMANENT = "missing or damaged data"
    """A problem that a retry can't fix."""


@attrs.frozen
class Output:
    """Data that a bundle adds to a collection."""

    collection: str
    data: Data


@attrs.frozen
class Residual:
    """Unfinished work that a bundle returns (`DelayedBundleApplication` in `beam_fn_api.proto`).

    Attributes:
        data: the unfinished elements.
        delay: the delay (processing time, ms) after this event before the work resumes.
        watermark: the output watermark (event time, ms) that the watermark estimator reported. None
            without an estimator; the earliest timestamp of the data then holds the watermark.
        estimator_state: the state of the watermark estimator, which the next bundle gets back.
        windows: the windows of the data to process; None for all.
        untouched: whether the data consists of complete inputs that the bundle didn't start to
            process. Such inputs are still truncated if truncation was required.
        whole: whether a drain processes the work to its end, without truncating it; see `Input`.
            The `delay` then also applies during a drain.
    """

    data: Data
    delay: Duration = 0
    watermark: Timestamp | None = None
    estimator_state: Any = None
    windows: frozenset[Window] | None = None
    untouched: bool = False
    whole: bool = False


@attrs.frozen
class Start:
    """Start of the job. `roots` contains the complete data of the graph's root collections."""

    now: Timestamp = 0
    roots: tuple[Output, ...] = ()


@attrs.frozen
class Tick:
    """Advance of processing time to `now` (ms). A time before the previous tick is ignored."""

    now: Timestamp


@attrs.frozen
class BundleDone:
    """Commit of a bundle, whose outputs are now durable.

    Attributes:
        bundle: the number of the bundle.
        attempt: the number of the attempt.
        outputs: the output data.
        residuals: the unfinished work.
        summary: the new summary of the shard; required for keyed stages.
        finalize: whether to request finalization callbacks with a `FinalizeBundles` command, which
            follows the commit.
    """

    bundle: int
    attempt: int
    outputs: tuple[Output, ...] = ()
    residuals: tuple[Residual, ...] = ()
    summary: ShardSummary | None = None
    finalize: bool = False


@attrs.frozen
class BundleFailed:
    """Failure of an attempt at a bundle, without any commit.

    Attributes:
        bundle: the number of the bundle.
        attempt: the number of the attempt.
        cause: a description for users.
        kind: the kind of failure.
        neighbour: the name of the unavailable external system, for the kind `UNAVAILABLE`.
        detail: a record of the caller, which the scheduler returns in `RetryReport.last` and never
            reads.
    """

    bundle: int
    attempt: int
    cause: str
    kind: FailureKind = FailureKind.USER
    neighbour: str = ""
    detail: Any = None


@attrs.frozen
class AttemptsLost:
    """Loss of the program that runs the job's bundles, and of all running attempts; no attempt
    committed anything.

    No bundle caused the loss, so the loss doesn't count as a failure. All these bundles are
    retried.
    """


@attrs.frozen
class SectionRefused:
    """Report that a section can't run as one bundle; nothing was committed. A section is several
    stages that run as one bundle.

    The stages of the section then get separate bundles for the same inputs.

    Attributes:
        bundle: the number of the bundle.
        attempt: the number of the attempt.
        reason: a description for users.
        ran: whether user code ran in the section.
    """

    bundle: int
    attempt: int
    reason: str
    ran: bool = False


@attrs.frozen
class Progress:
    """Report of the progress of a running bundle.

    Attributes:
        bundle: the number of the bundle.
        attempt: the number of the attempt.
        fraction: the finished fraction of the work, from 0 to 1.
        elapsed: the elapsed processing time (ms).
        takes_turns: whether another bundle would compete with this bundle for one interpreter (GIL)
            instead of running in parallel.
        lingers: whether the bundle has uncommitted output and mostly waits for more input.
    """

    bundle: int
    attempt: int
    fraction: float
    elapsed: Duration
    takes_turns: bool = False
    lingers: bool = False


@attrs.frozen
class YieldRequested:
    """Request to checkpoint a source's running bundle, because other bundles wait for its slot.

    The request has no effect on a bundle without restrictions.
    """

    bundle: int
    attempt: int


@attrs.frozen
class SplitDone:
    """Answer to `SplitBundle`: the work that the bundle keeps, and the work that it returns.

    Attributes:
        bundle: the number of the bundle.
        attempt: the number of the attempt.
        primary: all remaining work of the bundle, also for later attempts. The first part of a
            split restriction is `whole`: a drain doesn't truncate the part.
        residuals: the returned work; empty if the bundle could not be split. Residuals can share
            storage with the bundle's inputs, which are stored until both are done. If the split
            restriction was `whole`, the residual is also `whole`.
    """

    bundle: int
    attempt: int
    primary: tuple[Input, ...] = ()
    residuals: tuple[Residual, ...] = ()


@attrs.frozen
class Hold:
    """Request to open no bundles of some stages, until a later `Hold` that doesn't name these stages.

    Running bundles of the stages finish; bundles with restrictions get a checkpoint request. All
    other stages continue. Each `Hold` replaces the previous `Hold`, and a `Drain` releases all
    stages.

    Attributes:
        stages: the names of the stages; empty to release all stages.
    """

    stages: tuple[str, ...] = ()


@attrs.frozen
class Redeliver:
    """Request to process data again in one stage only, although the stage's watermark can have passed
    the data's timestamps.

    The data becomes pending work, and other readers of the stage's input don't get it. The work
    holds the watermarks of the stage like late data: they don't go back, and don't advance past the
    data's time before the work is processed.

    Attributes:
        stage: the name of the stage, which must be able to emit output.
        data: the data, with all facts that the stage needs.
    """

    stage: str
    data: tuple[Data, ...]


@attrs.frozen
class Drain:
    """Request to drain the job: sources end as soon as possible, and emitted data is processed
    completely.
    """


@attrs.frozen
class Cancel:
    """Request to cancel the job immediately."""


@attrs.frozen
class Abort:
    """Report that the caller can't continue the job for this `reason`. The job fails."""

    reason: str
    kind: JobFailureKind = attrs.field(default=JobFailureKind.OTHER, converter=JobFailureKind)


Event: TypeAlias = (
    Start
    | Tick
    | BundleDone
    | BundleFailed
    | AttemptsLost
    | SectionRefused
    | Progress
    | YieldRequested
    | SplitDone
    | Hold
    | Redeliver
    | Drain
    | Cancel
    | Abort
)
