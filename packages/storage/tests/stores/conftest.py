"""Import path of the shared test doubles, and fixtures of every data store."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from azurite_server import azurite_server
from moto_server import BUCKET, make_store, moto_server

from beam_runner_storage.stores.spec import StoreSpec


@pytest.fixture(scope="session")
def s3() -> Iterator[str]:
    """Returns the address of a server with the S3 protocol."""
    with moto_server() as address:
        yield address


@pytest.fixture(scope="session")
def azurite() -> Iterator[Mapping[str, str]]:
    """Returns the environment variables of clients of an emulator of Azure's store, if one is installed."""
    with azurite_server() as environment:
        yield environment


HDFS = "BEAM_HDFS"
"""Environment variable with the URL of a folder in an HDFS, if an HDFS exists."""


@pytest.fixture(params=["folder", "file", "s3", "gs", "az", "hdfs"])
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
    if request.param == "az":
        for name, value in request.getfixturevalue("azurite").items():
            monkeypatch.setenv(name, value)
        return StoreSpec(f"az://{BUCKET}/{tmp_path.name}")
    for name, value in make_store(request.getfixturevalue("s3"), request.param).items():
        monkeypatch.setenv(name, value)
    return StoreSpec(f"{request.param}://{BUCKET}/{tmp_path.name}")
