"""Consistency check: the parts of a job must agree on the bundles that are open (not committed).

The check compares three parts: the ledger (the job's committed state), the lanes with their queue
of bundles, and the sections (Spark jobs that run several stages together).
"""

from __future__ import annotations

from beam_runner_engine.scheduler.commands import Bundle
from beam_runner_runtime.channel.attempts import Attempt

from beam_runner_driver.coordination.coordinator import JobCoordinator


class DriverStateError(AssertionError):
    """Raised if two parts of a job disagree about a bundle. The message lists the bundles."""


def find_lost_bundles(coordinator: JobCoordinator) -> list[Bundle]:
    """Returns the open bundles that don't run and that no queue contains."""
    if not coordinator.is_settled:
        return []
    held = coordinator.lanes.list_running_and_queued_attempts()
    in_sections = coordinator.sections.is_running
    found = [(Attempt.from_bundle(one), one) for one in coordinator.ledger.open_bundles]
    return [one for attempt, one in found if attempt not in held and not in_sections(attempt)]


def check_bundle_placement(coordinator: JobCoordinator) -> None:
    """Checks that each open bundle is in exactly one state: queued, running on a lane, or in a
    section.

    Takes time linear in the number of open bundles.

    Raises:
        DriverStateError: If an open bundle is in none of these states, or an attempt is in two
            states.
    """
    if not coordinator.is_settled or coordinator.ledger.end is not None:
        return
    problems = []
    if lost := find_lost_bundles(coordinator):
        problems.append(f"open, but neither run nor wait: {[one.number for one in lost]}")
    held = coordinator.lanes.list_running_and_queued_attempts()
    in_sections = {section.attempt for section in coordinator.sections.list_running()}
    if twice := held & in_sections:
        numbers = sorted(one.bundle for one in twice)
        problems.append(f"on a lane and in a section: {numbers}")
    if problems:
        raise DriverStateError(
            f"bundles of job {coordinator.ledger.plan.context.job_id} {'; '.join(problems)}"
        )
