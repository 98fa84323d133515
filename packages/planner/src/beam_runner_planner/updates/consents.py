"""Permissions of the user: data that an update may delete, and coders that the user considers to be compatible."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Set

import attrs
from beam_runner_model.texts import is_step_or_in_composite
from beam_runner_model.updates import (
    Finding,
    FindingReason,
    FindingSubject,
    FindingVerdict,
    UpdateInstructions,
)

_ALL = "all"
# The Python SDK adds the prefix ``ts-`` to the name of a timer.
_TIMER_PREFIX = "ts-"


@attrs.frozen
class UpdatePermissions:
    """Permissions that the options of an update give, as names of steps, states, timers or side
    inputs.

    A name is a step, a composite around steps, or a state, timer or side input of a step as
    ``STEP/PART``.

    Attributes:
        drop: the names of data that the update may drop.
        trust: the names of data whose coders the user considers to be compatible.
        is_rollback: whether sources that aren't in the running pipeline ran before.
    """

    drop: Set[str]
    trust: Set[str]
    is_rollback: bool = False

    @classmethod
    def from_instructions(cls, wishes: UpdateInstructions) -> UpdatePermissions:
        """Returns the permissions in the options. A mapping to an empty name permits a drop."""
        gone = {before for before, after in wishes.mapping.items() if not after}
        return cls(wishes.drop | gone, wishes.trust, wishes.is_rollback)

    def may_drop_data(self, steps: Collection[str], part: str = "") -> bool:
        """Returns whether the update may drop the data of a step, or a part of the data.

        Args:
            steps: the names of the step in both pipelines.
            part: the name of a state, timer or side input.
        """
        return _contains_name(self.drop, steps, part)

    def are_coders_trusted(self, steps: Collection[str], part: str = "") -> bool:
        """Returns whether the user has declared the changed coders of a step, or of one of its
        states or inputs, as compatible.
        """
        return _contains_name(self.trust, steps, part)

    def list_unknown_names(self, steps: Set[str], parts: Set[str]) -> Iterator[Finding]:
        """Yields a finding for each name that is neither a step nor a part.

        Args:
            steps: the steps of both pipelines.
            parts: the states, timers and side inputs of both pipelines, as ``STEP/PART``.
        """
        for name in sorted((self.drop | self.trust) - {_ALL}):
            if name not in parts and not any(is_step_or_in_composite(step, name) for step in steps):
                yield Finding(
                    FindingVerdict.REFUSED,
                    FindingReason.UNKNOWN_NAME,
                    FindingSubject.CONSENT,
                    step=name,
                )


def format_part_name(part: str) -> str:
    """Returns the display name of a state, timer or side input."""
    return part.removeprefix(_TIMER_PREFIX)


def _contains_name(names: Set[str], steps: Collection[str], part: str) -> bool:
    return _ALL in names or any(
        is_step_or_in_composite(step, name)
        or (part and name in (f"{step}/{part}", f"{step}/{format_part_name(part)}"))
        for step in steps
        for name in names
    )
