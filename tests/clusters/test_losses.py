"""Tests of the sudden loss of a worker's machine, the server or the store: a job loses and duplicates no element."""

from __future__ import annotations

import random
import time
from collections.abc import Callable

import pytest
from cluster_site import Site
from lives import Lives
from shared_folder import SharedFolder
from struck_jobs import check_struck, each_way
from victims import Victim

_COUNT = 2500
_AWAY_SECONDS = 20
"""Duration of the store's outage, seconds."""

Strike = Callable[[Site, Lives, random.Random], None]


def worker_dies(site: Site, running: Lives, choose: random.Random) -> None:
    """Kills a worker's machine, and restarts it later with its disk."""
    machine = choose.choice(site.spark.workers)
    machine.kill()
    running.kills["machine"] += 1
    time.sleep(choose.uniform(2, 15))
    site.spark.boot(machine)
    site.spark.wait_for([machine])


def server_dies(site: Site, running: Lives, choose: random.Random) -> None:
    """Kills the server; the next server resumes from the store with new executors."""
    assert running.kill("server")
    running.wait_until_gone()
    running.go_on()


def store_is_away(site: Site, running: Lives, choose: random.Random) -> None:
    """Kills the store, and restarts it later with all acknowledged data."""
    site.store.machine.kill()
    running.kills["store"] += 1
    time.sleep(_AWAY_SECONDS)
    site.store.start()


@pytest.mark.timeout(900, func_only=True)
@pytest.mark.parametrize(
    "strike", [worker_dies, server_dies, store_is_away], ids=lambda it: it.__name__
)
@each_way
def test_elements_arrive_exactly_once_if_machines_are_lost(
    running: Lives, site: Site, victim: Victim, bulk: str, strike: Strike, seed: int
) -> None:
    if strike is store_is_away and isinstance(site.store, SharedFolder):
        pytest.skip("a folder has no server that could be away")
    choose = random.Random(seed)
    check_struck(
        running.address, victim, bulk, _COUNT, choose, lambda: strike(site, running, choose)
    )
