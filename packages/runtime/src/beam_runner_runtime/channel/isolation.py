"""Rules by which a worker process finds failing units (elements, groups, timers) of a bundle's
input, for the job's quarantine.
"""

from __future__ import annotations

import attrs

from beam_runner_runtime.channel.attempts import FailedStep


@attrs.frozen
class IsolationOrder:
    """Part of the server's order for a bundle or a scheduler loop: rules by which failing units
    (elements, groups, timers) are isolated and go to quarantine.

    Attributes:
        attempts: number of failures after which a unit goes to quarantine.
        steps: full names of the steps whose units may go to quarantine, or of composites around
            them; all steps if empty.
        room: maximum number of units that the attempt may send to quarantine.
        limit: name of the option that sets `room`.
        failures: number of attempts in which each unit failed so far, by the digest of the unit.
    """

    attempts: int
    steps: tuple[str, ...]
    room: int
    limit: str
    failures: tuple[tuple[bytes, int], ...] = ()

    @property
    def quarantine_full_reason(self) -> str:
        """Reason why no element, group or timer goes to quarantine if `room` is 0."""
        return f"the quarantine is full (--{self.limit}), so the stream waits"

    def applies_to_step(self, name: str) -> bool:
        """Returns whether failing elements, groups and timers of a step may go to quarantine.

        Args:
            name: full name of the step, or of a stage: the names of its steps, joined by " + ".
        """
        names = name.split(" + ")
        return not self.steps or any(
            one == step or one.startswith(f"{step}/") for one in names for step in self.steps
        )

    def copy_with_failures(self, step: object) -> IsolationOrder:
        """Returns a copy of the rules for the next attempt at a bundle, with the failures of
        earlier attempts.

        Args:
            step: `FailedStep` of the bundle's latest failure in user code; other objects are ignored.
        """
        return attrs.evolve(self, failures=step.isolated) if isinstance(step, FailedStep) else self
