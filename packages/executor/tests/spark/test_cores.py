from __future__ import annotations

from typing import Any

import attrs
import pytest

from beam_spark_executor.spark import cores as module
from beam_spark_executor.spark.cores import ClusterCores, compute_max_concurrent_tasks


@attrs.define(eq=False, slots=False)
class FakeContext:
    """A context of a cluster with a varying number of executors."""

    registered: int = 2
    gone: bool = False
    asked: int = 0

    def getConf(self) -> Any:
        return self

    def getAll(self) -> list[tuple[str, str]]:
        return [("spark.task.cpus", "1")]

    @property
    def defaultParallelism(self) -> int:
        self.asked += 1
        if self.gone:
            raise ConnectionError("Java is gone")
        return self.registered


def test_cluster_cores_follow_executors_with_one_query_per_second(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = [100.0]
    monkeypatch.setattr(module.time, "monotonic", lambda: now[0])
    context: Any = FakeContext()
    cores = ClusterCores(context)
    assert [cores() for _ in range(5)] == [2] * 5
    assert context.asked == 1
    context.registered = 8
    assert cores() == 2
    now[0] += 1.1
    assert cores() == 8
    now[0] += 1.1
    context.gone = True
    assert cores() == 8


def test_local_cores_are_queried_once(monkeypatch: pytest.MonkeyPatch) -> None:
    context: Any = FakeContext()
    cores = ClusterCores(context, change=False)
    cores()
    monkeypatch.setattr(module.time, "monotonic", lambda: 1e9)
    assert cores() == 2
    assert context.asked == 1


@pytest.mark.parametrize(
    ("registered", "conf", "cores"),
    [
        (6, {}, 6),
        (6, {"spark.task.cpus": "2"}, 3),
        (1, {"spark.task.cpus": "2"}, 1),
        (6, {"spark.dynamicAllocation.enabled": "true"}, 12),
        (
            2,
            {
                "spark.dynamicAllocation.enabled": "true",
                "spark.dynamicAllocation.maxExecutors": "10",
                "spark.executor.cores": "4",
            },
            40,
        ),
        (6, {"spark.dynamicAllocation.maxExecutors": "10"}, 6),
    ],
)
def test_maximum_of_concurrent_tasks_depends_on_spark_configuration(
    registered: int, conf: dict[str, str], cores: int
) -> None:
    assert compute_max_concurrent_tasks(registered, conf) == cores
