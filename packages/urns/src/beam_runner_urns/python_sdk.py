"""URNs that only the Python SDK understands: pickled user code and Python-specific coders."""

from __future__ import annotations

# Payloads that the SDK's pickler writes.
PICKLED_CODER = "beam:coder:pickled_python:v1"
PICKLED_COMBINE_FN = "beam:combinefn:pickled_python:v1"
PICKLED_DOFN = "beam:dofn:pickled_python:v1"
PICKLED_DOFN_INFO = "beam:dofn:pickled_python_info:v1"
PICKLED_SOURCE = "beam:source:pickled_python:v1"
PICKLED_TRANSFORM = "beam:transform:pickled_python:v1"
PICKLED_VIEWFN = "beam:view_fn:pickled_python_data:v1"
PICKLED_WINDOWFN = "beam:window_fn:pickled_python:v1"
PICKLED_WINDOW_MAPPING_FN = "beam:window_mapping_fn:pickled_python:v1"

# Transforms, functions and coders.
IMPULSE_READ_TRANSFORM = "beam:transform:read_from_impulse_python:v1"
KEY_WITH_NONE_DOFN = "beam:dofn:python_key_with_none:v1"
PACKED_COMBINE_FN = "beam:combinefn:packed_python:v1"
TUPLE_CODER = "beam:coder:tuple:v1"
TIMESTAMP_PREFIXED_OPAQUE_WINDOW_CODER = "beam:timestamp_prefixed_opaque_window_coder:v1"
APPLY_COMBINER_PACKING = "beam:annotation:apply_combiner_packing:v1"
