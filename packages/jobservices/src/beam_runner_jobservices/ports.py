"""What this package asks of a runner, and what it offers to it.

A runner gives `JobServer` one `JobExecutor`. All methods here may be called from any thread.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol, TypeAlias, runtime_checkable

from beam_runner_model.jobs import (
    Importance,
    JobMetrics,
    JobSpec,
    JobState,
    MessageLine,
    MessageRecord,
)
from beam_runner_model.observation import Execution, StageSeries, ThreadStack
from beam_runner_model.stories import BundleStory


class JobHandle(Protocol):
    """A job that an executor has taken on."""

    def cancel(self) -> None:
        """Ask the job to stop. Returns at once; may be called more than once, and after the end.

        The job is then in state CANCELLING; the executor reports CANCELLED when nothing of it runs
        any more.
        """

    def drain(self) -> None:
        """Ask the job's sources to end, and the job with them. Returns at once; may be called more
        than once, and after the end.

        The job is then in state DRAINING; the executor reports DRAINED when all that the sources
        had given is processed.
        """

    def metrics(self) -> JobMetrics:
        """The metrics so far. Should take milliseconds.

        Asked for once more from within the report of a terminal state, on the thread that reports;
        the answer is final, and the handle is let go. So no lock that this needs may be held then.
        """


@runtime_checkable
class JobObserver(Protocol):
    """What a `JobHandle` may be besides: one that tells what its job does at this moment."""

    def execution(self) -> Execution:
        """What the job does now, as far as it is known here. Should take milliseconds."""

    def series(self) -> tuple[StageSeries, ...]:
        """How the job's stages have been getting on for the last hour. Should take milliseconds."""

    def stacks(self) -> tuple[ThreadStack, ...]:
        """What the threads of the job's worker processes do now. Asks them, for seconds at most;
        those that do not answer are left out.
        """


StoryTeller: TypeAlias = Callable[[str, int], BundleStory]
"""Returns what a runner has recorded about a bundle, by the id of its job, which may have ended, and its number."""


class JobReporter(Protocol):
    """Where an executor reports what becomes of one job. Implemented by this package; never waits
    for readers. A server that keeps its jobs writes states to the disk before it returns.
    """

    def state(
        self, state: JobState, reason: str | None = None, record: MessageRecord = None
    ) -> bool:
        """Report that the job entered `state`; whether the job has now entered it.

        The job is STARTING when the executor is called; the executor reports RUNNING and, once, a
        terminal state (DONE, FAILED, CANCELLED, DRAINED), after which nothing of the job may run.
        `reason` becomes a message directly before the state, so that it is the last error a client
        reads; give it with FAILED, and as `record` the same for programs.

        Returns False, and changes nothing, where the report lost a race that an executor cannot
        avoid: the job is already in this state or in a terminal one, or it is CANCELLING and the
        report is an earlier stage of life. Also where a server that keeps its jobs is stopping: the
        job is then left to the next server. So whatever it takes to resume a job must be kept until
        the report of its terminal state has returned True.

        Raises:
            IllegalTransition: the present state does not lead to `state`.
        """

    def message(
        self,
        importance: Importance,
        text: str,
        transform: str | None = None,
        record: MessageRecord = None,
    ) -> None:
        """Add a line to the job's message stream, shown with the transform's full name if given.

        `record` is what the text tells, for programs.

        Very long texts are cut; messages after the terminal state are dropped, since streams have
        ended.
        """

    def log(self, lines: Iterable[MessageLine]) -> None:
        """Add many lines as `message` does: at a tenth of the cost of as many calls."""


class JobExecutor(Protocol):
    """Starts jobs."""

    def __call__(self, job: JobSpec, reporter: JobReporter) -> JobHandle:
        """Start `job` and return soon; the Run RPC waits for this call, at most seconds. Called
        once for each job in the life of a server.

        A server that keeps its jobs calls it again, after a restart, for each job that has not
        ended, with the same job id. An executor that has a journal of that id resumes the job from
        it; one that has none begins anew, unless `job.resumed` says that it had taken the job on:
        then what it had is lost, and it should raise `JobRejected`. Where a client has asked for
        the job's end, `JobHandle.cancel` or `JobHandle.drain` is called at once.

        The job itself runs on threads of the executor's own, and reports to `reporter`, which may
        be used before this returns. If a cancel or a drain arrives in the meantime, the handle is
        told as soon as there is one.

        Raises:
            JobRejected: the job asks for something this runner does not do, or cannot be resumed.
                The job becomes FAILED, and Run fails with the reason.
            Unavailable: there is nothing to run it on, and this server will end. A job of an earlier
                life of the server is left to the next one as it is.
            Exception: anything else makes the job FAILED and Run fail with INTERNAL and the
                exception's one-line text.
        """
