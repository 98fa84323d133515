"""Records of shadow runs: the comparison of a running program with a new program on copies of one state."""

from __future__ import annotations

import enum
from collections.abc import Mapping

import attrs

from beam_runner_model.times import MAX_TIMESTAMP

SHADOW_NAMESPACE = "beam_runner:shadow"
"""Namespace of the counters by which steps of a shadow run report their input."""

_SECOND, _MINUTE, _HOUR, _DAY = 1000, 60_000, 3_600_000, 86_400_000
_WIDTHS = (
    (_MINUTE, _SECOND),
    (10 * _MINUTE, 10 * _SECOND),
    (2 * _HOUR, _MINUTE),
    (40 * _DAY, _HOUR),
)
"""Widths of slots by their maximum distance from the start of the run. Each slot is a counter, which
each reply of a bundle contains.
"""
_WIDEST = 40 * _DAY


class StepOutcome(enum.StrEnum):
    """Outcome of the comparison of the elements that reached a step."""

    EQUAL = "equal"
    DIFFERENT = "different"
    EMPTY = "empty"
    """No element reached the step in the compared time."""
    ADDED = "added"
    """The running program has no such step."""
    REMOVED = "removed"
    """The new program has no such step."""
    OTHER = "other"
    """An outcome that this version doesn't know."""

    @classmethod
    def _missing_(cls, value: object) -> StepOutcome:
        return cls.OTHER


@attrs.frozen
class StepComparison:
    """Comparison of the elements that reached a step in the running program and in the new program.

    Attributes:
        outcome: the outcome.
        step: the full name of the step in the new program, or in the running program for a removed step.
        before: the full name in the running program if it differs; otherwise empty.
        old_elements: the number of compared elements of the running program.
        new_elements: the number of compared elements of the new program.
        until: the event time (ms) before which the elements are compared.
        first_difference: the event time (ms) from which the elements differ; None if all elements
            are equal.
    """

    outcome: StepOutcome = attrs.field(converter=StepOutcome)
    step: str
    before: str = ""
    old_elements: int = 0
    new_elements: int = 0
    until: int = 0
    first_difference: int | None = None


@attrs.frozen
class ShadowReport:
    """Result of a shadow run.

    Attributes:
        seconds: the duration of the run; 0 without a run.
        steps: the compared steps, the different ones first.
        old_failure: the last error of the running program in the shadow run; otherwise empty.
        new_failure: the last error of the new program in the shadow run; otherwise empty.
    """

    seconds: float = 0.0
    steps: tuple[StepComparison, ...] = ()
    old_failure: str = ""
    new_failure: str = ""

    @property
    def exists(self) -> bool:
        """Whether a shadow run gave this report."""
        return self.seconds > 0

    @property
    def is_equal(self) -> bool:
        """Whether the running and the new program ran without an error, and some elements were
        compared without a difference.
        """
        outcomes = {step.outcome for step in self.steps}
        failed = self.old_failure or self.new_failure
        return (
            not failed and StepOutcome.EQUAL in outcomes and StepOutcome.DIFFERENT not in outcomes
        )


@attrs.frozen
class TimeSlot:
    """Interval of event time, in which the elements are counted together.

    Attributes:
        start: the start (ms).
        end: the end (ms), which isn't part of the slot.
    """

    start: int
    end: int


def find_time_slot(time: int, start: int) -> TimeSlot:
    """Returns the slot of an event time (ms).

    Slots near the start of the run are short, and others are long, so that a backlog of years has few
    slots.

    Args:
        time: the event time.
        start: the start of the shadow run (ms).
    """
    distance = abs(time - start)
    width = next((width for most, width in _WIDTHS if distance < most), _WIDEST)
    begin = time // width * width
    return TimeSlot(begin, begin + width)


@attrs.frozen
class TimeSlotTotal:
    """Totals of a slot (a range of event time): the number of elements, and the sum of the
    elements' hashes, which doesn't depend on the order.
    """

    elements: int = 0
    hashes: int = 0


@attrs.frozen
class StepTotals:
    """Elements that reached a step in one program.

    Attributes:
        watermark: the event time (ms) before which the program has processed all elements, except late ones.
        slots: the totals by slot.
    """

    watermark: int
    slots: Mapping[TimeSlot, TimeSlotTotal] = attrs.field(factory=dict)


def compare_totals(step: str, before: str, old: StepTotals, new: StepTotals) -> StepComparison:
    """Compares the elements of the slots (ranges of event time) that the watermarks of both
    programs have passed.

    Args:
        step: the full name of the step in the new program.
        before: the full name of the step in the running program.
        old: the elements in the running program.
        new: the elements in the new program.
    """
    until = min(old.watermark, new.watermark)
    slots = sorted(
        (one for one in {**old.slots, **new.slots} if min(one.end, MAX_TIMESTAMP) <= until),
        key=lambda slot: slot.start,
    )
    pairs = [
        (old.slots.get(one, TimeSlotTotal()), new.slots.get(one, TimeSlotTotal())) for one in slots
    ]
    different = [slot.start for slot, (a, b) in zip(slots, pairs, strict=True) if a != b]
    outcome = StepOutcome.EQUAL if slots else StepOutcome.EMPTY
    return StepComparison(
        StepOutcome.DIFFERENT if different else outcome,
        step,
        "" if before == step else before,
        sum(a.elements for a, _ in pairs),
        sum(b.elements for _, b in pairs),
        until,
        different[0] if different else None,
    )
