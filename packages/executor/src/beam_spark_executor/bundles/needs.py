"""What bundles need where they run, tried there before any of them runs."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Mapping
from pathlib import Path

import attrs

from beam_spark_executor.channel.client import knock
from beam_spark_executor.channel.messages import Endpoint
from beam_spark_executor.stores.ports import StoreError
from beam_spark_executor.stores.probe import probe
from beam_spark_executor.stores.spec import StoreSpec

_KNOCK_SECONDS = 10.0
_ALIKE = (
    "beam-spark-executor",
    "beam-runner-engine",
    "beam-runner-worker",
    "apache-beam",
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
            " machines share, or s3://BUCKET/PREFIX (or gs://, az://, abfss://)"
        )
    if needs.store is not None:
        try:
            probe(needs.store)
        except StoreError as error:
            return str(error)
    return ""


def _versions() -> dict[str, str]:
    found = {}
    for name in _ALIKE:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found
