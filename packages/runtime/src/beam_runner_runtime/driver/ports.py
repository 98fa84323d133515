"""What the driver asks of whatever runs worker processes: how many there may be, and to start, watch and cancel them.

A process that a placement has started serves one lane after the other with what
`beam_runner_runtime.bundles.binding.bind` returns, and never works for two jobs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol

from beam_runner_model.jobs import Importance, JobState, MessageLine, MessageRecord

from beam_runner_runtime.bundles.needs import Needs
from beam_runner_runtime.channel.endpoints import Endpoints
from beam_runner_runtime.channel.stand_by import StandByOrder
from beam_runner_runtime.sections.ports import SectionHost


class RunReporter(Protocol):
    """Where a job reports what becomes of it. Methods may be called from any thread, and never wait for readers."""

    def state(
        self, state: JobState, reason: str | None = None, record: MessageRecord = None
    ) -> bool:
        """Reports that the job entered `state`; returns whether it has entered it now.

        A report that lost a race changes nothing: the job is in that state or in a terminal one already, or a
        server that keeps its jobs is stopping. Then whatever it takes to resume the job must stay.

        Args:
            state: the state that the job entered. After a terminal one nothing of the job may run.
            reason: the last error that a client reads; given with FAILED.
            record: what the reason tells, for programs.
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
            importance: how important it is.
            text: the line.
            transform: the full name of what it is about.
            record: what the line tells, for programs.
        """

    def log(self, lines: Iterable[MessageLine]) -> None:
        """Adds many lines, each as `message` does, at a tenth of the cost."""


class JobPlacement(SectionHost, Protocol):
    """The worker processes of one job. Methods belong to the job's own thread, but ``is_alive`` to any."""

    @property
    def is_alive(self) -> bool:
        """Whether there is anything to run on; costs about a millisecond."""

    @property
    def loss(self) -> str:
        """What to say of the job if nothing is there any more and nobody has stopped it."""

    @property
    def interface(self) -> str:
        """The address of its own pages about what runs; empty where it has none."""

    def start_lane(self, number: int, on_end: Callable[[int, str], None]) -> None:
        """Has a process of this job alone serve a lane, as soon as there is a slot; returns at once.

        Where the process is lost, the lane may be tried again in another one. ``on_end`` is called once, on any
        thread, with the lane's number when it has ended: with an error in a few words if that could not be
        done, else with nothing.
        """

    def cancel(self) -> None:
        """Ends all lanes that are there now, whatever their processes do, and no other job's; returns at once."""

    def close(self, *, workers_gone: bool) -> None:
        """The job has no lanes any more; says whether all of its processes have ended, too."""


class Placement(Protocol):
    """Where worker processes run, for as long as a server lives. Methods may be called from any thread."""

    @property
    def cores(self) -> int:
        """How many bundles can use a core at once, as it is now; costs about a millisecond, and not at each call."""

    @property
    def slots(self) -> int | None:
        """How many lanes may run at once; None if nobody knows beforehand."""

    @property
    def has_tables(self) -> bool:
        """Whether it can read and write Spark's tables."""

    def attach(self, endpoints: Endpoints) -> None:
        """From now on processes reach this one there, and may ask for `order`."""

    def try_out(self, needs: Needs) -> frozenset[str]:
        """Has processes try what bundles will need, where they may lack it.

        Returns:
            The names of the hosts on which that was done.

        Raises:
            Unavailable: something is not there; says where, what, and what to do.
        """

    def order(self, number: int) -> StandByOrder:
        """What the process is to do that stands by under a number; may take half a minute. None: it is to ask again."""

    def job(self, job_id: str, name: str) -> JobPlacement:
        """The processes of a job; ``name`` is for people."""

    def job_ended(self) -> None:
        """A job has ended; what it took may be got ready for the next one."""

    def stand_down(self) -> None:
        """No job comes any more: sends processes away that stand by, and waits a moment for that."""
