"""Search for transforms and coders that an SDK doesn't know, as far as the server can find them before
the run.

An SDK of the server's versions knows the URNs that are registered in this process, and those that
its environment lists. For other SDKs the server can't decide: their capabilities are incomplete.
The server also can't decide for a running SDK, as in LOOPBACK, because its program may have
registered more.
"""

from __future__ import annotations

from collections.abc import Iterator

from beam_runner_urns import environments as environment_urns

from beam_runner_planner import _protos
from beam_runner_planner.ordering import sort_by_dependencies
from beam_runner_planner.sdks import (
    get_environment,
    has_server_versions,
    list_coders_known_to_server,
    list_transforms_known_to_server,
)


def is_unknown_to_sdk(transform: _protos.PTransform, components: _protos.Components) -> bool:
    """Returns whether the SDK of a transform can't run the transform, because the SDK doesn't know
    the transform's URN.
    """
    environment = get_environment(transform, components)
    urn = transform.spec.urn
    known = urn in list_transforms_known_to_server() or urn in environment.capabilities
    return _has_known_transforms(environment) and not known


def _has_known_transforms(environment: _protos.Environment) -> bool:
    return has_server_versions(environment) and environment.urn != environment_urns.EXTERNAL


def find_unknown_coders(components: _protos.Components) -> dict[str, list[str]]:
    """Returns the coders in use that no SDK of the pipeline knows, with the names of the
    PCollections or states that use these coders.

    The result is empty unless all SDKs have the server's versions and start with the job.
    """
    environments = components.environments.values()
    if not all(map(_has_known_transforms, environments)):
        return {}
    known = list_coders_known_to_server().union(
        *(environment.capabilities for environment in environments)
    )
    first: dict[str, str | None] = {}
    coders = components.coders
    for coder_id in sort_by_dependencies(coders, lambda one: coders[one].component_coder_ids):
        urn, parts = coders[coder_id].spec.urn, coders[coder_id].component_coder_ids
        first[coder_id] = (
            next(filter(None, (first[part] for part in parts)), None) if urn in known else str(urn)
        )
    found: dict[str, list[str]] = {}
    for coder_id, name in _map_coders_to_names(components):
        unknown = first[coder_id]
        if unknown is not None:
            found.setdefault(f"the coder {unknown!r}", []).append(name)
    return found


def _map_coders_to_names(components: _protos.Components) -> Iterator[tuple[str, str]]:
    for pcollection in components.pcollections.values():
        yield pcollection.coder_id, pcollection.unique_name
    for strategy_id, strategy in components.windowing_strategies.items():
        yield strategy.window_coder_id, strategy_id
