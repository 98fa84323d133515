"""Progress of a running bundle, from its metrics."""

from __future__ import annotations

import struct
from collections.abc import Container, Iterable

from beam_runner_model.bundles import MonitoringInfo
from beam_runner_model.lengths import COUNT_BYTES, decode_count
from beam_runner_model.varints import decode_varint
from beam_runner_urns import metrics as urns

from beam_runner_worker._protos import beam_fn_api_pb2


def create_progress_request(instruction_id: str) -> beam_fn_api_pb2.InstructionRequest:
    """Returns a request for the progress of a bundle."""
    return beam_fn_api_pb2.InstructionRequest(
        process_bundle_progress=beam_fn_api_pb2.ProcessBundleProgressRequest(
            instruction_id=instruction_id
        )
    )


def count_processed_elements(
    infos: Iterable[MonitoringInfo], source: str, heads: Container[str]
) -> float:
    """Returns the number of processed input elements, with a fraction for the current one.

    SDKs count elements from 0, and report -1 or 0 before the first. After the last one, they report
    the number of elements.

    Args:
        infos: the metrics of a running bundle.
        source: the transform that reads the input.
        heads: the transforms after it; one that processes restrictions reports their progress.
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
    """Returns the doubles of a length-prefixed iterable."""
    count = decode_count(payload, 0)
    return struct.unpack_from(f">{count}d", payload, COUNT_BYTES)
