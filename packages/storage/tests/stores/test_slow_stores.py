"""Tests of files whose transfer takes longer than the limit of a request, because the connection is slow."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from moto_server import BUCKET, S3
from slow_store import SlowStore, slow_store

from beam_runner_storage.stores.ports import FileStore, StoreError
from beam_runner_storage.stores.spec import StoreSpec

MEGABYTE = 1 << 20
LIMIT = 2.0
"""Limit of a request, in seconds."""
TRIES = 8


@pytest.fixture
def far(monkeypatch: pytest.MonkeyPatch) -> Iterator[SlowStore]:
    """Returns a store whose connection takes 0.2 s per MB: 24 MB take twice the limit of a request."""
    with slow_store(0.2) as server:
        for name, value in {
            **S3,
            "AWS_TIMEOUT": f"{LIMIT:.0f} seconds",
            "AWS_ENDPOINT_URL": server.address,
        }.items():
            monkeypatch.setenv(name, value)
        yield server


def is_put(store: FileStore, source: Path) -> bool:
    """Returns whether a store accepts a file. On a busy machine a part can be late."""
    try:
        store.put_file("file", source)
    except StoreError:
        return False
    return True


def is_fetched(store: FileStore, target: Path) -> bool:
    """Returns whether a store returns a file. On a busy machine, a part of the answer can be
    late.
    """
    try:
        store.fetch_file("file", target)
    except StoreError:
        return False
    return True


def test_large_file_upload_resumes_part_by_part_after_failure(
    far: SlowStore, tmp_path: Path
) -> None:
    store = StoreSpec(f"s3://{BUCKET}/jobs").open_store(patience=LIMIT)
    source = tmp_path / "source"
    source.write_bytes(os.urandom(24 * MEGABYTE))
    with pytest.raises(StoreError, match="failed to write file"):
        store.put_file("file", source)
    assert any(is_put(store, source) for _ in range(TRIES))
    assert far.objects[f"/{BUCKET}/jobs/file"] == source.read_bytes()


def test_large_file_is_fetched_while_data_arrives(far: SlowStore, tmp_path: Path) -> None:
    contents = far.objects[f"/{BUCKET}/jobs/file"] = os.urandom(24 * MEGABYTE)
    store = StoreSpec(f"s3://{BUCKET}/jobs").open_store(patience=LIMIT)
    assert any(is_fetched(store, tmp_path / "target") for _ in range(TRIES))
    assert (tmp_path / "target").read_bytes() == contents
