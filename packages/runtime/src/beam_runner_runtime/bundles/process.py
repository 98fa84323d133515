"""Worker process: runs the bundles of one job, one bundle at a time, until the job ends.

Beam stores options, modules and coders per process. So a process never serves two jobs. The process
exits when its job ends, and Spark's preloaded daemon forks a new process for the next job.
"""

from __future__ import annotations

import logging
import os
import queue
import socket
import threading
from collections.abc import Callable
from typing import NoReturn

from beam_runner_data.fetching.access import get_local_files_folder
from beam_runner_data.fetching.file_cache import FileCache
from beam_runner_data.state.shard_stores import ShardStores
from beam_runner_engine.scheduler.events import SplitDone
from beam_runner_model.threads import start_essential_thread, start_helper_thread
from beam_runner_worker.awaiting_commit import CommitData
from beam_runner_worker.ports import StageHarness

from beam_runner_runtime.bundles.activity import ActivityCounter
from beam_runner_runtime.bundles.bundle import LocalBundle
from beam_runner_runtime.bundles.bundle_data import BundleData, FolderData
from beam_runner_runtime.bundles.durability import CommittedFiles
from beam_runner_runtime.bundles.failed_attempts import describe_failed_attempt
from beam_runner_runtime.bundles.heartbeat import start_heartbeat
from beam_runner_runtime.bundles.interrupt_user_code import UserCodeInterrupter
from beam_runner_runtime.bundles.keyed import KeyedStoreProvider
from beam_runner_runtime.bundles.loop import TaskLoop
from beam_runner_runtime.bundles.neighbour_wait import OutageRetry
from beam_runner_runtime.bundles.progress_reporter import ProgressReporter
from beam_runner_runtime.bundles.stages import JobStages
from beam_runner_runtime.bundles.started_bundles import StartedBundleCounts
from beam_runner_runtime.channel.attempts import Attempt, BundleFailure
from beam_runner_runtime.channel.client import ChannelClient
from beam_runner_runtime.channel.exits import send_folder_to_parent
from beam_runner_runtime.channel.messages import (
    AbandonBundle,
    BundleProgressed,
    BundleReply,
    CloseLane,
    ConfirmExit,
    EndJob,
    Endpoint,
    ExitProcess,
    FromServer,
    Heartbeat,
    LaneOpened,
    LeaveLoop,
    LoopFailure,
    RunBundle,
    RunFinalizers,
    RunLoop,
    SplitReply,
    SplitRequest,
    TearDownDoFns,
    WorkerActivity,
    WorkerClosed,
    WorkerHello,
)
from beam_runner_runtime.channel.process_identity import read_process_identity
from beam_runner_runtime.client_folder import enter_client_folder
from beam_runner_runtime.clock import ProcessingClock
from beam_runner_runtime.job_options import is_loopback
from beam_runner_runtime.shutdown.limits import LIMITS
from beam_runner_runtime.tuning import TUNING

_LOGGER = logging.getLogger(__name__)
_Request = SplitRequest | AbandonBundle | RunFinalizers | TearDownDoFns | EndJob


class WorkerProcess:
    """This worker process, bound to one job. Use :func:`bind_worker_process` to create the object.

    Attributes:
        data: reader and writer of the files in the job's folder.
        scratch: folder of this process within the job's folder.
        clock: processing-time clock of the job.
        progress: function that returns the progress of a bundle.
    """

    def __init__(self, endpoint: Endpoint, job_id: str) -> None:
        self.job_id = job_id
        self.channel = ChannelClient(endpoint, job_id)
        self._orders: queue.SimpleQueue[RunBundle | RunLoop | CloseLane] = queue.SimpleQueue()
        self._requests: queue.SimpleQueue[_Request] = queue.SimpleQueue()
        self._looping: TaskLoop | None = None
        self._leaves_loop = False
        self._finalizers: CommitData[Attempt, tuple[StageHarness, str]] = CommitData()
        self._busy = threading.Lock()
        self._splitting = threading.Lock()
        self._running: LocalBundle | None = None
        self._closed = False
        self._giving_up = UserCodeInterrupter(lambda: self._running)
        self._activity = ActivityCounter()
        hello = WorkerHello(
            job_id, socket.gethostname(), os.getpid(), read_process_identity(os.getpid())
        )
        self.channel.open_message_stream(hello, self._handle_command, self._handle_lost_server)
        self.work = self.channel.request_job_work()
        if self.work.client_folder:
            enter_client_folder(self.work.client_folder)
        os.environ.update(self.work.variables)
        self.clock = ProcessingClock.create_synchronized_clock(self.work.now)
        streaming = self.work.plan.streaming
        self._wait = OutageRetry(
            self.channel.send,
            TUNING.hold_seconds if streaming else TUNING.hold_in_batch_seconds,
            lambda: not self._giving_up.has_begun,
            get_local_files_folder(self.work.store),
            self._activity,
        )
        self._cache = self._wait(lambda: FileCache.open(self.work.store))
        self.folder = self._cache.folder
        self.data = FolderData(self.folder, self._cache.in_extents)
        self.scratch = self.folder / hello.folder
        send_folder_to_parent(self.scratch)
        self.stages = JobStages(self.work, self.folder, self.scratch, self.clock, self.channel)
        self._stores = ShardStores(self.folder, hello.folder)
        self._files = CommittedFiles(self._cache, self.work.plan.stages, self._wait)
        self._begun = StartedBundleCounts()
        self._vitals = self._wait(
            lambda: start_heartbeat(
                self.scratch,
                self.channel.send,
                lambda: Heartbeat(
                    self._activity.get_current_activity(), self._begun.take_unreported_counts()
                ),
            )
        )
        self.progress: Callable[[LocalBundle], BundleProgressed | None] = LocalBundle.get_progress
        self._teller = ProgressReporter(
            lambda: self._running,
            lambda running: self.progress(running),
            self.channel.send,
            self.work.plan.list_source_stage_ids(),
            in_turns=self.work.plan.shares_one_interpreter,
        )
        start_essential_thread(self._teller.run, "progress")
        start_essential_thread(self._handle_requests, "requests")

    def serve_lane(self, lane: int) -> None:
        """Runs the bundles that the server assigns to this lane (the connection of this process),
        until the server closes the lane.
        """
        self.channel.send(LaneOpened(lane))
        while not isinstance(order := self._orders.get(), CloseLane):
            with self._activity.track_activity(WorkerActivity.ORDER):
                if isinstance(order, RunLoop):
                    self._execute_loop_order(order)
                else:
                    self._files.record_order_files(order)
                    self._send_reply(self.run_bundle(order, self._stores))

    def close(self) -> None:
        """Tears down all DoFns, and reports to the server that the process is closed. Further calls do nothing."""
        self._tear_down()
        with self._busy:
            if not self._closed:
                self._closed = True
                self.channel.send(WorkerClosed(self._begun.list_counts()))

    def run_section_bundle(
        self, order: RunBundle, stores: KeyedStoreProvider, data: BundleData
    ) -> BundleReply | BundleFailure:
        """Runs a bundle of a section (stages that run as one Spark job) with the given state and
        data. Stores the files that the bundle's reply refers to.
        """
        reply = self.run_bundle(order, stores, data=data)
        self._running = None
        return self._files.persist_reply(reply)

    def run_bundle(
        self,
        order: RunBundle,
        stores: KeyedStoreProvider,
        *,
        data: BundleData | None = None,
    ) -> BundleReply | BundleFailure:
        """Runs a bundle in this thread and returns the bundle's reply
        (``bundles.loop.BundleHost``).

        ``data`` is the input and output of a section's bundle; None for a bundle of a lane, which
        uses the job's folder.
        """
        attempt = order.attempt
        with self._busy, self._activity.track_activity(WorkerActivity.BUNDLE):
            try:
                self._files.fetch_inputs(order)
                stage = self.stages.get_stage(order.bundle.stage)
                stage.side_inputs.set_visible_data(order.bundle.side_inputs)
                running = LocalBundle(
                    stage.work if data is None else stage.work.copy_for_section(),
                    order,
                    stage.harness,
                    stores,
                    data or self.data,
                    stage.merger,
                    stage.truncation,
                    # If Spark retries a task of a section, the section still has the same attempt number.
                    self._begun.count_started_bundle if data is None else None,
                )
            except Exception as error:
                loopback = is_loopback(self.work.plan.context.options_json)
                return describe_failed_attempt(attempt, error, self.folder, is_loopback=loopback)
            self._running = running
            if self._giving_up.has_begun and not running.is_embedded:
                return describe_failed_attempt(
                    attempt, InterruptedError("the job has ended"), self.folder
                )
            self._vitals.record_stage(order.bundle.stage)
            self._teller.notify_bundle_start(order.bundle.stage)
            reply = running.run()
            if isinstance(reply, BundleReply) and reply.done.finalize:
                self._finalizers.store_bundle_data(
                    running.attempt, (stage.harness, running.bundle_id)
                )
            return reply

    def _tear_down(self) -> None:
        with self._busy:
            self.stages.close()

    def _execute_loop_order(self, order: RunLoop) -> None:
        try:
            reply = self._run_loop(order)
        except Exception as error:
            # Report the failure. Otherwise, the server would wait forever for the end of the
            # scheduler loop in this process.
            _LOGGER.warning("the loop %s failed", order.loop, exc_info=True)
            self.channel.send(LoopFailure(order.loop, f"{type(error).__name__}: {error}"))
            reply = None
        finally:
            self._looping = None
        if reply is not None:
            self._send_reply(reply)
        self._running = None

    def _run_loop(self, order: RunLoop) -> BundleReply | BundleFailure | None:
        self._files.record_order_files(order)
        sources, send = (
            self.work.plan.list_source_stage_ids(),
            self._files.persist_before_send(self.channel.send),
        )
        loop = TaskLoop(order, self.folder, self, send, sources, self.clock, self._wait)
        self._looping = loop
        if self._leaves_loop:  # The request to leave arrived before the loop existed.
            loop.request_loop_end()
        with self._activity.track_activity(WorkerActivity.LOOP):
            return loop.run_loop()

    def _send_reply(self, reply: BundleReply | BundleFailure) -> None:
        reply = self._files.persist_reply(reply)
        # The server must receive the residuals of a split before it commits the rest of the bundle.
        with self._splitting:
            self._running = None
        self.channel.send(reply)

    def _handle_requests(self) -> None:
        """Handles requests for splits, finalization and teardown, in a separate thread, because the
        requests can block.
        """
        while True:
            match self._requests.get():
                case SplitRequest() as request:
                    with self._splitting:
                        self.channel.send(self._split_running_bundle(request))
                case AbandonBundle():
                    self._giving_up.split_running_bundle()
                case RunFinalizers(bundles):
                    for attempt in bundles:
                        self._run_callbacks(attempt)
                case TearDownDoFns():
                    self._tear_down()
                case EndJob():
                    self.close()

    def _run_callbacks(self, attempt: Attempt) -> None:
        kept = self._finalizers.take_bundle_data(attempt)
        if kept is not None:
            harness, bundle_id = kept
            try:
                harness.finalize_bundle(bundle_id)
            except Exception:
                # The bundle is already committed, so a failed callback must not fail the bundle.
                _LOGGER.exception("the callbacks of bundle %s failed", attempt.bundle)

    def _split_running_bundle(self, request: SplitRequest) -> SplitReply:
        running = self._running
        if running is not None and running.attempt == request.attempt:
            return running.split(request.keep)
        return SplitReply(SplitDone(request.attempt.bundle, request.attempt.attempt))

    def _handle_command(self, command: FromServer) -> None:
        # End the scheduler loop in this process before the process refuses bundles. Otherwise, the
        # loop would count the refused bundles as failures of the job.
        if isinstance(command, RunLoop):
            self._leaves_loop = self._giving_up.has_begun
        elif isinstance(command, LeaveLoop | AbandonBundle | ExitProcess):
            self._leaves_loop = True
            if looping := self._looping:
                looping.request_loop_end()
        match command:
            case RunBundle() | RunLoop() | CloseLane():
                self._orders.put(command)
            case SplitRequest() | RunFinalizers() | TearDownDoFns() | EndJob():
                self._requests.put(command)
            case AbandonBundle():
                self._giving_up.refuse_new_bundles()
                self._requests.put(command)
            case ExitProcess():
                self._giving_up.refuse_new_bundles()
                start_helper_thread(self._giving_up.split_running_bundle, "giving up").join(
                    LIMITS.give_up_seconds
                )
                self._exit_process(1)
            case ConfirmExit():
                self._exit_process(0)

    def _exit_process(self, code: int) -> NoReturn:
        """Closes the file cache and exits the process."""
        try:
            self._cache.close()
        finally:
            os._exit(code)

    def _handle_lost_server(self) -> None:
        if not self._closed:
            self._exit_process(1)
