"""Interfaces between the driver and the system that runs worker processes, such as Spark.

A placement runs `beam_runner_runtime.bundles.binding.bind_process` in its processes. A process serves one
lane after another, and never works for two jobs.
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
    """Receiver of a job's state changes and messages. Any thread can call the methods, and no method
    waits for clients.
    """

    def state(
        self, state: JobState, reason: str | None = None, record: MessageRecord = None
    ) -> bool:
        """Reports that the job entered `state`. Returns whether the report changed the state.

        A report changes nothing if the job is already in this state or in a terminal state. A
        report also changes nothing while a server that keeps its jobs stops. In these cases, keep
        the data that is necessary to resume the job.

        Args:
            state: new state of the job. After a terminal state, no code of the job may run.
            reason: last error, for clients; required for FAILED.
            record: machine-readable form of `reason`.
        """

    def message(
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

    def log(self, lines: Iterable[MessageLine]) -> None:
        """Adds many lines to the job's messages, at a tenth of the cost of `message` per line."""


class JobPlacement(SectionHost, Protocol):
    """Worker processes of one job. Any thread can read ``is_alive``, but only the job's thread can use
    the other members.
    """

    @property
    def is_alive(self) -> bool:
        """Whether the placement can still run processes. Costs about 1 ms."""

    @property
    def loss(self) -> str:
        """Error text for a job whose placement is lost."""

    @property
    def interface(self) -> str:
        """Address of the placement's web UI; empty if the placement has no web UI."""

    def start_lane(self, number: int, on_end: Callable[[int, str], None]) -> None:
        """Requests a slot for a lane in a process of this job, and returns at once.

        The placement can retry the lane in another process if a process is lost. After the lane
        ends, the placement calls ``on_end`` exactly once, on any thread, with the lane's number and
        a short error text. The text is empty after a normal end.
        """

    def cancel(self) -> None:
        """Cancels all current lanes of this job, even during user code, and returns at once. Other
        jobs keep their lanes.
        """

    def close(self, *, workers_gone: bool) -> None:
        """Releases the placement after the end of all lanes. `workers_gone` tells whether all processes have exited."""


class Placement(Protocol):
    """System that runs worker processes for the lifetime of a server. Any thread can call the methods."""

    @property
    def cores(self) -> int:
        """Current number of bundles that can use a core at the same time. Costs about 1 ms per
        refresh; the value is cached.
        """

    @property
    def slots(self) -> int | None:
        """Number of lanes that can run at the same time; None if unknown."""

    @property
    def has_tables(self) -> bool:
        """Whether the placement can read and write Spark tables."""

    def attach(self, endpoints: EndpointFactory) -> None:
        """Sets the endpoints at which processes reach this server and can call `order`."""

    def try_out(self, needs: BundleRequirements) -> frozenset[str]:
        """Checks in worker processes that the requirements of bundles are met on each host.

        Returns:
            Names of the checked hosts.

        Raises:
            Unavailable: If a requirement isn't met. The text names the host, the requirement and
                the fix.
        """

    def order(self, number: int) -> StandByOrder:
        """Returns the order for a stand-by process. Can block for 30 s. None means that the process must ask again."""

    def job(self, job_id: str, name: str) -> JobPlacement:
        """Returns the placement of one job. ``name`` is the display name."""

    def job_ended(self) -> None:
        """Called when a job has ended. The placement can prepare the job's resources for the next job."""

    def stand_down(self) -> None:
        """Ends all stand-by processes at shutdown, and waits briefly for their exit."""
