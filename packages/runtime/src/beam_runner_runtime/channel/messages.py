"""The messages of the channel: what the server and worker processes tell each other.

Nobody reads a byte of a peer that has not shown a token of the server's before. What workers send is no pickle, see
``channel.wire``; what the server sends them is one, since both are this package in the same version.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import TypeAlias

import attrs
from beam_runner_data.rows.refs import Segment, StateCommit
from beam_runner_engine.scheduler.commands import Bundle
from beam_runner_engine.scheduler.events import BundleDone, Event, SplitDone
from beam_runner_model.bundles import MonitoringInfo
from beam_runner_model.observation import ThreadStack
from beam_runner_model.texts import sanitize_text
from beam_runner_planner.plan import JobPlan
from beam_runner_storage.stores.spec import StoreSpec
from beam_runner_worker.log_records import LogRecord

from beam_runner_runtime.channel.attempts import Attempt, BundleBroke, LanePlace, SectionRefusal
from beam_runner_runtime.clock import ProcessingClock


@attrs.frozen
class Endpoint:
    """Where the server's channel is, what opens it, and the only certificate that is believed (PEM), if it has one."""

    address: str
    token: str = attrs.field(repr=False)
    certificate: str = attrs.field(default="", repr=False)


# From a worker process to the server.


@attrs.frozen
class Hello:
    """A process begins to work for a job; always the first message.

    Attributes:
        birth: tells it from others with its number (``channel.births``); empty if that is not known.
    """

    job_id: str
    host: str
    pid: int
    birth: str = ""

    @property
    def folder(self) -> str:
        """Where in the job's folder the process may keep what goes with it."""
        return f"process-{self.host}-{self.pid}"


@attrs.frozen
class LaneOpened:
    """A lane is ready for its first bundle in this process; it is told nothing before that."""

    lane: int


@attrs.frozen
class BundleProgressed:
    """How far the lane's running bundle is.

    Attributes:
        fraction: of its input that is done, from 0 to 1.
        elapsed: milliseconds since it began.
        metrics: so far.
        waits: whether its user code leaves time to others in its interpreter; None if that is not
            known.
        lingers: it has put out something, and mostly waits for more to come.
        starts: it waits for its SDK harness, which is still being started; nothing else is known of it.
    """

    attempt: Attempt
    fraction: float
    elapsed: int
    metrics: tuple[MonitoringInfo, ...]
    waits: bool | None = None
    lingers: bool = False
    starts: bool = False


@attrs.frozen
class BundleReply:
    """A bundle is processed, and all it has written is closed: the server may commit it.

    What the server commits it by is this record, as an entry of the job's journal.

    Attributes:
        done: the engine's event.
        state: what became of its shard's state; None if the stage keeps none.
        metrics: of this bundle alone.
        place: the lane that ran the bundle, which the server adds; None in journals of earlier versions.
    """

    done: BundleDone
    state: StateCommit | None
    metrics: tuple[MonitoringInfo, ...]
    place: LanePlace | None = None

    @property
    def attempt(self) -> Attempt:
        """Which attempt at which bundle that was."""
        return Attempt(self.done.bundle, self.done.attempt)


Entry: TypeAlias = Event | BundleReply
"""What the journal of a job consists of, in order: events of the engine, commits among them."""


@attrs.frozen
class LoopProgress:
    """What has happened in the loop inside a task, to be committed together; the loop goes on.

    Attributes:
        loop: its number.
        entries: in order, since the last of these messages.
    """

    loop: int
    entries: tuple[Entry, ...]


@attrs.frozen
class LoopReply:
    """The loop inside a task was left; what has happened in it is to be committed together.

    Attributes:
        loop: its number.
        entries: in order, since the last :class:`LoopProgress`.
        running: the bundle that goes on in this process, as any bundle of a lane does.
        outgrown: it was left because what there is to do is better done by several lanes.
    """

    loop: int
    entries: tuple[Entry, ...]
    running: Attempt | None
    outgrown: bool


@attrs.frozen
class LoopBroke:
    """The loop inside a task has ended by an error, and runs nothing any more.

    Nothing counts that has happened in it since the last :class:`LoopProgress`.

    Attributes:
        loop: its number.
        reason: the error.
    """

    loop: int
    reason: str = attrs.field(converter=sanitize_text)


@attrs.frozen
class NeighbourAwaited:
    """The process waits for a neighbour that is away, and keeps what it has done.

    Attributes:
        neighbour: the neighbour; empty if the process waits no longer.
        reason: the cause of the latest failure.
    """

    neighbour: str = attrs.field(default="", converter=sanitize_text)
    reason: str = attrs.field(default="", converter=sanitize_text)


@attrs.frozen
class SplitReply:
    """The answer to a :class:`SplitRequest`."""

    done: SplitDone


@attrs.frozen
class Logged:
    """What user code and SDKs have logged."""

    records: tuple[LogRecord, ...]


@attrs.frozen
class ExternalWorkerStarted:
    """A worker pool outside was asked for an SDK harness, which must be stopped with the job."""

    endpoint: str
    worker_id: str


class Doing(enum.Enum):
    """What a worker process does."""

    IDLE = "waits for an order"
    ORDER = "works on an order"
    LOOP = "is between two bundles of a loop"
    NEIGHBOUR = "waits for a store or a disk"
    BUNDLE = "runs a bundle"


@attrs.frozen
class Beat:
    """The process can still speak: said from time to time, as long as any of its Python code runs.

    Attributes:
        doing: what it does.
        begun: how many bundles of a stage it has begun in all, for the stages of which that has changed.
    """

    doing: Doing = Doing.IDLE
    begun: tuple[tuple[str, int], ...] = ()


@attrs.frozen
class Stacks:
    """The answer to a :class:`DumpStacks`."""

    request: int
    threads: tuple[ThreadStack, ...]


@attrs.frozen
class Closed:
    """All DoFns are torn down, and there is nothing more to say; the process waits for Goodbye.

    Attributes:
        begun: how many bundles of each stage it has begun in all.
    """

    begun: tuple[tuple[str, int], ...] = ()


FromWorker = (
    Hello
    | LaneOpened
    | BundleProgressed
    | BundleReply
    | BundleBroke
    | SectionRefusal
    | LoopProgress
    | LoopReply
    | LoopBroke
    | NeighbourAwaited
    | SplitReply
    | Logged
    | ExternalWorkerStarted
    | Beat
    | Stacks
    | Closed
)


# From the server to a worker process.


@attrs.frozen
class RunBundle:
    """Process a bundle and answer with a :class:`BundleReply` or a :class:`BundleBroke`.

    Attributes:
        bundle: what the scheduler opened; the refs of its data are ``RowsRef``.
        name: unique to this attempt, whoever runs it when: what it writes is named after it.
        state: the segments of its shard's state, oldest first.
    """

    bundle: Bundle
    name: str
    state: tuple[Segment, ...] = ()

    @property
    def attempt(self) -> Attempt:
        """Which attempt at the bundle it is."""
        return Attempt.of(self.bundle)


@attrs.frozen
class RunLoop:
    """Drive the job from here for a while, and answer with a :class:`LoopReply`.

    Attributes:
        loop: its number.
        name: unique to this loop: what its bundles write is named after it.
        scheduler: the job's scheduler, pickled, which rules from now on until the reply.
        segments: the state of every key shard, by stage and shard.
    """

    loop: int
    name: str
    scheduler: bytes = attrs.field(repr=False)
    segments: Mapping[tuple[str, int], tuple[Segment, ...]]


@attrs.frozen
class LeaveLoop:
    """Leave the loop as soon as the bundle that runs in it is known to the server."""


@attrs.frozen
class SplitRequest:
    """Split the running bundle and answer with a :class:`SplitReply`, whatever became of it.

    Attributes:
        keep: the fraction of the remainder that the bundle keeps.
    """

    attempt: Attempt
    keep: float


@attrs.frozen
class DumpStacks:
    """Tell what all threads do; answered with :class:`Stacks`, whatever else the process does."""

    request: int


@attrs.frozen
class Finalize:
    """Run the finalization callbacks of committed bundles that this process has run."""

    bundles: tuple[Attempt, ...]


@attrs.frozen
class CloseLane:
    """Leave the lane once idle: the Spark task ends; the process stays."""


@attrs.frozen
class TearDown:
    """No bundle follows: tear down, while Spark ends the lanes."""


@attrs.frozen
class EndJob:
    """Tear down, if that is not done, then say so."""


@attrs.frozen
class GiveUp:
    """Go no further with the bundle that runs: what comes of it is not wanted any more."""


@attrs.frozen
class ExitNow:
    """Exit at once, whatever user code is doing; what it does in another's process is given up."""


@attrs.frozen
class Goodbye:
    """All was heard: exit. The stream stays open, so that its end is the end of the process."""


FromServer = (
    RunBundle
    | RunLoop
    | LeaveLoop
    | SplitRequest
    | DumpStacks
    | Finalize
    | CloseLane
    | TearDown
    | EndJob
    | GiveUp
    | ExitNow
    | Goodbye
)


# What a worker process asks for.


@attrs.frozen
class JobWork:
    """All that a process must know of a job: asked for once, when it begins to work for it.

    Attributes:
        plan: the job's.
        shards: how many key shards there are.
        store: where the job's files lie.
        hides_elements: whether errors must not show the element that was processed.
        now: the job's processing time (ms).
        folder: the job's folder on the server's machine.
        checks_watermarks: whether bundles fail where a watermark overtakes data.
    """

    plan: JobPlan
    shards: int
    store: StoreSpec
    hides_elements: bool = False
    now: int = attrs.field(factory=lambda: ProcessingClock().now())
    folder: str = ""
    checks_watermarks: bool = False
