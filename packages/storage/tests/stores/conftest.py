"""Import path of the shared test doubles, and fixtures of every data store."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from pathlib import Path

import boto3
import pytest
from moto_server import BUCKET, S3, moto_server

from beam_runner_storage.stores.spec import StoreSpec


@pytest.fixture(scope="session")
def s3() -> Iterator[str]:
    """Returns the address of a server with the S3 protocol."""
    with moto_server() as address:
        yield address


HDFS = "BEAM_HDFS"
"""Environment variable with the URL of a folder in an HDFS, if an HDFS exists."""


@pytest.fixture(params=["folder", "file", "s3", "hdfs"])
def spec(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> StoreSpec:
    """Returns the location of a store, for each kind of store."""
    if request.param == "folder":
        return StoreSpec(str(tmp_path / "store"))
    if request.param == "file":
        return StoreSpec(f"file://{tmp_path / 'store'}")
    if request.param == "hdfs":
        if HDFS not in os.environ:
            pytest.skip(f"NOT RUN: {HDFS} names no HDFS, which `nox -s hdfs` has")
        return StoreSpec(f"{os.environ[HDFS]}/{tmp_path.name}-{secrets.token_hex(4)}")
    address = request.getfixturevalue("s3")
    for name, value in {**S3, "AWS_ENDPOINT_URL": address}.items():
        monkeypatch.setenv(name, value)
    client = boto3.client("s3", endpoint_url=address)
    client.create_bucket(Bucket=BUCKET)
    return StoreSpec(f"s3://{BUCKET}/{tmp_path.name}")
