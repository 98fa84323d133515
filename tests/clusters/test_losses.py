"""What is lost while a job runs, at once and without a word: a worker's machine, the server, the store; nothing is lost of the data, nothing comes twice."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from cluster_site import Site
from crash_points import check, has_begun, submit
from job_server import wait_until
from jobs import Pipelines
from lives import Lives
from shared_folder import SharedFolder
from victims import Victim, bounded, unbounded

_COUNT = 2500
_KILLS = 2
_AWAY_SECONDS = 20
"""For how long the store is away."""
_BEGIN_SECONDS = 120
_END_SECONDS = 400

Strike = Callable[[Site, Lives, random.Random], None]


def worker_dies(site: Site, running: Lives, choose: random.Random) -> None:
    """One worker's machine is gone at once, and comes back after a while, with what was on its disk."""
    machine = choose.choice(site.spark.workers)
    machine.kill()
    running.kills["machine"] += 1
    time.sleep(choose.uniform(2, 15))
    site.spark.boot(machine)
    site.spark.wait_for([machine])


def server_dies(site: Site, running: Lives, choose: random.Random) -> None:
    """The server is gone, and the next one goes on with what is in the store; executors are new."""
    assert running.kill("server")
    running.wait_until_gone()
    running.go_on()


def store_is_away(site: Site, running: Lives, choose: random.Random) -> None:
    """The store is gone, and answers again after a while, with all that it had promised to keep."""
    site.store.machine.kill()
    running.kills["store"] += 1
    time.sleep(_AWAY_SECONDS)
    site.store.start()


@pytest.mark.timeout(900, func_only=True)
@pytest.mark.parametrize(
    "strike", [worker_dies, server_dies, store_is_away], ids=lambda it: it.__name__
)
@pytest.mark.parametrize(
    ("victim", "bulk"),
    [(bounded, "always"), (bounded, "never"), (unbounded, "auto")],
    ids=["sections", "lanes", "unbounded"],
)
def test_every_element_arrives_once(
    running: Lives, site: Site, victim: Victim, bulk: str, strike: Strike, seed: int
) -> None:
    if strike is store_is_away and isinstance(site.store, SharedFolder):
        pytest.skip("a folder has no server that could be away")
    choose = random.Random(seed)
    pipelines = Pipelines(running.address, "embedded", [f"--beam_spark_bulk={bulk}"])
    job = submit(pipelines, victim, _COUNT, Path("/nowhere"))
    wait_until(lambda: has_begun(job), _BEGIN_SECONDS, "the job begins")
    struck = 0
    while struck < _KILLS and not job.state().is_terminal:
        time.sleep(choose.uniform(0.5, 4))
        strike(site, running, choose)
        struck += 1
    assert struck, "the job was over before anything happened to it"
    job.wait(_END_SECONDS)  # whose client connects again where it was not heard
    check(job, _COUNT)
