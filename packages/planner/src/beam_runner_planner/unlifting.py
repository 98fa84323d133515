"""Reassembly of combines that an SDK has lifted.

Beam's Python client lifts combines itself. Usually the CombinePerKey still surrounds the parts, and
the runner looks only at the CombinePerKey. Around combiners that the client has packed, no
CombinePerKey remains.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from beam_runner_urns import transforms as transform_urns

from beam_runner_planner import _protos
from beam_runner_planner.steps import Step

_BEHIND = (
    transform_urns.GROUP_BY_KEY,
    transform_urns.COMBINE_PER_KEY_MERGE_ACCUMULATORS,
    transform_urns.COMBINE_PER_KEY_EXTRACT_OUTPUTS,
)
"""The URNs of the transforms that follow a precombine in a lifted combine, in order."""


def undo_combine_lifting(steps: Sequence[Step], unlifts: Callable[[Step], bool]) -> Iterator[Step]:
    """Replaces the parts of each lifted combine that `unlifts` selects by one CombinePerKey.

    A precombine stays lifted if another transform also reads its results.

    Args:
        unlifts: a predicate, called with each precombine.
    """
    readers: dict[str, list[Step]] = {}
    for step in steps:
        for pcollection_id in step.transform.inputs.values():
            readers.setdefault(pcollection_id, []).append(step)
    whole: dict[Step, Step] = {}
    gone: set[Step] = set()
    for step in steps:
        if step.urn == transform_urns.COMBINE_PER_KEY_PRECOMBINE and unlifts(step):
            behind = _find_following_parts(step, readers)
            if len(behind) == len(_BEHIND):
                whole[step] = _create_combine_per_key(step, behind[-1])
                gone.update(behind)
    yield from (whole.get(step, step) for step in steps if step not in gone)


def _find_following_parts(precombine: Step, readers: dict[str, list[Step]]) -> list[Step]:
    """Returns the parts that follow a precombine, each the only reader of the previous one."""
    found: list[Step] = []
    part = precombine
    for urn in _BEHIND:
        following = [reader for p in part.outputs for reader in readers.get(p, ())]
        if [reader.urn for reader in following] != [urn]:
            break
        (part,) = following
        found.append(part)
    return found


def _create_combine_per_key(precombine: Step, extract: Step) -> Step:
    combine = _protos.PTransform()
    combine.CopyFrom(precombine.transform)
    combine.unique_name = precombine.name.rpartition("/")[0] or precombine.name
    combine.spec.urn = transform_urns.COMBINE_PER_KEY
    combine.outputs.clear()
    combine.outputs.update(extract.transform.outputs)
    return Step(combine)
