"""Requests that are no messages of their kind: refused as the client's fault, where gRPC says INTERNAL
and writes a traceback into the log.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs
import grpc

from .errors import InvalidRequest


@attrs.frozen
class Malformed:
    """Stands for a request to `method` that could not be decoded."""

    method: str


class Decoding(grpc.ServerInterceptor):
    """Gives handlers a `Malformed` in the place of what cannot be decoded; for `decoded`."""

    def intercept_service(self, continuation: Callable[[Any], Any], call: Any) -> Any:
        handler = continuation(call)
        decode = getattr(handler, "request_deserializer", None)
        if decode is None:
            return handler

        def decode_or_say(data: bytes) -> Any:
            try:
                return decode(data)
            except Exception:
                return Malformed(call.method)

        return handler._replace(request_deserializer=decode_or_say)


def decoded(request: Any) -> Any:
    """The request.

    Raises:
        InvalidRequest: it could not be decoded.
    """
    if isinstance(request, Malformed):
        raise InvalidRequest(f"what was sent is no request to {request.method}")
    return request
