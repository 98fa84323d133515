"""What the tests of this package share: the doubles, and one Spark session for all that need one."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from beam_spark_executor.spark.first_tasks import warm_up
from beam_spark_executor.spark.pool import Slot, WorkerPools
from beam_spark_executor.spark.session import RunningSpark, start_spark
from beam_spark_executor.spark.settings import SparkSettings

_TESTS = Path(__file__).parents[3] / "tests"
sys.path[:0] = [str(_TESTS / "support"), str(_TESTS / "doubles")]


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
    warm_up(spark.context, pools)
    return pools


@pytest.fixture
def slot(pools: WorkerPools) -> Iterator[Slot]:
    slot = pools.acquire()
    yield slot
    pools.retire(slot)
