"""Messages of the channel between the server and its worker processes.

The server reads no byte of a peer before the peer presents a valid token. Messages from workers
aren't pickled, see ``channel.wire``. Messages to workers are pickled, because both sides run the
same version.
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

from beam_runner_runtime.channel.attempts import Attempt, BundleFailure, LanePlace, SectionRefusal
from beam_runner_runtime.clock import ProcessingClock


@attrs.frozen
class Endpoint:
    """Address of the server's channel, access token, and trusted certificate (PEM; empty without encryption)."""

    address: str
    token: str = attrs.field(repr=False)
    certificate: str = attrs.field(default="", repr=False)


# Messages from a worker process to the server.


@attrs.frozen
class WorkerHello:
    """First message of a process that starts to work for a job.

    Attributes:
        birth: identity that no other process shares (``channel.process_identity``); empty if unknown.
    """

    job_id: str
    host: str
    pid: int
    birth: str = ""

    @property
    def folder(self) -> str:
        """Name of the process's subfolder in the job's folder."""
        return f"process-{self.host}-{self.pid}"


@attrs.frozen
class LaneOpened:
    """Report that a lane in this process is ready. The server sends the first bundle after it."""

    lane: int


@attrs.frozen
class BundleProgressed:
    """Progress of the lane's running bundle.

    Attributes:
        fraction: completed fraction of the input, from 0 to 1.
        elapsed: milliseconds since the start of the bundle.
        metrics: metrics up to now.
        waits: whether user code releases its interpreter to other threads; None if unknown.
        lingers: whether the bundle has emitted output and mostly waits for more input.
        starts: whether the bundle waits for its SDK harness to start; the other fields then have no
            meaning.
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
    """Report of a processed bundle with closed output files. The server appends this record to the
    journal to commit it.

    Attributes:
        done: event for the engine's scheduler.
        state: new state of the bundle's key shard; None if the stage is stateless.
        metrics: metrics of this bundle alone.
        place: lane that ran the bundle, added by the server; None in journals of earlier versions.
    """

    done: BundleDone
    state: StateCommit | None
    metrics: tuple[MonitoringInfo, ...]
    place: LanePlace | None = None

    @property
    def attempt(self) -> Attempt:
        """Attempt at the bundle that produced this reply."""
        return Attempt(self.done.bundle, self.done.attempt)


Entry: TypeAlias = Event | BundleReply
"""Entry of a job's journal: an event of the scheduler, or the reply of a committed bundle. Replay depends on the order."""


@attrs.frozen
class LoopProgress:
    """Entries of the running loop inside a task, for one atomic commit. The loop continues.

    Attributes:
        loop: number of the loop.
        entries: entries since the last message of this type, in order.
    """

    loop: int
    entries: tuple[Entry, ...]


@attrs.frozen
class LoopReply:
    """Report that the loop inside a task has ended, with its last entries for one atomic commit.

    Attributes:
        loop: number of the loop.
        entries: entries since the last :class:`LoopProgress`, in order.
        running: attempt that continues in this process as an ordinary bundle of a lane.
        outgrown: whether the loop ended because several lanes do the remaining work faster.
    """

    loop: int
    entries: tuple[Entry, ...]
    running: Attempt | None
    outgrown: bool


@attrs.frozen
class LoopFailure:
    """Report that the loop inside a task failed and stopped.

    The server discards all results of the loop since the last :class:`LoopProgress`.

    Attributes:
        loop: number of the loop.
        reason: error text.
    """

    loop: int
    reason: str = attrs.field(converter=sanitize_text)


@attrs.frozen
class NeighbourWaitStatus:
    """Report that the process waits for an unavailable external system, and keeps its results
    meanwhile.

    Attributes:
        neighbour: name of the external system; empty if the wait is over.
        reason: cause of the latest failure.
    """

    neighbour: str = attrs.field(default="", converter=sanitize_text)
    reason: str = attrs.field(default="", converter=sanitize_text)


@attrs.frozen
class SplitReply:
    """Response to a :class:`SplitRequest`, with the parts of the bundle."""

    done: SplitDone


@attrs.frozen
class LogBatch:
    """Log records of user code and SDKs."""

    records: tuple[LogRecord, ...]


@attrs.frozen
class ExternalWorkerStarted:
    """Report that an external worker pool started an SDK harness. The runner must stop the harness with the job."""

    endpoint: str
    worker_id: str


class WorkerActivity(enum.Enum):
    """Activity of a worker process."""

    IDLE = "waits for an order"
    ORDER = "works on an order"
    LOOP = "is between two bundles of a loop"
    NEIGHBOUR = "waits for a store or a disk"
    BUNDLE = "runs a bundle"


@attrs.frozen
class Heartbeat:
    """Heartbeat, sent at intervals while the process can run Python code.

    Attributes:
        doing: current activity.
        begun: number of bundles started per stage, in total, for the stages whose number changed.
    """

    doing: WorkerActivity = WorkerActivity.IDLE
    begun: tuple[tuple[str, int], ...] = ()


@attrs.frozen
class StackDump:
    """Response to a :class:`DumpStacks`, with the stacks of all threads."""

    request: int
    threads: tuple[ThreadStack, ...]


@attrs.frozen
class WorkerClosed:
    """Last message of a process: all DoFns are torn down, and the process waits for ConfirmExit.

    Attributes:
        begun: number of bundles started per stage, in total.
    """

    begun: tuple[tuple[str, int], ...] = ()


FromWorker = (
    WorkerHello
    | LaneOpened
    | BundleProgressed
    | BundleReply
    | BundleFailure
    | SectionRefusal
    | LoopProgress
    | LoopReply
    | LoopFailure
    | NeighbourWaitStatus
    | SplitReply
    | LogBatch
    | ExternalWorkerStarted
    | Heartbeat
    | StackDump
    | WorkerClosed
)


# Messages from the server to a worker process.


@attrs.frozen
class RunBundle:
    """Order to process a bundle and to reply with a :class:`BundleReply` or a :class:`BundleFailure`.

    Attributes:
        bundle: bundle from the scheduler; the references to its data are ``RowsRef``.
        name: unique name of this attempt, and prefix of its output files.
        state: state segments of the bundle's key shard, oldest first.
    """

    bundle: Bundle
    name: str
    state: tuple[Segment, ...] = ()

    @property
    def attempt(self) -> Attempt:
        """Attempt that the worker process must run."""
        return Attempt.of_bundle(self.bundle)


@attrs.frozen
class RunLoop:
    """Order to run the job's scheduler in a task and to reply with a :class:`LoopReply`.

    Attributes:
        loop: number of the loop.
        name: unique name of this loop, and prefix of the output files of its bundles.
        scheduler: pickled scheduler of the job, which the task owns until its reply.
        segments: state segments of each key shard, by stage and shard.
    """

    loop: int
    name: str
    scheduler: bytes = attrs.field(repr=False)
    segments: Mapping[tuple[str, int], tuple[Segment, ...]]


@attrs.frozen
class LeaveLoop:
    """Order to end the loop inside a task; the running bundle continues as a bundle of the lane."""


@attrs.frozen
class SplitRequest:
    """Request to split the running bundle. A :class:`SplitReply` always follows, even without a split.

    Attributes:
        keep: fraction of the remainder that stays with the bundle.
    """

    attempt: Attempt
    keep: float


@attrs.frozen
class DumpStacks:
    """Request for the stacks of all threads. :class:`StackDump` follows, even if the process is busy."""

    request: int


@attrs.frozen
class RunFinalizers:
    """Command to a process: run the finalization callbacks of the committed bundles that it ran."""

    bundles: tuple[Attempt, ...]


@attrs.frozen
class CloseLane:
    """Order to end the lane when it is idle. The Spark task ends, and the worker process continues."""


@attrs.frozen
class TearDownDoFns:
    """Order to tear down DoFns while Spark ends the lanes. No bundle follows."""


@attrs.frozen
class EndJob:
    """Order to tear down DoFns, unless done already, and to reply with `WorkerClosed`."""


@attrs.frozen
class AbandonBundle:
    """Order to abandon the running bundle, whose result isn't needed."""


@attrs.frozen
class ExitProcess:
    """Order to exit at once, even during user code. Work in SDK harnesses is abandoned."""


@attrs.frozen
class ConfirmExit:
    """Order to exit after `WorkerClosed`. The stream stays open until the process exits."""


FromServer = (
    RunBundle
    | RunLoop
    | LeaveLoop
    | SplitRequest
    | DumpStacks
    | RunFinalizers
    | CloseLane
    | TearDownDoFns
    | EndJob
    | AbandonBundle
    | ExitProcess
    | ConfirmExit
)


@attrs.frozen
class JobWork:
    """Data that worker processes request from the server."""

    plan: JobPlan
    shards: int
    store: StoreSpec
    hides_elements: bool = False
    now: int = attrs.field(factory=lambda: ProcessingClock().now())
    folder: str = ""
    checks_watermarks: bool = False
    client_folder: str = ""
