"""Tests of the server ID: unique per state, and the same for all servers with this state."""

from __future__ import annotations

from pathlib import Path

from beam_runner_storage.stores.identity import load_server_id
from beam_runner_storage.stores.spec import StoreSpec


def test_server_id_of_state_is_stable_and_unique(spec: StoreSpec) -> None:
    first = load_server_id(spec.with_prefix("one").open_store())
    assert first.startswith("server-")
    assert load_server_id(spec.with_prefix("one").open_store()) == first
    assert load_server_id(spec.with_prefix("other").open_store()) != first


def test_server_id_of_older_state_folder_is_unchanged(tmp_path: Path) -> None:
    (tmp_path / "server-id").write_text("server-0123456789abcdef\n")
    assert load_server_id(StoreSpec(str(tmp_path)).open_store()) == "server-0123456789abcdef"
