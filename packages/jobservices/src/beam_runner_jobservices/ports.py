"""Interfaces between this package and a runner.

A runner gives `JobServer` one `JobExecutor`. Any thread may call any method of these interfaces.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol, TypeAlias, runtime_checkable

from beam_runner_model.jobs import (
    Importance,
    JobInfo,
    JobMetrics,
    JobSpec,
    JobState,
    MessageLine,
    MessageRecord,
)
from beam_runner_model.observation import Execution, StageTimeSeries, ThreadStack
from beam_runner_model.replays import ReplayReport
from beam_runner_model.savepoints import Savepoint
from beam_runner_model.stories import BundleHistory
from beam_runner_model.successions import RollbackRequest, Succession


class JobHandle(Protocol):
    """A job that an executor has accepted."""

    def cancel(self) -> None:
        """Requests the job's cancellation, and returns immediately. Callers can repeat the call, and can
        call it after the job's end.

        The job is then in state CANCELLING. The executor reports CANCELLED when no part of the job
        runs.
        """

    def drain(self) -> None:
        """Requests a drain of the job's sources without waiting. May be called repeatedly, and after
        the job's end.

        The job is then in state DRAINING. The executor reports DRAINED when the job has processed
        all data that the sources have emitted.
        """

    def get_metrics(self) -> JobMetrics:
        """Returns the current metrics. Should take milliseconds.

        The server calls this method once more within the report of a terminal state, on the thread
        that reports. That answer is final, and the server releases the handle. So the reporting
        thread must not hold a lock that this method needs.
        """


@runtime_checkable
class JobObserver(Protocol):
    """An optional interface of a `JobHandle`, which reports the running bundles, stages and threads of its job."""

    def get_execution(self) -> Execution:
        """Returns the running bundles, failed bundles and waits of the job. Should take milliseconds."""

    def get_stage_series(self) -> tuple[StageTimeSeries, ...]:
        """Returns the history of the job's stages over the last hour. Should take milliseconds."""

    def get_stacks(self) -> tuple[ThreadStack, ...]:
        """Returns the stacks of the threads of the job's worker processes.

        The call sends a request to each worker process and takes a few seconds at most. The result
        omits processes that don't answer.
        """


StoryTeller: TypeAlias = Callable[[str, int], BundleHistory]
"""A function that returns the journal's records about a bundle, given a job id and the bundle's
number. The job may be finished.
"""

SavepointMaker: TypeAlias = Callable[[JobInfo, str], Savepoint]
"""A function that copies the committed state of a stream to a URL, and returns when the copy is complete."""

RollbackPlanner: TypeAlias = Callable[[JobInfo, JobSpec, RollbackRequest], Mapping[str, Any]]
"""A function that returns the pipeline options for a rollback, in which the program of a replaced
job replaces the running job. Its arguments are the running job and the replaced job. It raises
`JobRejected` if the program can't run.
"""

QuarantineReplayer: TypeAlias = Callable[[JobInfo, str, bool], ReplayReport]
"""A function that feeds the failed elements in the quarantine at a URL back into a running job. The
last argument is whether to include elements whose windows have expired.
"""


class JobReporter(Protocol):
    """Interface by which an executor reports states and messages of one job. This package
    implements it.

    A report never waits for readers. A server that stores its jobs writes states to the disk before
    the report returns.
    """

    def report_state(
        self, state: JobState, reason: str | None = None, record: MessageRecord = None
    ) -> bool:
        """Reports that the job entered `state`; returns whether the job has now entered the state.

        The job is STARTING when the server calls the executor. The executor reports RUNNING and,
        once, a terminal state (DONE, FAILED, CANCELLED, DRAINED), after which no part of the job
        may run. `reason` becomes a message directly before the state, so it is the last error that
        a client reads. Give a reason with FAILED, and the same as `record` for programs.

        The method returns False, and changes nothing, in three cases. The job is already in this
        state or in a terminal one. The job is CANCELLING, and the report is an earlier state. A
        server that stores its jobs is stopping, and leaves the job to the next server. So the
        executor must keep everything that it needs to resume a job until the report of the terminal
        state has returned True.

        Raises:
            IllegalTransition: `state` can't follow the current state.
        """

    def report_message(
        self,
        importance: Importance,
        text: str,
        transform: str | None = None,
        record: MessageRecord = None,
    ) -> None:
        """Adds a line to the job's message stream, with the transform's full name if given.

        `record` has the content of the text for programs. The server truncates very long texts.
        After the terminal state, the server drops messages, because the streams have ended.
        """

    def record_succession(self, change: Succession) -> None:
        """Records the values that `change` sets: the jobs before and after the job, and its latest
        comparison with another job. Does nothing after the terminal state.
        """

    def report_messages(self, lines: Iterable[MessageLine]) -> None:
        """Adds many lines, as `message` does, at a tenth of the cost of separate calls."""


class JobExecutor(Protocol):
    """Interface that a runner implements: a callable that starts a job or rejects it."""

    def __call__(self, job: JobSpec, reporter: JobReporter) -> JobHandle:
        """Starts `job` and returns soon, because the client's Run call waits for this method.

        The server calls this method once for each job. After a restart, a server that stores its
        jobs calls the method again for each unfinished job, with the same job id. If the executor
        has a journal of that id, the executor resumes the job from the journal. If no journal
        exists and `job.resumed` is false, the executor starts the job from its beginning. If no
        journal exists and `job.resumed` is true, the data of the job is lost, and the executor
        should raise `JobRejected`. If a client has requested the job's end, the server then calls
        `JobHandle.cancel` or `JobHandle.drain`.

        The job runs on threads of the executor and reports to `reporter`. The executor may use
        `reporter` before this method returns. If a cancel or a drain arrives during this method,
        the server calls the handle as soon as the method has returned it.

        Raises:
            JobRejected: the job uses an unsupported feature, or can't be resumed. The job becomes
                FAILED, and Run fails with the reason.
            Unavailable: no resources exist to run the job, and this server will exit. The state of
                a job of an earlier server stays unchanged for the next server.
            Exception: any other error makes the job FAILED, and Run fails with INTERNAL and the
                exception's one-line text.
        """
