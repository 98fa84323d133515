"""Encoding of sampled elements as metrics, so that the runner transfers and stores samples in the
same way as metrics.

SDKs sample elements of every PCollection if the pipeline has the experiment
``enable_data_sampling``. The latest samples of a PCollection are one monitoring info. Each sample
is encoded with the PCollection's coder (nested).
"""

from __future__ import annotations

import json
from collections.abc import Iterable

from apache_beam.coders import BytesCoder, IterableCoder
from beam_runner_model.bundles import MonitoringInfo
from beam_runner_urns import metrics as metric_urns
from beam_runner_urns import options as option_urns

from beam_runner_worker._protos import beam_fn_api_pb2

SAMPLED_ELEMENTS = "beam_runner_worker:sampled_elements:v1"
"""URN and type of the monitoring infos with samples. A payload is an encoded iterable of byte strings, oldest first."""
MOST_SAMPLES = 10
MOST_BYTES = 16 * 1024
"""Maximum size of a sampled element; larger elements are omitted."""

_EXPERIMENT = "enable_data_sampling"
_ELEMENTS = IterableCoder(BytesCoder())


def are_samples_enabled(options_json: str) -> bool:
    """Returns True if the pipeline options enable samples."""
    options = json.loads(options_json or "{}")
    experiments = options.get(option_urns.EXPERIMENTS, options.get("experiments"))
    return _EXPERIMENT in (experiments or ())


def create_sample_infos(response: beam_fn_api_pb2.SampleDataResponse) -> tuple[MonitoringInfo, ...]:
    """Converts the samples in an SDK's response to monitoring infos."""
    infos = []
    for pcollection_id, samples in sorted(response.element_samples.items()):
        elements = [s.element for s in samples.elements if len(s.element) <= MOST_BYTES]
        if elements:
            labels = ((metric_urns.LABEL_PCOLLECTION, pcollection_id),)
            payload = _ELEMENTS.encode(elements[-MOST_SAMPLES:])
            infos.append(MonitoringInfo(SAMPLED_ELEMENTS, SAMPLED_ELEMENTS, labels, payload))
    return tuple(infos)


def decode_samples(info: MonitoringInfo) -> list[bytes]:
    """Returns the encoded elements of a monitoring info with samples."""
    return list(_ELEMENTS.decode(info.payload))


def merge_samples(left: bytes, right: bytes) -> bytes:
    """Merges two payloads with samples into one payload, which has the latest elements of both
    payloads.
    """
    both: Iterable[bytes] = [*_ELEMENTS.decode(left), *_ELEMENTS.decode(right)]
    encoded: bytes = _ELEMENTS.encode(list(both)[-MOST_SAMPLES:])
    return encoded
