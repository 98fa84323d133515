"""Length prefixes for keys and values, so that the runner can split encoded elements by length."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from beam_runner_urns import coders as coder_urns
from beam_runner_urns import transforms as transform_urns

from beam_runner_planner import _protos
from beam_runner_planner.context import FusionContext
from beam_runner_planner.stateful import get_stateful_payload
from beam_runner_planner.steps import Step

_PAIR = 2


def prefix_keys_and_values(steps: Iterable[Step], context: FusionContext) -> Iterator[Step]:
    """Adds length prefixes to the coders of keys and values if the runner must separate encoded
    keys from encoded values.

    The runner splits elements before every GroupByKey and every stateful transform. With prefixes
    it needs no other knowledge of the coders. Readers of groups use the coders of the grouped data,
    and harnesses encode timers with the coders of the keys and windows that they read.
    """
    for step in steps:
        transform = step.transform
        if transform.spec.urn == transform_urns.GROUP_BY_KEY:
            for pcollection_id in transform.inputs.values():
                _add_prefixes_to_pair(context, context.components.pcollections[pcollection_id])
        elif get_stateful_payload(transform) is not None:
            assert step.main is not None
            _add_prefixes_to_pair(context, context.components.pcollections[step.main])
        yield step


def _add_prefixes_to_pair(context: FusionContext, pcollection: _protos.PCollection) -> None:
    coder = context.components.coders[pcollection.coder_id]
    if coder.spec.urn != coder_urns.KV or len(coder.component_coder_ids) != _PAIR:
        return
    prefixed_ids = [context.add_length_prefixed_coder(part) for part in coder.component_coder_ids]
    pcollection.coder_id = context.add_coder(coder_urns.KV, prefixed_ids)
