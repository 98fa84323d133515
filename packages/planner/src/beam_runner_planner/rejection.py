"""Search for unsupported features of a pipeline, so that the runner can name them when it rejects the pipeline."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from beam_runner_urns import python_sdk
from beam_runner_urns import requirements as requirement_urns
from beam_runner_urns import side_inputs as side_input_urns
from beam_runner_urns import spark as spark_urns
from beam_runner_urns import transforms as transform_urns

from beam_runner_planner import _protos, scripts
from beam_runner_planner.environments import ResolvedEnvironment
from beam_runner_planner.flattened_windows import describe_incompatible_window_functions
from beam_runner_planner.leaf_transforms import RESHUFFLES, has_own_outputs, list_leaf_transforms
from beam_runner_planner.sdks import get_environment, is_python_sdk
from beam_runner_planner.stateful import is_stateful
from beam_runner_planner.unknown_features import find_unknown_coders, is_unknown_to_sdk
from beam_runner_planner.window_coders import has_sdk_window_coder

# The runner executes these leaf transforms itself, without an environment.
_RUNNER_LEAVES = RESHUFFLES | {
    transform_urns.IMPULSE,
    transform_urns.FLATTEN,
    transform_urns.GROUP_BY_KEY,
    transform_urns.TEST_STREAM,
    *spark_urns.ALL,
}
_SUPPORTED_REQUIREMENTS = frozenset(
    {
        requirement_urns.REQUIRES_SPLITTABLE_DOFN,
        requirement_urns.REQUIRES_BUNDLE_FINALIZATION,
        requirement_urns.REQUIRES_STABLE_INPUT,
        requirement_urns.REQUIRES_STATEFUL_PROCESSING,
        requirement_urns.REQUIRES_TIME_SORTED_INPUT,
        requirement_urns.REQUIRES_ON_WINDOW_EXPIRATION,
    }
)
# Runners put these transforms into stages. SDKs never put them into pipelines.
_OF_RUNNERS = frozenset(
    {transform_urns.DATA_SOURCE, transform_urns.DATA_SINK, transform_urns.EXECUTABLE_STAGE}
)
_SIDE_INPUTS = frozenset({side_input_urns.ITERABLE, side_input_urns.MULTIMAP})


def find_unsupported_features(
    pipeline: _protos.Pipeline, environments: Mapping[str, ResolvedEnvironment]
) -> list[str]:
    """Returns one sentence for every unsupported feature; empty if the pipeline can run."""
    components = pipeline.components
    used_by: dict[str, list[str]] = {}
    for _, transform in list_leaf_transforms(pipeline.root_transform_ids, components):
        features = list(_find_unsupported_in_transform(transform, components))
        environment = environments.get(transform.environment_id)
        if environment is not None and environment.rejection:
            features.append(environment.rejection)
        for feature in features:
            used_by.setdefault(feature, []).append(transform.unique_name)
    if not used_by:
        used_by = find_unknown_coders(components)
    if not used_by:
        unsupported = set(pipeline.requirements) - _SUPPORTED_REQUIREMENTS
        return [f"the requirement {requirement!r}" for requirement in sorted(unsupported)]
    return [f"{feature} (in {_shorten_names(names)})" for feature, names in used_by.items()]


def _shorten_names(names: list[str]) -> str:
    """Returns the first of the transforms' names, and the number of the other transforms."""
    others = f" and {len(names) - 1} more" if len(names) > 1 else ""
    return f"'{names[0]}'{others}"


def _find_unsupported_in_transform(
    transform: _protos.PTransform, components: _protos.Components
) -> Iterator[str]:
    urn = transform.spec.urn
    if urn == transform_urns.TEST_STREAM:
        yield from scripts.find_unsupported_test_stream_features(transform, components)
    elif urn == transform_urns.READ and _reads_unbounded_source(transform):
        yield f"an unbounded source read by {urn!r} instead of a splittable DoFn"
    elif urn == transform_urns.FLATTEN:
        yield from describe_incompatible_window_functions(transform, components)
    elif urn == transform_urns.PAR_DO:
        yield from _find_unsupported_in_pardo(transform, components)
    elif urn in (transform_urns.GROUP_BY_KEY, transform_urns.COMBINE_PER_KEY):
        yield from _find_unsupported_in_grouping(transform, components)
    elif urn == python_sdk.PICKLED_TRANSFORM:
        yield f"the transform {urn!r}, which has no subtransforms"
    elif urn in _OF_RUNNERS or (
        urn not in _RUNNER_LEAVES and _is_unknown_to_all_sdks(transform, components)
    ):
        yield f"the transform {urn!r}"


def _is_unknown_to_all_sdks(transform: _protos.PTransform, components: _protos.Components) -> bool:
    """Returns whether no SDK can run the transform."""
    if not transform.environment_id:
        return True
    # Fusion omits a transform whose outputs are all also inputs of the transform.
    return has_own_outputs(transform) and is_unknown_to_sdk(transform, components)


def _reads_unbounded_source(transform: _protos.PTransform) -> bool:
    payload = _protos.ReadPayload.FromString(transform.spec.payload)
    return payload.is_bounded == _protos.IsBounded.UNBOUNDED


def _find_unsupported_in_pardo(
    transform: _protos.PTransform, components: _protos.Components
) -> Iterator[str]:
    payload = _protos.ParDoPayload.FromString(transform.spec.payload)
    if is_stateful(payload):
        yield from _find_unsupported_in_stateful_pardo(transform, payload, components)
    for tag, side_input in sorted(payload.side_inputs.items()):
        if side_input.access_pattern.urn not in _SIDE_INPUTS:
            yield f"the side input pattern {side_input.access_pattern.urn!r} of {tag!r}"
        if tag in transform.inputs:
            pcollection = components.pcollections[transform.inputs[tag]]
            yield from _find_unreadable_windows("side inputs", transform, pcollection, components)


def _find_unsupported_in_stateful_pardo(
    transform: _protos.PTransform, payload: _protos.ParDoPayload, components: _protos.Components
) -> Iterator[str]:
    if payload.restriction_coder_id:
        yield "state and timers in a splittable DoFn"
    for tag, pcollection_id in transform.inputs.items():
        if tag not in payload.side_inputs:
            pcollection = components.pcollections[pcollection_id]
            yield from _find_unreadable_windows(
                "state and timers", transform, pcollection, components
            )


def _find_unsupported_in_grouping(
    transform: _protos.PTransform, components: _protos.Components
) -> Iterator[str]:
    for pcollection_id in transform.inputs.values():
        pcollection = components.pcollections[pcollection_id]
        strategy = components.windowing_strategies[pcollection.windowing_strategy_id]
        if strategy.accumulation_mode == _protos.AccumulationMode.RETRACTING:
            yield "grouping with retractions"


def _find_unreadable_windows(
    what: str,
    transform: _protos.PTransform,
    pcollection: _protos.PCollection,
    components: _protos.Components,
) -> Iterator[str]:
    """Yields a problem if an SDK sends windows that the runner can't read.

    Python's SDK encodes windows with the coder in the windowing strategy. Other SDKs use the window
    function's own coder, which the runner can't read.
    """
    strategy = components.windowing_strategies[pcollection.windowing_strategy_id]
    is_python = is_python_sdk(get_environment(transform, components))
    if has_sdk_window_coder(strategy, components) and not is_python:
        coder = components.coders[strategy.window_coder_id].spec.urn
        yield (f"{what} with the window coder {coder!r} in an SDK other than the Python SDK")
