"""Tests without a store: no data is stored, and data that requires a store is refused in one sentence."""

from __future__ import annotations

from pathlib import Path

import pytest

from beam_runner_storage.stores.ports import MissingFileError, NoStoreError
from beam_runner_storage.stores.probe import probe_store
from beam_runner_storage.stores.spec import NO_STORE, StoreSpec


def test_null_store_refuses_put_and_names_size(tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.write_bytes(bytes(40_000))
    store = NO_STORE.open_store()
    with pytest.raises(NoStoreError, match="40,000 bytes exceed the maximum .* --data-dir s3://"):
        store.put_file("data", source)
    with pytest.raises(MissingFileError, match="data"):
        store.fetch_file("data", tmp_path / "target")
    with pytest.raises(MissingFileError, match="data"):
        store.read_file("data")
    with pytest.raises(NoStoreError, match="3 bytes"):
        store.create_file("data", b"abc")
    assert list(store.list_names()) == []
    store.delete_files(["data"])


def test_null_store_spec_accepts_no_files(tmp_path: Path) -> None:
    assert NO_STORE.with_prefix("job-1") == NO_STORE
    assert not NO_STORE.accepts_files
    assert StoreSpec("s3://bucket").accepts_files
    probe_store(NO_STORE)
