from __future__ import annotations

import gc
import resource
from collections.abc import Iterator

import pytest

from beam_runner_embedded.frames import call_with_frame_memory

CALLS = 2_000
DEPTHS = range(300)
"""Stack depths whose frames need more than one memory piece of Python's default size."""


ROUNDS = 5
"""Number of rounds. The system can reclaim memory in a round, but rarely in each round."""


@pytest.fixture(autouse=True)
def no_collections() -> Iterator[None]:
    """Disables garbage collection, which allocates memory."""
    gc.disable()
    yield
    gc.enable()


def _called(element: int) -> tuple[int, ...]:
    """Has a larger frame than `_faults`, so that at some depth this frame is the first to need another piece."""
    a = b = c = d = e = f = g = h = element
    return a, b, c, d, e, f, g, h, a, b, c, d, e, f, g, h, a, b, c, d, e, f, g, h


def _faults(depth: int) -> int:
    """Returns the page faults of `calls` calls at a stack depth: the minimum of several rounds."""
    if depth:
        return _faults(depth - 1)
    return min(_faults_of_calls() for _ in range(ROUNDS))


def _faults_of_calls() -> int:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for number in range(CALLS):
        _called(number)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before


def _most_faults() -> int:
    return max(map(_faults, DEPTHS))


def test_nested_calls_cause_no_page_faults() -> None:
    assert call_with_frame_memory(_most_faults) < CALLS / 10
    assert _most_faults() >= CALLS
