"""From exceptions to gRPC statuses: no error of ours, nor any other, leaves the server as a traceback."""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Iterator
from typing import Any, NoReturn

import grpc

from .errors import (
    ExecutorFailed,
    InvalidRequest,
    JobRejected,
    JobServicesError,
    NotFound,
    NotReady,
    TooMany,
    Unavailable,
)
from .texts import one_line, status_text

_LOGGER = logging.getLogger(__name__)

STATUS_OF: dict[type[JobServicesError], grpc.StatusCode] = {
    NotFound: grpc.StatusCode.NOT_FOUND,
    InvalidRequest: grpc.StatusCode.INVALID_ARGUMENT,
    NotReady: grpc.StatusCode.FAILED_PRECONDITION,
    TooMany: grpc.StatusCode.RESOURCE_EXHAUSTED,
    Unavailable: grpc.StatusCode.UNAVAILABLE,
    ExecutorFailed: grpc.StatusCode.INTERNAL,
}


def _abort(context: grpc.ServicerContext, error: Exception, method: str) -> NoReturn:
    if isinstance(error, JobRejected):
        unsupported, invalid = grpc.StatusCode.UNIMPLEMENTED, grpc.StatusCode.INVALID_ARGUMENT
        context.abort(unsupported if error.unsupported else invalid, status_text(error.reason))
    code = STATUS_OF.get(type(error)) if isinstance(error, JobServicesError) else None
    if code is None:
        _LOGGER.error("%s failed", method, exc_info=error)
        context.abort(grpc.StatusCode.INTERNAL, status_text(one_line(error)))
    context.abort(code, status_text(str(error)))


def answering(method: Callable[..., Any]) -> Callable[..., Any]:
    """Make a unary handler answer errors with a status."""

    @functools.wraps(method)
    def answer(service: Any, request: Any, context: grpc.ServicerContext) -> Any:
        try:
            return method(service, request, context)
        except Exception as error:
            _abort(context, error, method.__name__)

    return answer


def streaming(method: Callable[..., Iterator[Any]]) -> Callable[..., Iterator[Any]]:
    """Make a streaming handler answer errors with a status, except those of the transport itself."""

    @functools.wraps(method)
    def answer(service: Any, request: Any, context: grpc.ServicerContext) -> Iterator[Any]:
        try:
            yield from method(service, request, context)
        except grpc.RpcError:
            raise
        except Exception as error:
            _abort(context, error, method.__name__)

    return answer
