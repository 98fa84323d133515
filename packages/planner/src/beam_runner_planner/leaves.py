"""Search for the transforms that run: the leaves of the tree of composites."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from beam_runner_urns import python_sdk
from beam_runner_urns import transforms as transform_urns

from beam_runner_planner import _protos

RESHUFFLES = frozenset(
    {
        transform_urns.RESHUFFLE,
        transform_urns.REDISTRIBUTE_ARBITRARILY,
        transform_urns.REDISTRIBUTE_BY_KEY,
    }
)
PAR_DOS = frozenset(
    {
        transform_urns.PAR_DO,
        transform_urns.PAIR_WITH_RESTRICTION,
        transform_urns.SPLIT_AND_SIZE_RESTRICTIONS,
        transform_urns.PROCESS_SIZED_ELEMENTS_AND_RESTRICTIONS,
        transform_urns.TRUNCATE_SIZED_RESTRICTION,
    }
)
"""The URNs of transforms with a ParDo payload: ParDo, and the parts of a splittable DoFn."""
COMBINE_PARTS = frozenset(
    {
        transform_urns.COMBINE_PER_KEY_PRECOMBINE,
        transform_urns.COMBINE_PER_KEY_MERGE_ACCUMULATORS,
        transform_urns.COMBINE_PER_KEY_EXTRACT_OUTPUTS,
        transform_urns.COMBINE_PER_KEY_CONVERT_TO_ACCUMULATORS,
        transform_urns.COMBINE_GROUPED_VALUES,
    }
)
"""The URNs of the parts of a lifted combine; their payload is a combine payload."""
# The runner executes these composites as a unit and ignores their parts.
_WHOLE = RESHUFFLES | {
    transform_urns.GROUP_BY_KEY,
    transform_urns.COMBINE_PER_KEY,
    transform_urns.PAR_DO,
}
# SDKs give these URNs to composites that runners needn't know.
_COMPOSITES = frozenset({"", transform_urns.GENERIC_COMPOSITE, python_sdk.PICKLED_TRANSFORM})


def leaf_transforms(
    transform_ids: Iterable[str], components: _protos.Components
) -> Iterator[tuple[str, _protos.PTransform]]:
    """Returns by id, in order, the transforms without parts, and the composites that run as a unit.

    The result has no empty composites.

    Args:
        transform_ids: the ids of the root transforms; no composite may contain itself.
        components: the pipeline's components.
    """
    waiting = list(transform_ids)[::-1]
    while waiting:
        transform_id = waiting.pop()
        transform = components.transforms[transform_id]
        if transform.spec.urn in _WHOLE or not transform.subtransforms:
            if not is_empty(transform):
                yield transform_id, transform
        else:
            waiting.extend(reversed(transform.subtransforms))


def is_empty(transform: _protos.PTransform) -> bool:
    """Returns whether a transform without subtransforms is a composite that does nothing.

    Such a composite returns some of its inputs, or nothing. The URN distinguishes a composite that
    returns nothing from a sink.
    """
    urn = transform.spec.urn
    if urn == transform_urns.PAR_DO or has_own_outputs(transform):
        return False
    return bool(transform.outputs) or urn in _COMPOSITES


def has_own_outputs(transform: _protos.PTransform) -> bool:
    """Returns whether a transform has outputs of its own; a composite that returns its input has none."""
    return not set(transform.outputs.values()) <= set(transform.inputs.values())
