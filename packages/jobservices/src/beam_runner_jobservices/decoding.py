"""Rejection of requests that are malformed or too large, with an error status that blames the
client.

Without this module, gRPC would answer INTERNAL and log a traceback, or accept a request of any
size.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs
import grpc

from beam_runner_jobservices.errors import InvalidRequest, JobServicesError, LimitExceeded


@attrs.frozen
class RejectedRequest:
    """A placeholder for a request that was not decoded, with the reason."""

    error: JobServicesError


class DecodingInterceptor(grpc.ServerInterceptor):
    """gRPC interceptor that passes a `RejectedRequest` to the handler if a request is malformed or
    exceeds `most` bytes.

    Handlers call `get_decoded_request` on their request.
    """

    def __init__(self, most: int) -> None:
        self._most = most

    def intercept_service(self, continuation: Callable[[Any], Any], call: Any) -> Any:
        handler = continuation(call)
        decode = getattr(handler, "request_deserializer", None)
        if decode is None:
            return handler

        def decode_or_reject(data: bytes) -> Any:
            if len(data) > self._most:
                # Decoding the request would take several times its size in memory.
                return RejectedRequest(
                    LimitExceeded(
                        f"the request has {len(data)} bytes; the maximum is"
                        f" {self._most}; stage large data as files"
                    )
                )
            try:
                return decode(data)
            except Exception:
                return RejectedRequest(
                    InvalidRequest(f"Can't parse the message as a request to {call.method}")
                )

        return handler._replace(request_deserializer=decode_or_reject)


def get_decoded_request(request: Any) -> Any:
    """Returns the decoded request.

    Raises:
        InvalidRequest: the request could not be decoded.
        LimitExceeded: the request is too large.
    """
    if isinstance(request, RejectedRequest):
        raise request.error
    return request
