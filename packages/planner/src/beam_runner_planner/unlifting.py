"""Combines that an SDK has lifted: their parts, put together again.

Beam's Python client lifts combines itself. Mostly it leaves the CombinePerKey around the parts, which
is all that is looked at. Around combiners that it has packed it leaves nothing.
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
"""What follows a precombine, one after the other."""


def unlifted(steps: Sequence[Step], unlifts: Callable[[Step], bool]) -> Iterator[Step]:
    """Makes one CombinePerKey of the parts of each lifted combine that `unlifts` chooses.

    A precombine whose results go elsewhere, too, stays as it is.

    Args:
        steps: all.
        unlifts: is asked for each precombine.
    """
    readers: dict[str, list[Step]] = {}
    for step in steps:
        for pcollection_id in step.transform.inputs.values():
            readers.setdefault(pcollection_id, []).append(step)
    whole: dict[Step, Step] = {}
    gone: set[Step] = set()
    for step in steps:
        if step.urn == transform_urns.COMBINE_PER_KEY_PRECOMBINE and unlifts(step):
            behind = _parts_behind(step, readers)
            if len(behind) == len(_BEHIND):
                whole[step] = _combine(step, behind[-1])
                gone.update(behind)
    yield from (whole.get(step, step) for step in steps if step not in gone)


def _parts_behind(precombine: Step, readers: dict[str, list[Step]]) -> list[Step]:
    """Returns the parts that follow, each the only reader of the one before."""
    found: list[Step] = []
    part = precombine
    for urn in _BEHIND:
        following = [reader for p in part.outputs for reader in readers.get(p, ())]
        if [reader.urn for reader in following] != [urn]:
            break
        (part,) = following
        found.append(part)
    return found


def _combine(precombine: Step, extract: Step) -> Step:
    combine = _protos.PTransform()
    combine.CopyFrom(precombine.transform)
    combine.unique_name = precombine.name.rpartition("/")[0] or precombine.name
    combine.spec.urn = transform_urns.COMBINE_PER_KEY
    combine.outputs.clear()
    combine.outputs.update(extract.transform.outputs)
    return Step(combine)
