"""Requests that are no messages of their kind, or too large: refused as the client's fault before a handler
sees them, where gRPC would say INTERNAL and write a traceback into the log, or take any size.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs
import grpc

from beam_runner_jobservices.errors import InvalidRequest, JobServicesError, TooMany


@attrs.frozen
class Refused:
    """Stands for a request that was not decoded, and why."""

    error: JobServicesError


class Decoding(grpc.ServerInterceptor):
    """Gives handlers a `Refused` in the place of what cannot be decoded, or is larger than `most` bytes; for
    `decoded`.
    """

    def __init__(self, most: int) -> None:
        self._most = most

    def intercept_service(self, continuation: Callable[[Any], Any], call: Any) -> Any:
        handler = continuation(call)
        decode = getattr(handler, "request_deserializer", None)
        if decode is None:
            return handler

        def decode_or_say(data: bytes) -> Any:
            if len(data) > self._most:
                # Decoding it would take several times its size in memory.
                return Refused(
                    TooMany(
                        f"the request has {len(data)} bytes, and {self._most} is the most; stage large"
                        " data as files"
                    )
                )
            try:
                return decode(data)
            except Exception:
                return Refused(InvalidRequest(f"what was sent is no request to {call.method}"))

        return handler._replace(request_deserializer=decode_or_say)


def decoded(request: Any) -> Any:
    """The request.

    Raises:
        InvalidRequest: it could not be decoded.
        TooMany: it is too large.
    """
    if isinstance(request, Refused):
        raise request.error
    return request
