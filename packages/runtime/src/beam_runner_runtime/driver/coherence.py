"""Check that a job's parts agree on the open bundles.

The parts are the ledger, the lanes with their waiting bundles, and the sections.
"""

from __future__ import annotations

from beam_runner_engine.scheduler.commands import Bundle

from beam_runner_runtime.channel.attempts import Attempt
from beam_runner_runtime.driver.coordinator import JobCoordinator


class DriverStateError(AssertionError):
    """Contradiction between two parts of a job's driver. The text names the affected bundles."""


def find_lost_bundles(coordinator: JobCoordinator) -> list[Bundle]:
    """Returns the open bundles that neither run nor wait for a lane."""
    if not coordinator.is_settled:
        return []
    held = coordinator.lanes.list_held_attempts()
    in_sections = coordinator.sections.is_running
    found = [(Attempt.of_bundle(one), one) for one in coordinator.ledger.open_bundles]
    return [one for attempt, one in found if attempt not in held and not in_sections(attempt)]


def check_bundle_placement(coordinator: JobCoordinator) -> None:
    """Checks that each open bundle is in exactly one state: queued, running on a lane, or in a
    section.

    Takes time linear in the number of open bundles.

    Raises:
        DriverStateError: If an open bundle is in none of these states, or an attempt is in two of
            them.
    """
    if not coordinator.is_settled or coordinator.ledger.end is not None:
        return
    problems = []
    if lost := find_lost_bundles(coordinator):
        problems.append(f"open, but neither run nor wait: {[one.number for one in lost]}")
    held = coordinator.lanes.list_held_attempts()
    in_sections = {section.attempt for section in coordinator.sections.list_running()}
    if twice := held & in_sections:
        problems.append(f"on a lane and in a section: {_format_bundle_numbers(twice)}")
    if problems:
        raise DriverStateError(
            f"bundles of job {coordinator.ledger.plan.context.job_id} {'; '.join(problems)}"
        )


def _format_bundle_numbers(attempts: set[Attempt]) -> list[int]:
    return sorted(one.bundle for one in attempts)
