"""Base classes of placements that run bundles only on lanes.

These placements don't support sections, Spark tables or stand-by processes.
"""

from __future__ import annotations

from collections.abc import Callable

from beam_runner_runtime.bundles.preflight import BundleRequirements
from beam_runner_runtime.channel.attempts import SectionRefusal
from beam_runner_runtime.channel.messages import FromWorker, JobWork, RunBundle
from beam_runner_runtime.channel.stand_by import EndStandBy, StandByOrder
from beam_runner_runtime.sections.ends import SectionEnd, TaskCounts


class SingleMachinePlacement:
    """Base class of a placement on one machine (`beam_runner_runtime.driver.ports.Placement`)."""

    host = binding = "127.0.0.1"
    is_on_this_machine = True
    has_tables = False

    def check(self) -> None:
        """Does nothing: Python itself meets all requirements."""

    def warm_up(self) -> None:
        """Does nothing."""

    def try_out(self, needs: BundleRequirements) -> frozenset[str]:
        """Returns no problems: the processes run in the same environment as the server."""
        return frozenset()

    def order(self, number: int) -> StandByOrder:
        """Dismisses the process: no process stands by."""
        return EndStandBy()

    def job_ended(self) -> None:
        """Does nothing: no process is prepared for the next job."""

    def stand_down(self) -> None:
        """Does nothing: no process stands by."""


class SingleMachineJob:
    """Base class of a job's placement (`beam_runner_runtime.driver.ports.JobPlacement`)."""

    interface = ""

    def start_section(
        self, order: RunBundle, work: JobWork, title: str, on_end: Callable[[SectionEnd], None]
    ) -> None:
        """Refuses the section, so that its stages run separately on lanes."""
        on_end(SectionRefusal(order.attempt, "this server runs only lanes, and no sections"))

    def heard(self, message: FromWorker) -> bool:
        """Returns False, because no message concerns a section."""
        return False

    def section_tasks(self) -> TaskCounts:
        """Returns zero counts, because the placement runs no section tasks."""
        return TaskCounts()
