"""Interfaces between the driver and the system that runs worker processes, such as Spark.

A placement runs `beam_runner_runtime.bundles.binding.bind_worker_process` in its worker processes. A
process runs the bundles of one lane at a time, and never works for two jobs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol

from beam_runner_model.jobs import Importance, JobState, MessageLine, MessageRecord
from beam_runner_runtime.bundles.preflight import BundleRequirements
from beam_runner_runtime.channel.endpoints import EndpointFactory
from beam_runner_runtime.channel.stand_by import StandByOrder
from beam_runner_runtime.sections.ports import SectionHost


class RunReporter(Protocol):
    """Receiver of a job's state changes and messages. Thread-safe. The methods never wait for clients."""

    def report_state(
        self, state: JobState, reason: str | None = None, record: MessageRecord = None
    ) -> bool:
        """Reports that the job entered `state`. Returns whether the report changed the state.

        A report changes nothing in two cases: the job is already in this state or in a terminal
        state, or the server is stopping and will resume its jobs after a restart. In these cases,
        the caller must not delete data that is necessary to resume the job.

        Args:
            state: new state of the job. Before a terminal state is reported, all user code of the
                job must have ended.
            reason: last error, for clients; required for FAILED.
            record: machine-readable form of `reason`.
        """

    def report_message(
        self,
        importance: Importance,
        text: str,
        transform: str | None = None,
        record: MessageRecord = None,
    ) -> None:
        """Adds a line to the job's messages.

        Args:
            importance: importance of the line.
            text: text of the line.
            transform: full name of the transform that the line refers to.
            record: machine-readable form of the line.
        """

    def report_messages(self, lines: Iterable[MessageLine]) -> None:
        """Adds many log lines to the job's messages. Each line costs a tenth of a call of `message`."""


class JobPlacement(SectionHost, Protocol):
    """Interface that starts and cancels the worker processes of one job. Any thread can read
    ``is_alive``; only the job's thread can use the other members.
    """

    @property
    def is_alive(self) -> bool:
        """Whether the system can still run processes for this job. The check takes about 1 ms."""

    @property
    def loss_message(self) -> str:
        """Error text of a job that fails because the placement (the system that runs worker
        processes) was lost.
        """

    @property
    def interface(self) -> str:
        """URL of the web UI of the system that runs the worker processes, such as Spark's; empty
        without a web UI.
        """

    def start_lane(self, number: int, on_end: Callable[[int, str], None]) -> None:
        """Requests a cluster slot, and starts a lane (a worker process that runs bundles in turn)
        as soon as a slot is free. Doesn't wait for the slot.

        The placement can retry the lane in another process if a process is lost. After the lane
        ends, the placement calls ``on_end`` exactly once, on any thread, with the lane's number and
        a short error text. The text is empty after a normal end.
        """

    def cancel(self) -> None:
        """Cancels all current lanes (worker processes) and sections (Spark jobs) of this job, even
        while user code runs. Doesn't wait for their end.
        """

    def close(self, *, workers_gone: bool) -> None:
        """Releases the job's resources after all lanes have ended. `workers_gone` is true if all
        worker processes have exited.
        """


class Placement(Protocol):
    """System that runs worker processes for all jobs of a server, such as Spark. Thread-safe."""

    @property
    def cores(self) -> int:
        """Current number of bundles that can use a core at the same time. The value is cached; a
        refresh takes about 1 ms.
        """

    @property
    def slots(self) -> int | None:
        """Number of lanes that can run at the same time; None if unknown."""

    @property
    def has_tables(self) -> bool:
        """Whether worker processes of this placement can read and write Spark tables."""

    def set_endpoints(self, endpoints: EndpointFactory) -> None:
        """Sets the network addresses at which worker processes reach this server."""

    def check_bundle_requirements(self, needs: BundleRequirements) -> frozenset[str]:
        """Checks on each host of the cluster that bundles can run there, for example that files and
        ports are reachable.

        Returns:
            Names of the checked hosts.

        Raises:
            Unavailable: If a requirement isn't met. The text names the host, the requirement and
                the fix.
        """

    def get_standby_order(self, number: int) -> StandByOrder:
        """Returns the next order for a stand-by process (a process that is started before a job
        needs it). Waits up to 30 s. If the result is None, the process must ask again.
        """

    def create_job_placement(self, job_id: str, name: str) -> JobPlacement:
        """Creates the object that starts and stops the worker processes of one job. ``name`` is the
        display name of the job.
        """

    def handle_job_end(self) -> None:
        """Called when a job has ended, so that the placement can start stand-by processes for the next job."""

    def end_standby_processes(self) -> None:
        """Ends all stand-by processes at shutdown, and waits briefly for their exit."""
