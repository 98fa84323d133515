"""Elements of a TestStream that contain their window: `WindowedValueHolder` of Beam's Python SDK.

Only an SDK can decode an element that is a holder of a windowed value. A transform after the TestStream replaces each holder by its
value, with the timestamp, windows and pane of the holder.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Any

import apache_beam as beam
from apache_beam.internal.cloudpickle import cloudpickle
from apache_beam.transforms.core import DoFnInfo
from beam_runner_urns import coders as coder_urns
from beam_runner_urns import transforms as transform_urns

from beam_runner_planner import _protos
from beam_runner_planner.errors import UnsupportedPipeline
from beam_runner_planner.leaf_transforms import list_leaf_transforms
from beam_runner_planner.sdks import describe_versions, has_server_versions

# Python pickles a windowed-value holder as a row of two fields. The second field is this URN.
_SIGNS = (b"windowed_value", coder_urns.ROW.encode())


def unwrap_windowed_value_holders(pipeline: _protos.Pipeline) -> None:
    """Adds a transform after each output of each TestStream whose elements can be holders.

    Raises:
        UnsupportedPipeline: the SDK and the server have different versions. The transform is code
            of the server's Python and Beam.
    """
    for transform_id, transform in list(
        list_leaf_transforms(pipeline.root_transform_ids, pipeline.components)
    ):
        if transform.spec.urn == transform_urns.TEST_STREAM and _has_windowed_value_holders(
            transform
        ):
            _add_unwrapping_transforms(pipeline, transform_id, transform)


def _has_windowed_value_holders(transform: _protos.PTransform) -> bool:
    payload = _protos.TestStreamPayload.FromString(transform.spec.payload)
    return any(
        all(sign in element.encoded_element for sign in _SIGNS)
        for event in payload.events
        for element in event.element_event.elements
    )


def _add_unwrapping_transforms(
    pipeline: _protos.Pipeline, transform_id: str, transform: _protos.PTransform
) -> None:
    components = pipeline.components
    environment_id = transform.environment_id or next(iter(components.environments), "")
    environment = components.environments.get(environment_id, _protos.Environment())
    if not has_server_versions(environment):
        raise UnsupportedPipeline(
            [
                "a TestStream whose elements have explicit windows, in an SDK whose"
                f" versions differ from the server's: {describe_versions(environment)} (in"
                f" '{transform.unique_name}')"
            ]
        )
    siblings = _find_sibling_ids(pipeline, transform_id)
    for tag, pcollection_id in sorted(transform.outputs.items()):
        held = f"{pcollection_id}/held"
        components.pcollections[held].CopyFrom(components.pcollections[pcollection_id])
        transform.outputs[tag] = held
        added = components.transforms[f"{transform_id}/windows/{tag}"]
        added.unique_name = f"{transform.unique_name}/Windows/{tag}"
        added.spec.urn = transform_urns.PAR_DO
        added.spec.payload = _create_unwrapping_pardo().SerializeToString()
        added.environment_id = environment_id
        added.inputs["in"] = held
        added.outputs["None"] = pcollection_id
        siblings.append(f"{transform_id}/windows/{tag}")


def _find_sibling_ids(pipeline: _protos.Pipeline, transform_id: str) -> Any:
    """Returns the list of transform ids that contains the given id."""
    composites: Iterable[_protos.PTransform] = pipeline.components.transforms.values()
    lists = (pipeline.root_transform_ids, *(c.subtransforms for c in composites))
    return next(found for found in lists if transform_id in found)


def _create_unwrapping_pardo() -> _protos.ParDoPayload:
    this_module = sys.modules[__name__]
    # Pickle the function by value, because the SDK's process may not have this package.
    cloudpickle.register_pickle_by_value(this_module)
    try:
        do_fn = DoFnInfo.create(beam.Map(_unwrap_element).fn, (), {}).to_runner_api(None)
    finally:
        cloudpickle.unregister_pickle_by_value(this_module)
    return _protos.ParDoPayload(do_fn=do_fn)


def _unwrap_element(element: Any) -> Any:
    from apache_beam.testing.test_stream import WindowedValueHolder

    return element.windowed_value if isinstance(element, WindowedValueHolder) else element
