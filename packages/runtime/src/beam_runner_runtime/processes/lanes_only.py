"""What placements have in common that run lanes and nothing else: no sections, no tables, no process that stands by."""

from __future__ import annotations

from collections.abc import Callable

from beam_runner_runtime.bundles.needs import Needs
from beam_runner_runtime.channel.attempts import SectionRefusal
from beam_runner_runtime.channel.messages import FromWorker, JobWork, RunBundle
from beam_runner_runtime.channel.stand_by import StandByOrder, StandDown
from beam_runner_runtime.sections.ends import SectionEnd, Tasks


class LanesOnly:
    """Part of a placement on one machine (`beam_runner_runtime.driver.ports.Placement`)."""

    host = binding = "127.0.0.1"
    is_on_this_machine = True
    has_tables = False

    def check(self) -> None:
        """Needs nothing that Python has not."""

    def warm_up(self) -> None:
        """Does nothing."""

    def try_out(self, needs: Needs) -> frozenset[str]:
        """Tries nothing: processes have what this one has."""
        return frozenset()

    def order(self, number: int) -> StandByOrder:
        """Sends the process away: none stands by."""
        return StandDown()

    def job_ended(self) -> None:
        """Gets nothing ready for the next job."""

    def stand_down(self) -> None:
        """Does nothing: no process stands by."""


class LanesOnlyJob:
    """Part of a job's placement (`beam_runner_runtime.driver.ports.JobPlacement`)."""

    interface = ""

    def start_section(
        self, order: RunBundle, work: JobWork, title: str, on_end: Callable[[SectionEnd], None]
    ) -> None:
        """Refuses it: its stages run apart, on lanes."""
        on_end(SectionRefusal(order.attempt, "this server runs lanes alone, and no sections"))

    def heard(self, message: FromWorker) -> bool:
        """Returns that no message is about a section."""
        return False

    def section_tasks(self) -> Tasks:
        """Returns that there are none."""
        return Tasks()
