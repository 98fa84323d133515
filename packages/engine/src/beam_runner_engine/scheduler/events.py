"""All that can happen to a job: the records `Scheduler.handle` takes.

Event time and processing time are in milliseconds. Bundles are told by number and attempt, so that
an answer which comes twice or too late is recognised and changes nothing.
"""

from __future__ import annotations

import enum
from typing import Any, TypeAlias

import attrs
from beam_runner_model.failures import EndingKind
from beam_runner_model.summary import ShardSummary
from beam_runner_model.times import Duration, Timestamp
from beam_runner_model.windows import Window

from beam_runner_engine.scheduler.commands import Input
from beam_runner_engine.scheduler.data import Data


class FailureKind(enum.Enum):
    """Cause of a failed attempt; `retries` says what follows from each."""

    USER = "user code"
    OUTSIDE = "outside of user code"
    """The attempt was lost, for example with its process."""
    UNAVAILABLE = "an unavailable neighbour"
    """A store, a disk, Spark, a broker or a sink is away, and may come back. Not an attempt."""
    PERMANENT = "missing or damaged data"
    """Something that waiting can't mend."""


@attrs.frozen
class Output:
    """Data that a bundle added to a collection."""

    collection: str
    data: Data


@attrs.frozen
class Residual:
    """Work that a bundle hands back unfinished (`DelayedBundleApplication` in `beam_fn_api.proto`).

    It resumes `delay` ms of processing time after the event that brings it. `watermark` (ms) is the
    output watermark its watermark estimator reported, None without one: then the data's own
    earliest time holds the watermark. `estimator_state` is handed back when it resumes. `windows`
    narrows it to some windows of the data, None is all. `untouched` says that these are whole
    inputs the bundle had not begun with: if they had to be truncated, they still have. `whole` says that
    no drain truncates it, see `Input`; its `delay` then also counts in a drain.
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
    """The job begins. `roots` is the data of the graph's root collections, all there will be."""

    now: Timestamp = 0
    roots: tuple[Output, ...] = ()


@attrs.frozen
class Tick:
    """Processing time has reached `now` (ms). An earlier time than the last is passed over."""

    now: Timestamp


@attrs.frozen
class BundleDone:
    """A bundle has been committed: its outputs are durable.

    Bundles of keyed stages must bring their shard's new `summary`. `finalize` asks for a
    `FinalizeBundles` command, which is thereby always after the commit.
    """

    bundle: int
    attempt: int
    outputs: tuple[Output, ...] = ()
    residuals: tuple[Residual, ...] = ()
    summary: ShardSummary | None = None
    finalize: bool = False


@attrs.frozen
class BundleFailed:
    """An attempt at a bundle failed; nothing of it was committed. `cause` is told to the user.

    `neighbour` names what was unavailable, if the kind is `UNAVAILABLE`. `detail` is a record of the
    host, which the scheduler hands back in `Retry.last` and never reads.
    """

    bundle: int
    attempt: int
    cause: str
    kind: FailureKind = FailureKind.USER
    neighbour: str = ""
    detail: Any = None


@attrs.frozen
class AttemptsLost:
    """The host, or the part of it that ran all open bundles, was lost: nothing of them was committed.

    No bundle is to blame, so this is no failure of any. Each is tried again.
    """


@attrs.frozen
class SectionRefused:
    """The host can't run this section as one, for a `reason`; nothing of it was committed.

    Its stages then have bundles of their own, over the same inputs. `ran` says whether user code has
    run in it.
    """

    bundle: int
    attempt: int
    reason: str
    ran: bool = False


@attrs.frozen
class Progress:
    """How far a running bundle is: `fraction` of its work after `elapsed` ms of processing time.

    `takes_turns` says that another bundle would not run beside it, but take turns with it; `lingers`
    that it has put out something, which is not committed yet, and mostly waits for more to come.
    """

    bundle: int
    attempt: int
    fraction: float
    elapsed: Duration
    takes_turns: bool = False
    lingers: bool = False


@attrs.frozen
class GiveWay:
    """Others wait for the place of a running bundle: the rest of its restrictions shall come in another.

    Changes nothing where a bundle has no restrictions.
    """

    bundle: int
    attempt: int


@attrs.frozen
class SplitDone:
    """The answer to `SplitBundle`: what the bundle keeps and what it gives away.

    No `residuals` means that it could not be split. Otherwise `primary` is all that is left for
    the bundle to do, also in another attempt. The residuals may share storage with the bundle's
    inputs, which are kept until both are done. Of a restriction that was cut, the part in `primary` is
    marked as `whole`; of one that was whole before, both parts are.
    """

    bundle: int
    attempt: int
    primary: tuple[Input, ...] = ()
    residuals: tuple[Residual, ...] = ()


@attrs.frozen
class Drain:
    """The sources shall end as soon as they can; what they have given is processed to the end."""


@attrs.frozen
class Cancel:
    """The job shall end now, as cancelled."""


@attrs.frozen
class Abort:
    """The host can't go on with the job, for this `reason`: it ends as failed."""

    reason: str
    kind: EndingKind = attrs.field(default=EndingKind.OTHER, converter=EndingKind)


Event: TypeAlias = (
    Start
    | Tick
    | BundleDone
    | BundleFailed
    | AttemptsLost
    | SectionRefused
    | Progress
    | GiveWay
    | SplitDone
    | Drain
    | Cancel
    | Abort
)
