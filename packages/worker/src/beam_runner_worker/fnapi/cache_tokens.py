"""Cache tokens of side inputs, with which an SDK keeps the data of a side input across bundles.

A token stays the same while the data of its side input stays the same. An SDK caches nothing without
a token, so each bundle would read each side input again.
"""

from __future__ import annotations

import secrets

from beam_runner_urns import python_sdk
from beam_runner_urns.payloads import PAR_DOS

from beam_runner_worker._protos import beam_fn_api_pb2, beam_runner_api_pb2
from beam_runner_worker.ports import SideInputReader

_TOKEN_BYTES = 8


def find_cacheable_side_inputs(
    descriptor: beam_fn_api_pb2.ProcessBundleDescriptor,
) -> tuple[tuple[str, str], ...]:
    """Returns the transform ID and tag of each side input that the SDK reads faster with a cache
    token.
    """
    found: list[tuple[str, str]] = []
    for transform_id, transform in descriptor.transforms.items():
        if transform.spec.urn in PAR_DOS:
            payload = beam_runner_api_pb2.ParDoPayload.FromString(transform.spec.payload)
            if payload.do_fn.urn != python_sdk.PICKLED_DOFN_INFO:
                found += ((transform_id, tag) for tag in sorted(payload.side_inputs))
    return tuple(found)


class SideInputTokens:
    """Tokens for the side inputs of one stage.

    Args:
        side_inputs: the side inputs, as pairs of a transform ID and a tag.
        reader: the reader of the side inputs, which knows the version of their data.
    """

    def __init__(self, side_inputs: tuple[tuple[str, str], ...], reader: SideInputReader) -> None:
        self._side_inputs = side_inputs
        self._reader = reader
        # Versions count from 0 in each process, and harnesses may share a cache.
        self._prefix = secrets.token_hex(_TOKEN_BYTES)

    def list_cache_tokens(self) -> list[beam_fn_api_pb2.ProcessBundleRequest.CacheToken]:
        """Returns the current token of each side input. Call once for each bundle of the SDK."""
        tokens = []
        for transform_id, tag in self._side_inputs:
            token = beam_fn_api_pb2.ProcessBundleRequest.CacheToken()
            token.side_input.transform_id, token.side_input.side_input_id = transform_id, tag
            version = self._reader.get_version(transform_id, tag)
            token.token = f"{self._prefix}-{version}".encode()
            tokens.append(token)
        return tokens
