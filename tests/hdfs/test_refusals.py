"""Tests that refusals of HDFS are reported immediately, in one line, with the fix."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from beam_runner_storage.stores.ports import StoreError
from beam_runner_storage.stores.probe import probe_store
from beam_runner_storage.stores.spec import StoreSpec
from hdfs_servers import DATA_NODE, HdfsServers

_SOON = 20.0


def refusal(url: str) -> str:
    """Returns the error line of a server that starts with this URL."""
    began = time.monotonic()
    with pytest.raises(StoreError) as told:
        probe_store(StoreSpec(url))
    assert time.monotonic() - began < _SOON
    said = str(told.value)
    print(f"REFUSED {said}", flush=True)
    assert len(said.splitlines()) == 1
    assert "org.apache" not in said
    return said


def test_hdfs_user_without_permission_is_refused(
    hdfs: HdfsServers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HADOOP_USER_NAME", "stranger")
    said = refusal(f"{hdfs.url}/theirs")
    assert "AccessControlException: Permission denied: user=stranger" in said
    assert "needs permission to write" in said


def test_hdfs_in_safe_mode_is_refused(hdfs: HdfsServers) -> None:
    hdfs.run_dfsadmin("-safemode", "enter")
    try:
        said = refusal(f"{hdfs.url}/safe")
    finally:
        hdfs.run_dfsadmin("-safemode", "leave")
    assert "SafeModeException" in said
    assert "hdfs dfsadmin -safemode get" in said
    probe_store(StoreSpec(f"{hdfs.url}/safe"))


@pytest.mark.parametrize(("flag", "value"), [("-setQuota", "1"), ("-setSpaceQuota", "1m")])
def test_hdfs_folder_with_exhausted_quota_is_refused(
    hdfs: HdfsServers, tmp_path: Path, flag: str, value: str
) -> None:
    spec = StoreSpec(f"{hdfs.url}/quota{flag}")
    source = tmp_path / "source"
    source.write_bytes(bytes(2 << 20))
    spec.open_store().put_file("kept", source)
    hdfs.run_dfsadmin(flag, value, f"/quota{flag}")
    said = refusal(spec.url)
    assert "QuotaExceededException" in said
    assert "the quota of a parent folder is exhausted" in said


def test_hdfs_path_blocked_by_a_file_is_refused(hdfs: HdfsServers, tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.write_bytes(b"x")
    StoreSpec(f"{hdfs.url}/way").open_store().put_file("file", source)
    assert "a file exists at the path" in refusal(f"{hdfs.url}/way/file")


def test_hdfs_without_a_data_node_is_refused(hdfs: HdfsServers) -> None:
    with away(hdfs):
        said = refusal(f"{hdfs.url}/nowhere")
    assert "hdfs dfsadmin -report" in said


@contextmanager
def away(hdfs: HdfsServers) -> Iterator[None]:
    hdfs.kill(DATA_NODE)
    try:
        yield
    finally:
        hdfs.start(DATA_NODE)
        hdfs.wait()


def test_hdfs_web_port_is_refused(hdfs: HdfsServers) -> None:
    assert "not the port of the web pages" in refusal(f"hdfs://127.0.0.1:{hdfs.pages}/x")
