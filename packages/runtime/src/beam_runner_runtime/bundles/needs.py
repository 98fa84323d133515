"""What bundles need where they run, tried there before any of them runs."""

from __future__ import annotations

import importlib.metadata
import tempfile
from collections.abc import Mapping
from pathlib import Path

import attrs
from beam_runner_storage.stores.ports import StoreError
from beam_runner_storage.stores.probe import probe
from beam_runner_storage.stores.spec import StoreSpec

from beam_runner_runtime.bundles.job_files import scratch_folder
from beam_runner_runtime.channel.client import knock
from beam_runner_runtime.channel.messages import Endpoint

_KNOCK_SECONDS = 10.0
_ROOM_BYTES = 1 << 20
_ALIKE = (
    "apache-beam",
    "beam-runner-data",
    "beam-runner-engine",
    "beam-runner-model",
    "beam-runner-planner",
    "beam-runner-runtime",
    "beam-runner-storage",
    "beam-runner-worker",
    "beam-spark-executor",
    "beam-spark-io",
)
"""What has to be the same on both sides: one reads what the other has pickled."""


@attrs.frozen
class Needs:
    """What bundles need where they run.

    Attributes:
        endpoint: the server's channel.
        store: where data lies.
        file: one in the folder where data lies, which all machines share, if that is no store.
        versions: of the packages that have to be alike, as the server has them.
    """

    endpoint: Endpoint
    store: StoreSpec | None
    file: Path | None
    versions: Mapping[str, str] = attrs.field(factory=lambda: _versions())


def trouble_here(needs: Needs) -> str:
    """What bundles would not find where this runs, and what to do; empty if all is there."""
    here = _versions()
    for name, version in needs.versions.items():
        if here.get(name) != version:
            return (
                f"{name} is {here.get(name) or 'missing'} there and {version} in the server: give executors the server's"
                " environment, installed on their machines or brought by spark.archives"
            )
    reason = knock(needs.endpoint, _KNOCK_SECONDS)
    if reason:
        return (
            f"the server's channel at {needs.endpoint.address} is not to be reached from there ({reason}):"
            " --channel-host, --channel-port and --channel-advertise say where it is"
        )
    if needs.file is not None and not needs.file.exists():
        return (
            f"the folder {needs.file.parent}, where data lies, is another one there: give a --data-dir that all"
            " machines share, or s3://BUCKET/PREFIX (or gs://, az://, abfss://, hdfs://)"
        )
    if needs.store is not None:
        if trouble := _trouble_with_scratch():
            return trouble
        try:
            probe(needs.store)
        except StoreError as error:
            return str(error)
    return ""


def _trouble_with_scratch() -> str:
    """Why files can't be written where copies of a store's are kept; empty if they can."""
    folder = scratch_folder()
    try:
        with tempfile.TemporaryFile(dir=folder, buffering=0) as file:
            written = file.write(bytes(_ROOM_BYTES))
        reason = "" if written == _ROOM_BYTES else "it is full"
    except OSError as error:
        reason = str(error.strerror)
    if not reason:
        return ""
    return (
        f"{folder}, where workers keep data before it goes to the store, can't be written ({reason}): make room there,"
        " or have Spark's spark.local.dir or SPARK_LOCAL_DIRS name another folder"
    )


def _versions() -> dict[str, str]:
    found = {}
    for name in _ALIKE:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found
