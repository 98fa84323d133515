from __future__ import annotations

import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from beam_runner_storage.stores.probe import create_marker_file
from beam_runner_storage.stores.spec import NO_STORE, StoreSpec

from beam_runner_runtime.bundles.preflight import BundleRequirements, find_unmet_requirement
from beam_runner_runtime.channel.endpoints import KNOCK
from beam_runner_runtime.channel.messages import Endpoint
from beam_runner_runtime.channel.place import ChannelAddress
from beam_runner_runtime.channel.server import ChannelServer


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    server = ChannelServer(ChannelAddress(), lambda job_id: None, lambda number: None)
    server.start()
    yield server.endpoints.make_endpoint(KNOCK)
    server.stop()


def test_executor_check_accepts_matching_environment(endpoint: Endpoint) -> None:
    assert find_unmet_requirement(BundleRequirements(endpoint, NO_STORE)) == ""


def test_executor_check_names_package_with_different_version(endpoint: Endpoint) -> None:
    versions = {"apache-beam": "2.1", "no-such-package": "7"}
    assert find_unmet_requirement(BundleRequirements(endpoint, NO_STORE, versions)).endswith(
        "spark.archives"
    )
    assert " and 2.1 on the server" in find_unmet_requirement(
        BundleRequirements(endpoint, NO_STORE, versions)
    )
    del versions["apache-beam"]
    missing = find_unmet_requirement(BundleRequirements(endpoint, NO_STORE, versions))
    assert "no-such-package is missing on the executor and 7 on the server" in missing


@contextmanager
def files_of_at_most(size: int) -> Iterator[None]:
    """Limits the file size of this process, as on a full disk."""
    usual = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, usual[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, usual)


@pytest.mark.parametrize("room", [0, 1000])
def test_executor_check_names_full_disk_if_data_goes_to_store(
    endpoint: Endpoint, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, room: int
) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setenv("SPARK_LOCAL_DIRS", str(scratch))
    store = StoreSpec(f"file://{tmp_path / 'store'}")
    create_marker_file(store)
    needs = BundleRequirements(endpoint, store)
    assert find_unmet_requirement(needs) == ""
    with files_of_at_most(room):
        told = find_unmet_requirement(needs)
    assert told.startswith(f"Can't write to {scratch} (")
    assert "SPARK_LOCAL_DIRS" in told
    assert list(scratch.iterdir()) == []


def test_executor_check_names_missing_data_folder(
    endpoint: Endpoint, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPARK_LOCAL_DIRS", str(tmp_path / "missing"))
    told = find_unmet_requirement(
        BundleRequirements(endpoint, StoreSpec(f"file://{tmp_path / 'store'}"))
    )
    assert told.startswith(f"Can't write to {tmp_path / 'missing'} (")
    assert "No such file or directory" in told
