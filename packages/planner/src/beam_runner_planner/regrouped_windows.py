"""Warning about windows of a stream that merge in two groupings, one after the other.

The first grouping emits a merged window when the watermark passes the end of the window. The second
grouping can then close a window before a longer window that overlaps it arrives. Batches don't have this
problem, because all data arrives before the first window closes.
"""

from __future__ import annotations

from beam_runner_model.texts import truncate_text
from beam_runner_urns import transforms as transform_urns

from beam_runner_planner import _protos
from beam_runner_planner.leaf_transforms import list_leaf_transforms
from beam_runner_planner.ordering import sort_by_dependencies

_GROUPINGS = frozenset({transform_urns.GROUP_BY_KEY, transform_urns.COMBINE_PER_KEY})
_LONGEST = 200
_MOST = 5
"""The maximum number of pairs of groupings in the warning."""


def describe_regrouped_windows(pipeline: bytes) -> str:
    """Returns a warning that names the groupings; empty if no windows of a stream merge twice."""
    found = _find_grouping_pairs(_protos.Pipeline.FromString(pipeline))
    if not found:
        return ""
    pairs = [
        f"{truncate_text(second, _LONGEST)!r} after {truncate_text(first, _LONGEST)!r}"
        for first, second in found[:_MOST]
    ]
    return (
        "Merging windows of a stream are grouped twice, so results can differ from a batch, because the"
        " second grouping can close a window before a longer window that overlaps it arrives:"
        f" {', '.join(pairs)}. Apply WindowInto before the second grouping"
    )


def _find_grouping_pairs(pipeline: _protos.Pipeline) -> list[tuple[str, str]]:
    """Returns the names of the first and the second grouping of each pair."""
    components = pipeline.components
    strategies = components.windowing_strategies.values()
    if all(strategy.merge_status != _protos.MergeStatus.NEEDS_MERGE for strategy in strategies):
        return []
    transforms = dict(list_leaf_transforms(pipeline.root_transform_ids, components))
    writers = {p: one for one, t in transforms.items() for p in t.outputs.values()}

    def list_writers(transform_id: str) -> list[str]:
        return [writers[p] for p in transforms[transform_id].inputs.values() if p in writers]

    merged: dict[str, str] = {}
    """Names of the groupings that have merged the windows of a transform's outputs."""
    pairs: list[tuple[str, str]] = []
    for transform_id in sort_by_dependencies(transforms, list_writers):
        transform = transforms[transform_id]
        mains = _list_main_inputs(transform)
        first = next((merged[w] for p in mains if (w := writers.get(p)) in merged), "")
        if transform.spec.urn in _GROUPINGS:
            if not any(_merges_in_a_stream(p, components) for p in mains):
                continue
            if first:
                pairs.append((first, transform.unique_name))
            merged[transform_id] = transform.unique_name
        elif first and transform.spec.urn != transform_urns.ASSIGN_WINDOWS:
            merged[transform_id] = first
    return pairs


def _list_main_inputs(transform: _protos.PTransform) -> list[str]:
    sides: frozenset[str] = frozenset()
    if transform.spec.urn == transform_urns.PAR_DO:
        sides = frozenset(_protos.ParDoPayload.FromString(transform.spec.payload).side_inputs)
    return [p for tag, p in transform.inputs.items() if tag not in sides]


def _merges_in_a_stream(pcollection_id: str, components: _protos.Components) -> bool:
    pcollection = components.pcollections[pcollection_id]
    strategy = components.windowing_strategies[pcollection.windowing_strategy_id]
    return bool(
        pcollection.is_bounded == _protos.IsBounded.UNBOUNDED
        and strategy.merge_status == _protos.MergeStatus.NEEDS_MERGE
    )
