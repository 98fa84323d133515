"""Lookup of the transform that writes to a data sink of a stage."""

from __future__ import annotations

from beam_runner_worker._protos import beam_fn_api_pb2


def find_writer(descriptor: beam_fn_api_pb2.ProcessBundleDescriptor, sink: str) -> str:
    """Returns the full name of the transform whose output goes to a data sink.

    Returns the sink's own ID if no transform of the stage writes to it.
    """
    (written,) = descriptor.transforms[sink].inputs.values()
    for transform in descriptor.transforms.values():
        if written in transform.outputs.values():
            return transform.unique_name
    return sink
