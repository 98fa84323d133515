"""Computation of the progress of a running bundle from the SDK's metrics."""

from __future__ import annotations

import struct
from collections.abc import Container, Iterable

from beam_runner_model.bundles import MonitoringInfo
from beam_runner_model.lengths import COUNT_BYTES, decode_count
from beam_runner_model.varints import decode_varint
from beam_runner_urns import metrics as urns

from beam_runner_worker._protos import beam_fn_api_pb2


def create_progress_request(instruction_id: str) -> beam_fn_api_pb2.InstructionRequest:
    """Returns an instruction that requests the progress of a bundle."""
    return beam_fn_api_pb2.InstructionRequest(
        process_bundle_progress=beam_fn_api_pb2.ProcessBundleProgressRequest(
            instruction_id=instruction_id
        )
    )


def count_processed_elements(
    infos: Iterable[MonitoringInfo], source: str, heads: Container[str]
) -> float:
    """Returns the number of processed input elements, with a fraction for the current element.

    SDKs report the index of the current element: -1 or 0 before the first element, and the number
    of elements after the last element.

    Args:
        infos: the metrics of a running bundle.
        source: the transform that reads the input.
        heads: the transforms that read the input. A transform that processes restrictions reports
            the progress of the current element.
    """
    index = 0
    completed = remaining = 0.0
    for info in infos:
        transform = dict(info.labels).get(urns.LABEL_TRANSFORM, "")
        if info.urn == urns.DATA_CHANNEL_READ_INDEX and transform == source:
            index = decode_varint(info.payload, 0)[0]
        elif info.urn == urns.WORK_COMPLETED and transform in heads:
            completed += sum(_decode_doubles(info.payload))
        elif info.urn == urns.WORK_REMAINING and transform in heads:
            remaining += sum(_decode_doubles(info.payload))
    if index < 0:
        return 0.0
    work = completed + remaining
    fraction = completed / work if 0 < work < float("inf") else 0.0
    return index + min(1.0, max(0.0, fraction))


def _decode_doubles(payload: bytes) -> Iterable[float]:
    """Decodes an encoded iterable of doubles."""
    count = decode_count(payload, 0)
    return struct.unpack_from(f">{count}d", payload, COUNT_BYTES)
