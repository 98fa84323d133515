"""Whether all who know which bundles are open agree: the ledger, the lanes with their waiting bundles, and the sections."""

from __future__ import annotations

from beam_runner_engine.scheduler.commands import Bundle

from beam_runner_runtime.channel.attempts import Attempt
from beam_runner_runtime.driver.coordinator import Coordinator


class Incoherent(AssertionError):
    """Two parts of a job's driver contradict each other; the text says which bundles they disagree on."""


def lost_bundles(coordinator: Coordinator) -> list[Bundle]:
    """Returns the open bundles that neither run nor wait to run."""
    if not coordinator.is_settled:
        return []
    held = coordinator.lanes.held()
    in_sections = coordinator.sections.runs
    found = [(Attempt.of(one), one) for one in coordinator.ledger.open_bundles]
    return [one for attempt, one in found if attempt not in held and not in_sections(attempt)]


def check(coordinator: Coordinator) -> None:
    """Compares what the parts of the driver know, between two steps of it. Takes time linear in the open bundles.

    Raises:
        Incoherent: an open bundle is nowhere, or an attempt is in two places.
    """
    if not coordinator.is_settled or coordinator.ledger.end is not None:
        return
    problems = []
    if lost := lost_bundles(coordinator):
        problems.append(f"open, but neither run nor wait: {[one.number for one in lost]}")
    held = coordinator.lanes.held()
    in_sections = {section.attempt for section in coordinator.sections.running()}
    if twice := held & in_sections:
        problems.append(f"on a lane and in a section: {_numbers(twice)}")
    if problems:
        raise Incoherent(
            f"bundles of job {coordinator.ledger.plan.context.job_id} {'; '.join(problems)}"
        )


def _numbers(attempts: set[Attempt]) -> list[int]:
    return sorted(one.bundle for one in attempts)
