"""Tests of a missing or unresponsive HDFS: the store reports an error of one line after the
configured time.

Tests of a real HDFS are in `tests/hdfs`.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from beam_runner_storage.stores.hdfs_calls import NoResponseError
from beam_runner_storage.stores.hdfs_refusals import explain_error
from beam_runner_storage.stores.ports import StoreError
from beam_runner_storage.stores.probe import probe_store
from beam_runner_storage.stores.spec import StoreSpec


@pytest.fixture
def listening() -> Iterator[str]:
    """Returns the address of a server that accepts connections and never responds."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield f"127.0.0.1:{listener.getsockname()[1]}"


@pytest.fixture
def nobody() -> Iterator[str]:
    """Returns an address without a listener."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        yield f"127.0.0.1:{bound.getsockname()[1]}"


def told(spec: StoreSpec, patience: float = 1.0) -> str:
    """Returns the error about an unusable store. Checks that the error has one line, and comes
    within the time limit.
    """
    began = time.monotonic()
    with pytest.raises(StoreError) as found:
        list(spec.open_store(patience).list_names())
    assert time.monotonic() - began < patience + 60
    said = str(found.value)
    assert len(said.splitlines()) == 1
    return said


@pytest.mark.parametrize("patience", [0.5, 2.0])
def test_unreachable_hdfs_namenode_is_retried_until_limit(nobody: str, patience: float) -> None:
    began = time.monotonic()
    said = told(StoreSpec(f"hdfs://{nobody}/data"), patience)
    assert time.monotonic() - began > patience / 2
    assert f"hdfs://{nobody}/data failed to list its files: " in said
    assert "Connection refused" in said
    assert "the port for clients" in said


def test_unresponsive_hdfs_namenode_times_out(listening: str) -> None:
    said = told(StoreSpec(f"hdfs://{listening}/data"))
    assert "no response within 1 s; either no namenode is running" in said


def test_failed_hdfs_probe_reports_file_it_could_not_write(nobody: str) -> None:
    with pytest.raises(StoreError, match="failed to write .*Connection refused"):
        probe_store(StoreSpec(f"hdfs://{nobody}/data"))


def test_unknown_hdfs_name_service_is_reported_with_searched_folder(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HADOOP_CONF_DIR", str(tmp_path))
    said = told(StoreSpec("hdfs://production/data"))
    assert "hdfs://production/data can't be used: " in said
    assert f"defines this name service (it is {tmp_path})" in said
    monkeypatch.delenv("HADOOP_CONF_DIR")
    assert "(it is not set)" in told(StoreSpec("hdfs://production/data"))


def test_viewfs_without_mount_table_is_reported_with_setting(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("HADOOP_CONF_DIR", raising=False)
    assert "linkFallback" in told(StoreSpec("viewfs://production/data"))


def test_unreadable_hadoop_settings_are_reported(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HADOOP_CONF_DIR", str(tmp_path))
    (tmp_path / "core-site.xml").write_text("<configuration>")
    assert "can't be used: " in told(StoreSpec("hdfs://production/data"))


RPC = 'RPCError("org.apache.hadoop.{}", "{}\\n\\tat org.apache.hadoop.X.y(X.java:1)\\n")'


@pytest.mark.parametrize(
    ("error", "says", "passes"),
    [
        (
            RuntimeError(RPC.format("security.AccessControlException", 'no \\"x\\".')),
            'AccessControlException: no "x"; the user needs permission',
            False,
        ),
        (
            RuntimeError(RPC.format("hdfs.server.namenode.SafeModeException", "Not now.")),
            "SafeModeException: Not now; wait for the end of safe mode",
            True,
        ),
        (
            RuntimeError(RPC.format("ipc.StandbyException", "Not I.")),
            "StandbyException: Not I; the URL names no active namenode",
            True,
        ),
        (
            RuntimeError(RPC.format("hdfs.protocol.DSQuotaExceededException", "Full.")),
            "DSQuotaExceededException: Full; the quota of a parent folder is exhausted",
            False,
        ),
        (
            RuntimeError('GSSAPIError(GSS_S_NO_CRED, 2, "No credentials")'),
            "kinit",
            False,
        ),
        (RuntimeError("NoSASLMechanism"), "NoSASLMechanism; this HDFS requires Kerberos", False),
        (RuntimeError(RPC.format("Unheard", "Why?")), "Unheard: Why?", True),
        (NoResponseError("no response within 1 s"), "no namenode is running", True),
        (OSError("reset by peer"), "reset by peer; either no namenode is running", True),
        (OSError(28, "No space left on device"), "No space left on device", False),
    ],
    ids=lambda it: "",
)
def test_refused_hdfs_request_is_reported_in_one_line_with_fix(
    error: Exception, says: str, passes: bool
) -> None:
    found = explain_error(error)
    assert says in found.reason
    assert len(found.reason.splitlines()) == 1
    assert found.is_transient is passes
