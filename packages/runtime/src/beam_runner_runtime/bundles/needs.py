"""What bundles need where they run, tried there before any of them runs."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Mapping

import attrs
from beam_runner_data.fetching.access import trouble_with_files
from beam_runner_storage.stores.spec import StoreSpec

from beam_runner_runtime.channel.client import knock
from beam_runner_runtime.channel.messages import Endpoint

_KNOCK_SECONDS = 10.0
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
        store: where the files of jobs lie.
        versions: of the packages that have to be alike, as the server has them.
    """

    endpoint: Endpoint
    store: StoreSpec
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
    return trouble_with_files(needs.store)


def _versions() -> dict[str, str]:
    found = {}
    for name in _ALIKE:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found
