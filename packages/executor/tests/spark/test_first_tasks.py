from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import attrs
import pytest
from beam_runner_runtime.bundles.preflight import BundleRequirements
from beam_runner_runtime.channel.endpoints import KNOCK
from beam_runner_runtime.channel.messages import Endpoint
from beam_runner_runtime.channel.place import ChannelAddress
from beam_runner_runtime.channel.server import ChannelServer
from beam_runner_storage.stores.probe import create_marker_file
from beam_runner_storage.stores.spec import NO_STORE, StoreSpec
from plain_threads import start_plain_thread

from beam_spark_executor.spark import first_tasks
from beam_spark_executor.spark.first_tasks import check_executors, warm_up_cores
from beam_spark_executor.spark.pool import SLOT_VARIABLE, WorkerPools
from beam_spark_executor.spark.settings import SparkUnavailable


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    server = ChannelServer(ChannelAddress(), lambda job_id: None, lambda number: None)
    server.start()
    yield server.endpoints.make_endpoint(KNOCK)
    server.stop()


@attrs.define(eq=False, slots=False)
class FakeCluster:
    """A session whose tasks run immediately in this process, or never."""

    comes: bool = True
    failure: Exception | None = None
    master: str = "spark://master:7077"
    defaultParallelism: int = 2
    environment: dict[str, str] = attrs.field(factory=dict)
    cancelled: threading.Event = attrs.field(factory=threading.Event)

    def setJobGroup(self, *arguments: Any, **more: Any) -> None:
        """Does nothing, because only one job group exists."""

    def cancelJobGroup(self, group: str) -> None:
        self.cancelled.set()

    def parallelize(self, numbers: range, partitions: int) -> FakeCluster:
        assert len(numbers) == partitions
        self._partitions = partitions
        return self

    def mapPartitions(self, function: Callable[[Iterator[int]], Iterator[Any]]) -> FakeCluster:
        self._function = function
        return self

    @property
    def _jrdd(self) -> None:
        """Returns the object that PySpark makes for Java, with the current environment of workers."""
        assert SLOT_VARIABLE in self.environment

    def collect(self) -> list[Any]:
        if not self.comes:
            self.cancelled.wait(60)
            raise RuntimeError("cancelled")
        if self.failure is not None:
            raise self.failure
        return [one for number in range(self._partitions) for one in self._function(iter([number]))]


@pytest.fixture(autouse=True)
def plain_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(first_tasks, "start_job_thread", start_plain_thread)


def check(cluster: Any, needs: BundleRequirements) -> frozenset[str]:
    return check_executors(cluster, WorkerPools(cluster), needs)


@pytest.mark.parametrize(
    ("master", "limit", "told"),
    [
        ("spark://master:7077", 0.1, False),
        ("spark://master:7077", 0.4, True),
        ("local[2,4]", 0.4, False),
    ],
)
def test_cluster_check_without_executors_fails_after_time_limit(
    master: str,
    limit: float,
    told: bool,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(first_tasks, "_SAY_SO_SECONDS", 0.2)
    cluster: Any = FakeCluster(comes=False, master=master)
    pools = WorkerPools(cluster)
    with pytest.raises(SparkUnavailable, match="has not run a task within"):
        warm_up_cores(cluster, pools, limit)
    assert cluster.cancelled.is_set()
    # Threads of other tests can log meanwhile, so only this module's records count.
    records = [record for record in caplog.records if record.name == first_tasks.__name__]
    assert any(record.levelname == "WARNING" for record in records) is told
    assert master in caplog.text or not told
    # A worker can use this slot later.
    assert pools.acquire_slot().name != "slot-0.0"


def test_cluster_check_accepts_suitable_cluster(endpoint: Endpoint, tmp_path: Path) -> None:
    store = StoreSpec(f"file://{tmp_path}/store")
    create_marker_file(store)
    hosts = check(FakeCluster(), BundleRequirements(endpoint, store))
    assert hosts == {socket.gethostname()}


def test_cluster_check_names_address_that_executors_cannot_reach(endpoint: Endpoint) -> None:
    elsewhere = attrs.evolve(endpoint, address="127.0.0.1:1")
    with pytest.raises(SparkUnavailable, match=r"host \S+: .* 127.0.0.1:1 is not .*--channel-adv"):
        check(FakeCluster(), BundleRequirements(elsewhere, NO_STORE))


def test_cluster_check_names_folder_that_is_not_shared(endpoint: Endpoint, tmp_path: Path) -> None:
    with pytest.raises(SparkUnavailable, match=f"the folder {tmp_path} .*--data-dir"):
        check(FakeCluster(), BundleRequirements(endpoint, StoreSpec(str(tmp_path))))


def test_cluster_check_names_store_that_executor_cannot_use(
    endpoint: Endpoint, tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    store = StoreSpec(f"file://{tmp_path}/file")
    with pytest.raises(SparkUnavailable, match=f"file://{tmp_path}/file"):
        check(FakeCluster(), BundleRequirements(endpoint, store))


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (
            "Job aborted\n/usr/bin/python3: Error while finding module specification for"
            " 'beam_spark_executor.spark.python_daemon' (ModuleNotFoundError: No module named 'beam_spark_executor')",
            "executors has no beam_spark_executor.*spark.pyspark.python",
        ),
        (
            'java.io.IOException: Cannot run program "./environment/bin/python": error=2\n\tat x',
            'can\'t start Python: "./environment/bin/python": error=2; set spark.pyspark.python',
        ),
        (
            "Traceback\n[PYTHON_VERSION_MISMATCH] Python in worker has different version.\nmore",
            "MISMATCH.*Set spark.pyspark.python",
        ),
        ("no space left\nmore", "first tasks failed: no space left$"),
        ("", "first tasks failed: RuntimeError$"),
    ],
)
def test_cluster_check_reports_python_start_error_in_one_sentence(error: str, said: str) -> None:
    cluster: Any = FakeCluster(failure=RuntimeError(error))
    with pytest.raises(SparkUnavailable, match=said) as told:
        warm_up_cores(cluster, WorkerPools(cluster))
    assert len(str(told.value).splitlines()) == 1
