"""Jobs with failures during their run, which must have the same result as jobs without failures."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from crash_points import check, has_begun, submit
from jobs import Pipelines
from victims import Victim, bounded, unbounded
from waiting import wait_until

_STRIKES = 2
_BEGIN_SECONDS = 120
_END_SECONDS = 400

each_way = pytest.mark.parametrize(
    ("victim", "bulk"),
    [(bounded, "always"), (bounded, "never"), (unbounded, "auto")],
    ids=["sections", "lanes", "unbounded"],
)
"""Has a test run for each way in which stages run."""


def check_struck(
    address: str,
    victim: Victim,
    bulk: str,
    count: int,
    choose: random.Random,
    strike: Callable[[], None],
) -> None:
    """Runs a job over this count of numbers, with two failures during its run."""
    pipelines = Pipelines(address, "embedded", [f"--beam_spark_bulk={bulk}"])
    job = submit(pipelines, victim, count, Path("/nowhere"))
    wait_until(lambda: has_begun(job), _BEGIN_SECONDS, "the job begins")
    struck = 0
    while struck < _STRIKES and not job.state().is_terminal:
        time.sleep(choose.uniform(0.5, 4))
        strike()
        struck += 1
    assert struck, "the job was over before anything happened to it"
    job.wait(_END_SECONDS)  # the client reconnects after a lost response
    check(job, count)
