from __future__ import annotations

import resource

from beam_runner_worker.embedded.frames import in_one_piece

CALLS = 2_000
DEPTHS = range(300)
"""Their frames take more than one of the pieces that Python has by itself."""


def _called(element: int) -> int:
    return element + 1


def _faults(depth: int) -> int:
    """How many pages were taken anew for so many calls, so many frames down."""
    if depth:
        return _faults(depth - 1)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for number in range(CALLS):
        _called(number)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before


def _most_faults() -> int:
    return max(map(_faults, DEPTHS))


def test_calls_take_no_memory_anew_however_deep_they_are() -> None:
    assert in_one_piece(_most_faults) < CALLS / 10
    assert _most_faults() >= CALLS
