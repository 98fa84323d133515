"""URNs of transforms, grouped by the protobuf message in the transform's payload."""

from __future__ import annotations

from beam_runner_urns import transforms

PAR_DOS = frozenset(
    {
        transforms.PAR_DO,
        transforms.PAIR_WITH_RESTRICTION,
        transforms.SPLIT_AND_SIZE_RESTRICTIONS,
        transforms.PROCESS_SIZED_ELEMENTS_AND_RESTRICTIONS,
        transforms.TRUNCATE_SIZED_RESTRICTION,
    }
)
"""ParDo and the parts of a splittable DoFn; their payload is a ``ParDoPayload``."""
COMBINE_PARTS = frozenset(
    {
        transforms.COMBINE_PER_KEY_PRECOMBINE,
        transforms.COMBINE_PER_KEY_MERGE_ACCUMULATORS,
        transforms.COMBINE_PER_KEY_EXTRACT_OUTPUTS,
        transforms.COMBINE_PER_KEY_CONVERT_TO_ACCUMULATORS,
        transforms.COMBINE_GROUPED_VALUES,
    }
)
"""The parts of a combine; their payload is a ``CombinePayload``."""
