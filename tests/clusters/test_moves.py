"""Sudden loss of the server's machine: the next server runs on another machine, with only the store.
The job loses and duplicates no element.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator

import pytest
from cluster_site import Site
from job_server import without_store_mark
from moving_server import MovingServer
from struck_jobs import check_struck, each_way
from victims import Victim
from waiting import wait_until

_COUNT = 6000
_PREFIX = "moving"


@pytest.fixture(scope="module")
def moving(site: Site, tmp_path_factory: pytest.TempPathFactory) -> Iterator[MovingServer]:
    """Yields a server that moves between machines; after the tests it must exit and leave no file."""
    made = MovingServer(site, tmp_path_factory.mktemp("moving"), _PREFIX)
    try:
        yield made
        print(f"{made.lives} servers, each on a machine of its own", flush=True)
        wait_until(
            lambda: not without_store_mark(site.store.names(f"{_PREFIX}/")), 60, "data of jobs goes"
        )
        made.stop()
    finally:
        made.close()


@pytest.mark.timeout(1800, func_only=True)
@each_way
def test_elements_arrive_exactly_once_if_the_server_moves(
    moving: MovingServer, victim: Victim, bulk: str, seed: int
) -> None:
    def move() -> None:
        moving.lose()
        began = time.monotonic()
        moving.go_on()
        print(f"{moving.machine.name} after {time.monotonic() - began:.1f} s", flush=True)

    check_struck(moving.address, victim, bulk, _COUNT, random.Random(seed), move)
