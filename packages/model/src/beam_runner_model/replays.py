"""Records of a replay: quarantined elements that a job processes again."""

from __future__ import annotations

import enum

import attrs


class ReplayProblem(enum.StrEnum):
    """Reason why a replay leaves elements, keys or timers in the quarantine (dead-letter files)."""

    EXPIRED = "expired"
    """All windows of the element have expired at the step."""
    NOT_AN_ELEMENT = "not an element"
    """The quarantined data is a group or a timer, and the state of its key has changed since
    then.
    """
    NO_STEP = "no step"
    """No step of the job continues the step that read the element."""
    CODER_CHANGED = "coder changed"
    """The input of the step has another coder or another kind since an update."""
    STEP_ENDED = "step ended"
    """The input of the step has ended, or the job drains, so the step can't emit output."""
    NO_FILE = "no file"
    """The quarantine has no file with the unit. The file isn't written yet, or was deleted."""


@attrs.frozen
class UnreplayedUnits:
    """Elements, keys or timers that a replay leaves in the quarantine for one reason.

    Attributes:
        problem: the reason.
        step: the full name of the step that failed; empty if unknown.
        count: the number of units.
        detail: the parts that differ, for a changed coder, or the kind of the unit; can be empty.
    """

    problem: ReplayProblem
    step: str
    count: int
    detail: str = ""


@attrs.frozen
class ReplayReport:
    """Result of a replay: the numbers of replayed elements, and the reasons why other units stay in
    the quarantine.

    Attributes:
        replayed: the number of elements that the job processes again because of this replay.
        late: the number of replayed elements that are late, because the step's watermark has passed
            them.
        earlier: the number of elements that earlier replays of the job processed.
        problems: the elements, keys and timers that stay in the quarantine, by reason.
    """

    replayed: int = 0
    late: int = 0
    earlier: int = 0
    problems: tuple[UnreplayedUnits, ...] = ()

    def add(self, other: ReplayReport) -> ReplayReport:
        """Returns the sum of two reports, with one entry for each problem of a step."""
        counts: dict[tuple[ReplayProblem, str, str], int] = {}
        for one in (*self.problems, *other.problems):
            place = (one.problem, one.step, one.detail)
            counts[place] = counts.get(place, 0) + one.count
        return ReplayReport(
            self.replayed + other.replayed,
            self.late + other.late,
            self.earlier + other.earlier,
            tuple(
                UnreplayedUnits(problem, step, count, detail)
                for (problem, step, detail), count in sorted(counts.items())
            ),
        )
