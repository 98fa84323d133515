"""Search for the units (elements, groups, timers) that make a bundle fail, by repeated runs of the
bundle (trials).

A *unit* is an element, a group or a timer of the input. Units have indexes in the order of the
input. A trial processes the first units, without the units that the search has excluded, and
discards its results. A unit causes a failure if the units before it succeed alone, and fail
together with it. The search doesn't depend on user code, so it works for all environments.

The number of trials is at most ``1 + m * (2 + log2(n))`` for m failing units out of n. If the harness
names the failing unit, the number is ``1 + 2 * m``.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Protocol

import attrs
from beam_runner_worker.errors import BundleError


@attrs.frozen
class TrialFailure:
    """Failure of a trial (a run of the bundle with some of its units) in user code.

    Attributes:
        taken: number of units that the trial had read when it failed, including excluded units.
        is_named: whether `taken` is from the harness, so that the last of these units probably
            caused the failure.
    """

    error: BundleError
    taken: int
    is_named: bool = False


class RunTrial(Protocol):
    """Function that runs a trial: a run of the bundle with some of its units (elements, groups,
    timers).
    """

    def __call__(self, excluded: Collection[int], limit: int | None) -> TrialFailure | None:
        """Returns the failure of a trial, or None if the trial succeeded.

        Args:
            excluded: indexes of the units to exclude.
            limit: number of units to process; None for all units. With the limit 0, the trial
                starts and finishes a bundle without input.
        """


class UnitSearchFailed(Exception):
    """Raised if the search can't find units (elements, groups, timers) that cause the failure. The
    message contains the reason.
    """


def find_failing_units(
    run: RunTrial, first: TrialFailure, most: int, accept: Callable[[BundleError], bool]
) -> Mapping[int, BundleError]:
    """Returns the errors of the units (elements, groups, timers) that cause failures, by the index
    of the unit.

    The last trial of the search processed all other units and succeeded.

    Args:
        first: failure of the attempt with all units.
        most: maximum number of units to exclude.
        accept: function that returns whether the units of an error may be excluded.

    Raises:
        UnitSearchFailed: The bundle fails without input, an error isn't accepted, or more than `most`
            units fail.
    """
    excluded: dict[int, BundleError] = {}
    accepted = 0
    failure: TrialFailure | None = first
    while failure is not None:
        _check_failure(failure, accept)
        if failure.taken <= accepted:
            raise UnitSearchFailed("the bundle still fails after the failing element is excluded")
        if not excluded and run((), 0) is not None:
            raise UnitSearchFailed("the bundle fails even without input")
        if len(excluded) == most:
            raise UnitSearchFailed(
                f"more than {most} elements fail, which is the maximum for one bundle"
            )
        found = _find_first_failing_unit(run, excluded, accepted, failure)
        _check_failure(found, accept)
        excluded[found.taken - 1] = found.error
        accepted = found.taken
        failure = run(tuple(excluded), None)
    return excluded


def _check_failure(failure: TrialFailure, accept: Callable[[BundleError], bool]) -> None:
    if not accept(failure.error):
        raise UnitSearchFailed(
            f"the step {failure.error.transform!r} isn't selected for quarantine"
        )


def _find_first_failing_unit(
    run: RunTrial, excluded: Collection[int], accepted: int, failure: TrialFailure
) -> TrialFailure:
    """Finds the shortest failing prefix of the units, and returns the failure of its trial. The
    last of these units is the failing unit.

    Args:
        accepted: length of a prefix that succeeds.
        failure: failure of a longer prefix.
    """
    excluded = tuple(excluded)
    shortest = failure
    # First check the unit at which the harness failed. It can be the wrong unit: a step that
    # buffers elements fails later than at the failing element.
    guess = failure.taken - 1 if failure.is_named else 0
    while shortest.taken - accepted > 1:
        middle = guess or (accepted + shortest.taken) // 2
        guess = 0
        found = run(excluded, middle)
        if found is None:
            accepted = middle
        else:
            shortest = attrs.evolve(found, taken=max(accepted + 1, min(found.taken, middle)))
    return shortest
