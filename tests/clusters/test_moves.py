"""A server whose machine is gone at once: the next one is on another machine, with nothing but the store; nothing is lost of the data, nothing comes twice."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from cluster_site import Site
from crash_points import check, has_begun, submit
from job_server import wait_until
from jobs import Pipelines
from moving_server import MovingServer
from victims import Victim, bounded, unbounded

_COUNT = 6000
_MOVES = 2
_BEGIN_SECONDS = 120
_END_SECONDS = 400
_PREFIX = "moving"


@pytest.fixture(scope="module")
def moving(site: Site, tmp_path_factory: pytest.TempPathFactory) -> Iterator[MovingServer]:
    """A server that moves; after the tests it must end and leave nothing."""
    made = MovingServer(site, tmp_path_factory.mktemp("moving"), _PREFIX)
    try:
        yield made
        print(f"{made.lives} servers, each on a machine of its own", flush=True)
        wait_until(lambda: not site.store.names(f"{_PREFIX}/"), 60, "data of jobs goes")
        made.stop()
    finally:
        made.close()


@pytest.mark.timeout(1800, func_only=True)
@pytest.mark.parametrize(
    ("victim", "bulk"),
    [(bounded, "always"), (bounded, "never"), (unbounded, "auto")],
    ids=["sections", "lanes", "unbounded"],
)
def test_every_element_arrives_once(
    moving: MovingServer, victim: Victim, bulk: str, seed: int
) -> None:
    choose = random.Random(seed)
    pipelines = Pipelines(moving.address, "embedded", [f"--beam_spark_bulk={bulk}"])
    job = submit(pipelines, victim, _COUNT, Path("/nowhere"))
    wait_until(lambda: has_begun(job), _BEGIN_SECONDS, "the job begins")
    moves = 0
    while moves < _MOVES and not job.state().is_terminal:
        time.sleep(choose.uniform(0.5, 4))
        moving.lose()
        began = time.monotonic()
        moving.go_on()
        print(f"{moving.machine.name} after {time.monotonic() - began:.1f} s", flush=True)
        moves += 1
    assert moves, "the job was over before anything happened to its server"
    job.wait(_END_SECONDS)  # whose client connects again where it was not heard
    check(job, _COUNT)
