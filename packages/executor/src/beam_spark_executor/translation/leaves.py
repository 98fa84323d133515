"""The transforms that run: the leaves of the tree of composites."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from beam_runner_urns import transforms as transform_urns

from beam_spark_executor import _protos

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


def leaves(
    transform_ids: Iterable[str], components: _protos.Components
) -> Iterator[tuple[str, _protos.PTransform]]:
    """By id the transforms without parts, and composites that run as a whole, in their order.

    Args:
        transform_ids: of the roots; no composite is a part of itself.
        components: of the pipeline.
    """
    waiting = list(transform_ids)[::-1]
    while waiting:
        transform_id = waiting.pop()
        transform = components.transforms[transform_id]
        if transform.spec.urn in _WHOLE or not transform.subtransforms:
            if transform.spec.urn or puts_out(transform):
                yield transform_id, transform
        else:
            waiting.extend(reversed(transform.subtransforms))


def puts_out(transform: _protos.PTransform) -> bool:
    """Whether it has outputs of its own: a composite that returns its input is no work."""
    return not set(transform.outputs.values()) <= set(transform.inputs.values())
