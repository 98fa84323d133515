"""Fixtures of table tests: a job whose bundles run as Spark jobs."""

from __future__ import annotations

from pathlib import Path

import pytest
from beam_runner_storage.stores.spec import StoreSpec
from table_jobs import TableJob

from beam_spark_executor.spark.pool import WorkerPools, WorkerSlot
from beam_spark_executor.spark.session import RunningSpark
from beam_spark_executor.spark.table_bundles import TableData


@pytest.fixture
def job(spark: RunningSpark, pools: WorkerPools, slot: WorkerSlot, tmp_path: Path) -> TableJob:
    data = TableData("job", StoreSpec(str(tmp_path / "data")), 4, str(tmp_path / "data"))
    (tmp_path / "data").mkdir()
    return TableJob(spark.session, pools, slot, data)
