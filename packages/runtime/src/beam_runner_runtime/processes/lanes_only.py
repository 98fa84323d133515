"""Base classes of placements (systems that run worker processes) on a single machine. A placement
starts the worker processes of jobs.

Such placements run bundles only on lanes. They don't support sections (stages that run as one Spark
job), Spark tables or stand-by processes.
"""

from __future__ import annotations

from collections.abc import Callable

from beam_runner_runtime.bundles.preflight import BundleRequirements
from beam_runner_runtime.channel.attempts import SectionRefusal
from beam_runner_runtime.channel.messages import FromWorker, JobWork, RunBundle
from beam_runner_runtime.channel.stand_by import EndStandBy, StandByOrder
from beam_runner_runtime.sections.ends import SectionEnd, TaskCounts


class SingleMachinePlacement:
    """Base class of a placement (a system that runs worker processes) on one machine
    (`beam_runner_driver.ports.Placement`).
    """

    host = binding = "127.0.0.1"
    is_on_this_machine = True
    has_tables = False

    def check_requirements(self) -> None:
        """Does nothing: Python itself meets all requirements."""

    def warm_up(self) -> None:
        """Does nothing."""

    def check_bundle_requirements(self, needs: BundleRequirements) -> frozenset[str]:
        """Returns an empty result: worker processes run in the same environment as the server."""
        return frozenset()

    def get_standby_order(self, number: int) -> StandByOrder:
        """Returns the order to exit: this placement doesn't use stand-by processes."""
        return EndStandBy()

    def handle_job_end(self) -> None:
        """Does nothing: this placement doesn't prepare processes for the next job."""

    def end_standby_processes(self) -> None:
        """Does nothing: this placement doesn't use stand-by processes."""


class SingleMachineJob:
    """Base class of the object that starts and stops one job's worker processes on one machine
    (`beam_runner_driver.ports.JobPlacement`).
    """

    interface = ""

    def start_section(
        self, order: RunBundle, work: JobWork, title: str, on_end: Callable[[SectionEnd], None]
    ) -> None:
        """Refuses a section (stages in one Spark job), so that the server runs the stages
        separately on lanes.
        """
        on_end(SectionRefusal(order.attempt, "this server runs only lanes, and no sections"))

    def handle_section_message(self, message: FromWorker) -> bool:
        """Returns False: no message is about a section."""
        return False

    def count_section_tasks(self) -> TaskCounts:
        """Returns counts of 0, because the placement doesn't run sections."""
        return TaskCounts()
