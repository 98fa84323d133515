from __future__ import annotations

import socket
import time
from collections.abc import Iterator, Mapping

import pytest

from beam_spark_executor.spark.master_check import check_master_reachable
from beam_spark_executor.spark.settings import SparkUnavailable


@pytest.fixture
def closed() -> int:
    """Returns a port at which no process listens."""
    with socket.create_server(("localhost", 0)) as server:
        return int(server.getsockname()[1])


@pytest.fixture
def opened() -> Iterator[int]:
    """Yields a port at which a process listens."""
    with socket.create_server(("localhost", 0)) as server:
        yield int(server.getsockname()[1])


def is_reachable(master: str, environment: Mapping[str, str]) -> bool:
    try:
        check_master_reachable(master, environment)
    except SparkUnavailable:
        return False
    return True


@pytest.mark.parametrize(
    ("master", "what"),
    [
        ("spark://localhost:{closed}", "Spark master"),
        ("spark://localhost:{closed},localhost:{closed}", "Spark master"),
        ("k8s://https://localhost:{closed}", "Kubernetes API"),
        ("k8s://localhost:{closed}", "Kubernetes API"),
    ],
)
def test_spark_master_without_listener_is_refused(master: str, what: str, closed: int) -> None:
    with pytest.raises(SparkUnavailable) as refused:
        check_master_reachable(master.format(closed=closed), {})
    assert str(refused.value).startswith(f"No {what} responds at {master.format(closed=closed)}")
    assert f"localhost:{closed}: Connection refused" in str(refused.value)
    assert "\n" not in str(refused.value)


def test_spark_master_with_unknown_host_is_refused() -> None:
    with pytest.raises(
        SparkUnavailable, match=r"No Spark master responds at spark://no-host\.invalid"
    ):
        check_master_reachable("spark://no-host.invalid:7077", {})


@pytest.mark.parametrize(
    "master",
    [
        "spark://localhost:{opened}",
        "spark://localhost:{closed},localhost:{opened}",
        "k8s://https://localhost:{opened}",
        "yarn",
        "local[2]",
        "local-cluster[2,1,1024]",
        "k8s://https://host:notaport",
    ],
)
def test_spark_master_with_listener_or_without_address_is_accepted(
    master: str, opened: int, closed: int
) -> None:
    assert is_reachable(master.format(opened=opened, closed=closed), {})


def test_kubernetes_master_behind_proxy_is_accepted(closed: int) -> None:
    proxies = {"HTTPS_PROXY": "http://proxy:1"}
    assert is_reachable(f"k8s://https://localhost:{closed}", proxies)


def test_unresponsive_spark_master_is_refused_within_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    limits = []

    def connect(address: tuple[str, int], seconds: float) -> socket.socket:
        limits.append(seconds)
        raise TimeoutError("timed out")

    monkeypatch.setattr(socket, "create_connection", connect)
    started = time.monotonic()
    with pytest.raises(SparkUnavailable, match="timed out"):
        check_master_reachable("spark://a:1,b:2", {}, 4.0)
    assert limits == [2.0, 2.0]
    assert time.monotonic() - started < 60
