"""Tests of the fake services and disks with which the outage tests simulate outages."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from neighbours import Disk, Service, can_mount
from proxy import SLOW_SECONDS
from streams import ServiceError, ask


@pytest.fixture(scope="module")
def service() -> Iterator[Service]:
    made = Service()
    yield made
    made.close()


@pytest.mark.parametrize(
    ("kind", "error"),
    [("refuse", ConnectionRefusedError), ("errors", ServiceError), ("stall", TimeoutError)],
)
def test_fake_service_fails_only_during_an_outage(
    service: Service, kind: str, error: type[Exception]
) -> None:
    service.leave(kind)
    with pytest.raises(error):
        ask(service.url, "/numbers/one")
    service.come_back()
    assert int(ask(service.url, "/numbers/one")) >= 0


def test_fake_service_that_loses_responses_stores_the_written_data(service: Service) -> None:
    service.leave("lose")
    with pytest.raises(ConnectionError):
        ask(service.url, "/sink/lost", "7")
    service.come_back()
    assert ask(service.url, "/sink/lost") == '{"writes": 1, "different": 1}'


def test_slow_fake_service_responds_late(service: Service) -> None:
    service.leave("slow")
    began = time.monotonic()
    assert int(ask(service.url, "/numbers/two")) >= 0
    assert time.monotonic() - began >= SLOW_SECONDS
    service.come_back()


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    if not can_mount(tmp_path):
        pytest.skip("only root can make a file system")
    made = Disk(tmp_path / "disk")
    yield made
    made.close()


def test_fake_disk_refuses_writes_only_while_it_is_full(disk: Disk) -> None:
    disk.leave("full")
    time.sleep(1.0)
    with pytest.raises(OSError, match="No space left"):
        (disk.folder / "file").write_bytes(bytes(1 << 17))
    disk.come_back()
    assert (disk.folder / "file").write_bytes(bytes(1 << 17)) == 1 << 17


def test_stalled_fake_disk_delays_writes_until_it_recovers(disk: Disk) -> None:
    written = threading.Event()

    def write() -> None:
        (disk.folder / "file").write_bytes(b"late")
        written.set()

    disk.leave("stall")
    try:
        threading.Thread(target=write).start()
        assert not written.wait(1.0)
    finally:
        disk.come_back()
    assert written.wait(60)
