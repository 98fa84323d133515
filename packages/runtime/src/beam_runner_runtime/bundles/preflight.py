"""Checks of a machine before it runs bundles: versions of packages, connection to the server, access to the store."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Mapping

import attrs
from beam_runner_data.fetching.access import explain_unusable_store
from beam_runner_storage.stores.spec import StoreSpec

from beam_runner_runtime.channel.client import check_server_reachable
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
"""Packages that need the same version in the server and the workers, because each side unpickles
data of the other side.
"""


@attrs.frozen
class BundleRequirements:
    """Requirements that a machine must meet to run bundles.

    Attributes:
        endpoint: address of the server for worker processes.
        store: store of the job files.
        versions: the server's versions of the packages that must be the same.
    """

    endpoint: Endpoint
    store: StoreSpec
    versions: Mapping[str, str] = attrs.field(factory=lambda: _list_versions())


def find_unmet_requirement(needs: BundleRequirements) -> str:
    """Returns a text about the first requirement that this machine doesn't meet, with a fix.
    Returns "" if all are met.
    """
    here = _list_versions()
    for name, version in needs.versions.items():
        if here.get(name) != version:
            return (
                f"{name} is {here.get(name) or 'missing'} on the executor and {version}"
                " on the server: give executors the server's environment, installed on"
                " their machines or shipped with spark.archives"
            )
    reason = check_server_reachable(needs.endpoint, _KNOCK_SECONDS)
    if reason:
        return (
            f"the server's channel at {needs.endpoint.address} is not to be reached from there "
            f"({reason}):"
            " --channel-host, --channel-port and --channel-advertise say where it is"
        )
    return explain_unusable_store(needs.store)


def _list_versions() -> dict[str, str]:
    found = {}
    for name in _ALIKE:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found
