"""Who puts out what a stage's data sinks take."""

from __future__ import annotations

from beam_runner_worker._protos import beam_fn_api_pb2


def writer_of(descriptor: beam_fn_api_pb2.ProcessBundleDescriptor, sink: str) -> str:
    """The full name of the transform whose output goes to a data sink.

    It is the sink's own if nothing of the stage puts that out.
    """
    (written,) = descriptor.transforms[sink].inputs.values()
    for transform in descriptor.transforms.values():
        if written in transform.outputs.values():
            return transform.unique_name
    return sink
