"""URNs of transforms, from ``StandardPTransforms`` of Beam's model."""

from __future__ import annotations

# Primitives, which every runner must implement.
PAR_DO = "beam:transform:pardo:v1"
FLATTEN = "beam:transform:flatten:v1"
GROUP_BY_KEY = "beam:transform:group_by_key:v1"
IMPULSE = "beam:transform:impulse:v1"
ASSIGN_WINDOWS = "beam:transform:window_into:v1"
TEST_STREAM = "beam:transform:teststream:v1"
MAP_WINDOWS = "beam:transform:map_windows:v1"
MERGE_WINDOWS = "beam:transform:merge_windows:v1"
TO_STRING = "beam:transform:to_string:v1"

# Deprecated primitives of old SDKs. Splittable DoFns and side inputs replace them.
READ = "beam:transform:read:v1"
CREATE_VIEW = "beam:transform:create_view:v1"

# Composites that a runner can replace with an implementation of its choice.
COMBINE_PER_KEY = "beam:transform:combine_per_key:v1"
COMBINE_GLOBALLY = "beam:transform:combine_globally:v1"
RESHUFFLE = "beam:transform:reshuffle:v1"
WRITE_FILES = "beam:transform:write_files:v1"
PUBSUB_READ = "beam:transform:pubsub_read:v1"
PUBSUB_WRITE = "beam:transform:pubsub_write:v1"
PUBSUB_WRITE_V2 = "beam:transform:pubsub_write:v2"
GROUP_INTO_BATCHES_WITH_SHARDED_KEY = "beam:transform:group_into_batches_with_sharded_key:v1"
REDISTRIBUTE_BY_KEY = "beam:transform:redistribute_by_key:v1"
REDISTRIBUTE_ARBITRARILY = "beam:transform:redistribute_arbitrarily:v1"
GROUP_INTO_BATCHES = "beam:transform:group_into_batches:v1"
GENERIC_COMPOSITE = "beam:transform:generic_composite:v1"

# Components of a lifted combine.
COMBINE_PER_KEY_PRECOMBINE = "beam:transform:combine_per_key_precombine:v1"
COMBINE_PER_KEY_MERGE_ACCUMULATORS = "beam:transform:combine_per_key_merge_accumulators:v1"
COMBINE_PER_KEY_EXTRACT_OUTPUTS = "beam:transform:combine_per_key_extract_outputs:v1"
COMBINE_GROUPED_VALUES = "beam:transform:combine_grouped_values:v1"
COMBINE_PER_KEY_CONVERT_TO_ACCUMULATORS = (
    "beam:transform:combine_per_key_convert_to_accumulators:v1"
)

# Components of a splittable ParDo.
PAIR_WITH_RESTRICTION = "beam:transform:sdf_pair_with_restriction:v1"
SPLIT_AND_SIZE_RESTRICTIONS = "beam:transform:sdf_split_and_size_restrictions:v1"
PROCESS_SIZED_ELEMENTS_AND_RESTRICTIONS = (
    "beam:transform:sdf_process_sized_element_and_restrictions:v1"
)
TRUNCATE_SIZED_RESTRICTION = "beam:transform:sdf_truncate_sized_restrictions:v1"

# Transforms that a runner inserts: fused stages, and the data-plane endpoints of a bundle.
EXECUTABLE_STAGE = "beam:runner:executable_stage:v1"
DATA_SOURCE = "beam:runner:source:v1"
DATA_SINK = "beam:runner:sink:v1"
