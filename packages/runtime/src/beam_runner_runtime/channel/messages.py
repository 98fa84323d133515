"""Messages of the channel between the server and its worker processes.

The server reads a message only after the sender has presented a valid token. Messages from workers
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
from beam_runner_model.quarantine import QuarantinedUnit
from beam_runner_model.texts import sanitize_text
from beam_runner_planner.plan import JobPlan
from beam_runner_storage.stores.spec import StoreSpec
from beam_runner_worker.log_records import LogRecord

from beam_runner_runtime.channel.attempts import Attempt, BundleFailure, LanePlace, SectionRefusal
from beam_runner_runtime.channel.isolation import IsolationOrder
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
    """First message of a worker process, with its identity.

    Attributes:
        birth: unique identity of the process (``channel.process_identity``); empty if unknown.
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
    """Report that this process is ready for the first bundle of a lane (worker slot)."""

    lane: int


@attrs.frozen
class BundleProgressed:
    """Progress of the bundle that the process's lane runs.

    Attributes:
        fraction: completed fraction of the input, from 0 to 1.
        elapsed: milliseconds since the start of the bundle.
        metrics: metrics up to now.
        waits: whether user code leaves its interpreter to other threads; None if unknown.
        lingers: whether the bundle has emitted output and mostly waits for more input.
        starts: whether the bundle waits for its SDK harness to start; if so, ignore the other
            fields.
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
    """Report of a processed bundle, with its output. The server appends this record to the journal
    to commit the bundle.

    Attributes:
        done: event for the engine's scheduler.
        state: new state of the bundle's key shard; None if the stage is stateless.
        metrics: metrics of this bundle alone.
        place: lane that ran the bundle, added by the server; None in journals of earlier versions.
        quarantined: elements, groups and timers that go to quarantine, because they always fail.
    """

    done: BundleDone
    state: StateCommit | None
    metrics: tuple[MonitoringInfo, ...]
    place: LanePlace | None = None
    quarantined: tuple[QuarantinedUnit, ...] = ()

    @property
    def attempt(self) -> Attempt:
        """Attempt at the bundle that produced this reply."""
        return Attempt(self.done.bundle, self.done.attempt)


Entry: TypeAlias = Event | BundleReply
"""Entry of a job's journal: an event of the scheduler, or the reply of a committed bundle. The
order of entries matters.
"""


@attrs.frozen
class LoopProgress:
    """Report of the running scheduler loop, with journal entries for one atomic commit.

    Attributes:
        loop: number of the loop.
        entries: entries since the last message of this type, in order.
    """

    loop: int
    entries: tuple[Entry, ...]


@attrs.frozen
class LoopReply:
    """Report that the scheduler loop has ended, with journal entries for one atomic commit.

    Attributes:
        loop: number of the loop.
        entries: entries since the last :class:`LoopProgress`, in order.
        running: attempt at a bundle that continues in this process after the loop.
        outgrown: whether the loop ended because several lanes in parallel are faster.
    """

    loop: int
    entries: tuple[Entry, ...]
    running: Attempt | None
    outgrown: bool


@attrs.frozen
class LoopFailure:
    """Report that the scheduler loop in this process failed and stopped.

    The server discards all results of the loop since the last :class:`LoopProgress`.

    Attributes:
        loop: number of the loop.
        reason: error text.
    """

    loop: int
    reason: str = attrs.field(converter=sanitize_text)


@attrs.frozen
class NeighbourWaitStatus:
    """Report that the process waits for an unavailable store or disk, to save its finished results.

    Attributes:
        neighbour: name of the external system; empty if the wait is over.
        reason: cause of the latest failure.
    """

    neighbour: str = attrs.field(default="", converter=sanitize_text)
    reason: str = attrs.field(default="", converter=sanitize_text)


@attrs.frozen
class SplitReply:
    """Response to a :class:`SplitRequest`, with the input that stays in the bundle and the residuals."""

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
    """Kinds of activities of a worker process, which heartbeats report."""

    IDLE = "waits for an order"
    ORDER = "works on an order"
    LOOP = "is between two bundles of a loop"
    NEIGHBOUR = "waits for a store or a disk"
    BUNDLE = "runs a bundle"


@attrs.frozen
class Heartbeat:
    """Periodic message that shows that the process can run Python code.

    Attributes:
        doing: current activity.
        begun: total number of started bundles by stage, for the stages whose number changed.
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
        begun: total number of started bundles by stage.
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
        bundle: bundle from the scheduler. Its references to data are of the type ``RowsRef``.
        name: unique name of this attempt, and prefix of its output files.
        state: state segments of the bundle's key shard, oldest first.
        isolation: rules by which failing elements are isolated; None if the job has no quarantine.
    """

    bundle: Bundle
    name: str
    state: tuple[Segment, ...] = ()
    isolation: IsolationOrder | None = None

    @property
    def attempt(self) -> Attempt:
        """Attempt that the worker process must run."""
        return Attempt.from_bundle(self.bundle)


@attrs.frozen
class RunLoop:
    """Order to run the job's scheduler in this process, and to reply with a :class:`LoopReply`.

    Attributes:
        loop: number of the loop.
        name: unique name of this loop, and prefix of the output files of its bundles.
        scheduler: pickled scheduler of the job. Until the reply, only this process may use it.
        segments: state segments of each key shard, by stage and shard.
        isolation: rules by which failing elements are isolated; None if the job has no quarantine.
    """

    loop: int
    name: str
    scheduler: bytes = attrs.field(repr=False)
    segments: Mapping[tuple[str, int], tuple[Segment, ...]]
    isolation: IsolationOrder | None = None


@attrs.frozen
class LeaveLoop:
    """Order to end the scheduler loop in this process. The running bundle continues."""


@attrs.frozen
class SplitRequest:
    """Request to split the running bundle. A :class:`SplitReply` always follows, even without a split.

    Attributes:
        keep: fraction of the unprocessed input that stays in the bundle.
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
    """Order to end an idle lane. The Spark task ends, and the worker process waits for its next lane."""


@attrs.frozen
class TearDownDoFns:
    """Order to tear down DoFns early, while other lanes of the job still end. No bundle follows."""


@attrs.frozen
class EndJob:
    """Order to tear down DoFns, unless done already, and to reply with `WorkerClosed`."""


@attrs.frozen
class AbandonBundle:
    """Order to stop the running bundle as soon as possible, because its result isn't needed."""


@attrs.frozen
class ExitProcess:
    """Order to exit immediately, even during user code, without waiting for SDK harnesses."""


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
    variables: Mapping[str, str] = attrs.field(factory=dict, repr=False)
    """Environment variables of user code, by name."""
