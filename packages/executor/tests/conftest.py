"""Fixtures of this package: the test doubles, and one Spark session for all tests that need a session."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from xdist.scheduler import LoadFileScheduling

from beam_spark_executor.spark.first_tasks import warm_up_cores
from beam_spark_executor.spark.pool import WorkerPools, WorkerSlot
from beam_spark_executor.spark.session import RunningSpark, start_spark
from beam_spark_executor.spark.settings import SparkSettings

_TESTS = Path(__file__).parents[3] / "tests"
sys.path[:0] = [str(_TESTS / "support"), str(_TESTS / "doubles")]


# Files in the folder `spark` whose tests need no session, or start a session in a separate process.
WITHOUT_SESSION = frozenset(
    f"test_{name}.py"
    for name in (
        *(
            "class_sharing",
            "cores",
            "first_tasks",
            "fork_server",
            "java",
            "java_errors",
            "java_wheel",
            "health_check",
        ),
        *("session", "settings", "spark_jobs"),
    )
)


class SparkInOneProcess(LoadFileScheduling):
    """A scheduler that assigns all tests with the shared session to one process, so that Spark starts once."""

    def _split_scope(self, nodeid: str) -> str:
        return "spark" if _is_of_spark(nodeid) else super()._split_scope(nodeid)


def _is_of_spark(nodeid: str) -> bool:
    file = Path(nodeid.partition("::")[0])
    if file.parent.name == "spark":
        return file.name not in WITHOUT_SESSION
    return file.name == "test_placements.py"


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> SparkInOneProcess:
    return SparkInOneProcess(config, log)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Orders the Spark tests first, because they take longest."""
    items.sort(key=lambda item: not _is_of_spark(item.nodeid))


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "spark: starts Spark, and so needs Java and seconds")


@pytest.fixture(scope="session")
def spark() -> Iterator[RunningSpark]:
    running = start_spark(SparkSettings(master="local[2,4]"))
    yield running
    running.stop()


@pytest.fixture(scope="session")
def pools(spark: RunningSpark) -> WorkerPools:
    pools = WorkerPools(spark.context)
    warm_up_cores(spark.context, pools)
    return pools


@pytest.fixture
def slot(pools: WorkerPools) -> Iterator[WorkerSlot]:
    slot = pools.acquire_slot()
    yield slot
    pools.retire_slot(slot)
