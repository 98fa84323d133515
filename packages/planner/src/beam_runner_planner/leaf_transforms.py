"""Search for the transforms that run: the leaves of the tree of composite transforms."""

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
# The runner executes each of these composites as one transform, and ignores the transforms inside.
_WHOLE = RESHUFFLES | {
    transform_urns.GROUP_BY_KEY,
    transform_urns.COMBINE_PER_KEY,
    transform_urns.PAR_DO,
}
# SDKs give these URNs to composites that runners needn't know.
_COMPOSITES = frozenset({"", transform_urns.GENERIC_COMPOSITE, python_sdk.PICKLED_TRANSFORM})


def list_leaf_transforms(
    transform_ids: Iterable[str], components: _protos.Components
) -> Iterator[tuple[str, _protos.PTransform]]:
    """Returns by id, in order, the transforms without subtransforms, and the composites that the
    runner executes as one transform.

    The result has no empty composites.

    Args:
        transform_ids: the ids of the root transforms; no composite may contain itself.
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

    A composite without steps returns some of its inputs, or nothing. The URN distinguishes a composite that
    returns nothing from a sink.
    """
    urn = transform.spec.urn
    if urn == transform_urns.PAR_DO or has_own_outputs(transform):
        return False
    return bool(transform.outputs) or urn in _COMPOSITES


def has_own_outputs(transform: _protos.PTransform) -> bool:
    """Returns whether a transform has outputs that aren't also inputs of the transform. A composite
    that returns its input has no such output.
    """
    return not set(transform.outputs.values()) <= set(transform.inputs.values())
