"""Finds what a pipeline uses that is not supported, so that it is rejected by name and never runs wrongly."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from beam_runner_engine.values.window_fns import OpaqueWindows
from beam_runner_urns import coders as coder_urns
from beam_runner_urns import requirements as requirement_urns
from beam_runner_urns import side_inputs as side_input_urns
from beam_runner_urns import transforms as transform_urns

from beam_spark_executor import _protos
from beam_spark_executor.translation.environments import ResolvedEnvironment
from beam_spark_executor.translation.windowing import window_fn

RESHUFFLES = frozenset(
    {
        transform_urns.RESHUFFLE,
        transform_urns.REDISTRIBUTE_ARBITRARILY,
        transform_urns.REDISTRIBUTE_BY_KEY,
    }
)
# Composites that run as one thing, whatever is inside.
_WHOLE = RESHUFFLES | {
    transform_urns.GROUP_BY_KEY,
    transform_urns.COMBINE_PER_KEY,
    transform_urns.PAR_DO,
}
# Leaves that the runner itself carries out and that need no environment.
_RUNNER_LEAVES = RESHUFFLES | {
    transform_urns.IMPULSE,
    transform_urns.FLATTEN,
    transform_urns.GROUP_BY_KEY,
}
_FEATURE_OF_REQUIREMENT = {
    requirement_urns.REQUIRES_STATEFUL_PROCESSING: "state and timers",
    requirement_urns.REQUIRES_BUNDLE_FINALIZATION: "bundle finalization",
    requirement_urns.REQUIRES_STABLE_INPUT: "stable input",
    requirement_urns.REQUIRES_TIME_SORTED_INPUT: "time-sorted input",
    requirement_urns.REQUIRES_ON_WINDOW_EXPIRATION: "on-window-expiration callbacks",
}
_SUPPORTED_REQUIREMENTS = frozenset({requirement_urns.REQUIRES_SPLITTABLE_DOFN})
_SIDE_INPUTS = frozenset({side_input_urns.ITERABLE, side_input_urns.MULTIMAP})
_WINDOW_CODERS = frozenset({coder_urns.GLOBAL_WINDOW, coder_urns.INTERVAL_WINDOW})


def unsupported(
    pipeline: _protos.Pipeline, environments: Mapping[str, ResolvedEnvironment]
) -> list[str]:
    """One sentence for every feature used and not supported; empty if the pipeline can run."""
    components = pipeline.components
    used_by: dict[str, list[str]] = {}
    for transform in leaves(pipeline.root_transform_ids, components):
        features = list(_of_transform(transform, components))
        environment = environments.get(transform.environment_id)
        if environment is not None and environment.rejection:
            features.append(environment.rejection)
        for feature in features:
            used_by.setdefault(feature, []).append(transform.unique_name)
    if not used_by:
        return list(_of_requirements(pipeline.requirements))
    return [f"{feature} (in {_some_of(names)})" for feature, names in used_by.items()]


def _some_of(names: list[str]) -> str:
    """The first of the transforms, which is the one that brings the feature in."""
    others = f" and {len(names) - 1} more" if len(names) > 1 else ""
    return f"'{names[0]}'{others}"


def leaves(
    transform_ids: Iterable[str], components: _protos.Components
) -> Iterator[_protos.PTransform]:
    """The transforms that run: those without parts, and composites that run as a whole."""
    for transform_id in transform_ids:
        transform = components.transforms[transform_id]
        if transform.spec.urn in _WHOLE or not transform.subtransforms:
            # A composite that returns its own input is no work.
            if set(transform.outputs.values()) - set(transform.inputs.values()) or (
                transform.spec.urn
            ):
                yield transform
        else:
            yield from leaves(transform.subtransforms, components)


def _of_transform(transform: _protos.PTransform, components: _protos.Components) -> Iterator[str]:
    urn = transform.spec.urn
    if urn == transform_urns.TEST_STREAM:
        yield "TestStream"
        return
    if any(
        components.pcollections[p].is_bounded == _protos.IsBounded.UNBOUNDED
        for p in transform.outputs.values()
    ):
        yield "unbounded PCollections"
    if urn == transform_urns.PAR_DO:
        yield from _of_pardo(_protos.ParDoPayload.FromString(transform.spec.payload))
    elif urn in (transform_urns.GROUP_BY_KEY, transform_urns.COMBINE_PER_KEY):
        yield from _of_grouping(transform, components)
    elif not transform.environment_id and urn not in _RUNNER_LEAVES and urn:
        yield f"the transform {urn!r}"


def _of_pardo(payload: _protos.ParDoPayload) -> Iterator[str]:
    if payload.state_specs:
        yield f"state ({', '.join(sorted(payload.state_specs))})"
    if payload.timer_family_specs:
        yield f"timers ({', '.join(sorted(payload.timer_family_specs))})"
    if payload.on_window_expiration_timer_family_spec:
        yield "on-window-expiration callbacks"
    if payload.requests_finalization:
        yield "bundle finalization"
    if payload.requires_stable_input:
        yield "stable input"
    if payload.requires_time_sorted_input:
        yield "time-sorted input"
    for tag, side_input in sorted(payload.side_inputs.items()):
        if side_input.access_pattern.urn not in _SIDE_INPUTS:
            yield f"the side input pattern {side_input.access_pattern.urn!r} of {tag!r}"


def _of_grouping(transform: _protos.PTransform, components: _protos.Components) -> Iterator[str]:
    for pcollection_id in transform.inputs.values():
        pcollection = components.pcollections[pcollection_id]
        strategy = components.windowing_strategies[pcollection.windowing_strategy_id]
        if not _fires_once_at_the_end(strategy.trigger):
            kind = strategy.trigger.WhichOneof("trigger")
            yield f"the trigger {kind!r} before a grouping"
        coder = components.coders[strategy.window_coder_id].spec.urn
        if coder not in _WINDOW_CODERS:
            yield f"grouping by windows with the coder {coder!r}"
        merges = strategy.merge_status == _protos.MergeStatus.NEEDS_MERGE
        if merges and isinstance(window_fn(strategy.window_fn), OpaqueWindows):
            yield f"custom merging windows ({strategy.window_fn.urn!r})"


def _fires_once_at_the_end(trigger: _protos.Trigger) -> bool:
    """Whether bounded input makes of this trigger one pane a window, at its end."""
    kind = trigger.WhichOneof("trigger")
    if kind == "after_end_of_window":
        ends = trigger.after_end_of_window
        return not (ends.HasField("early_firings") or ends.HasField("late_firings"))
    return kind in (None, "default")


def _of_requirements(requirements: Iterable[str]) -> Iterator[str]:
    for requirement in sorted(set(requirements) - _SUPPORTED_REQUIREMENTS):
        yield _FEATURE_OF_REQUIREMENT.get(requirement, f"the requirement {requirement!r}")
