"""Wait for the answer of a running job to a request."""

from __future__ import annotations

import math
import time
from concurrent.futures import Future, wait
from typing import TypeVar

from beam_runner_driver.job.job import RunningJob

_LOOK_SECONDS = 0.25
_Answer = TypeVar("_Answer")


def wait_for_answer(
    running: RunningJob, answer: Future[_Answer], seconds: float = math.inf
) -> _Answer | None:
    """Waits for the answer of a running job, and detects that the job ends without an answer.

    Returns:
        The answer; None if the job has ended without one.

    Raises:
        TimeoutError: The job runs, and hasn't answered within `seconds`.
    """
    deadline = time.monotonic() + seconds
    while not wait([answer], _LOOK_SECONDS).done:
        if running.wait_for_end(0) and not answer.done():
            return None
        if time.monotonic() > deadline:
            raise TimeoutError(f"job {running.job_id} hasn't answered within {seconds:.0f} s")
    return answer.result()
