"""Conversion of exceptions to gRPC statuses, so that no error leaves the server as a traceback."""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Iterator
from typing import Any, NoReturn

import grpc
from beam_runner_model.errors import Unavailable

from beam_runner_jobservices.decoding import decoded
from beam_runner_jobservices.errors import (
    Damaged,
    DiskFull,
    ExecutorFailed,
    InvalidRequest,
    JobRejected,
    NotFound,
    NotReady,
    TooMany,
)
from beam_runner_jobservices.texts import one_line, status_text

_LOGGER = logging.getLogger(__name__)

_INVALID = grpc.StatusCode.INVALID_ARGUMENT
_UNSUPPORTED = grpc.StatusCode.UNIMPLEMENTED

STATUS_OF: dict[type[BaseException], grpc.StatusCode] = {
    NotFound: grpc.StatusCode.NOT_FOUND,
    InvalidRequest: _INVALID,
    NotReady: grpc.StatusCode.FAILED_PRECONDITION,
    TooMany: grpc.StatusCode.RESOURCE_EXHAUSTED,
    DiskFull: grpc.StatusCode.RESOURCE_EXHAUSTED,
    Unavailable: grpc.StatusCode.UNAVAILABLE,
    Damaged: grpc.StatusCode.DATA_LOSS,
    ExecutorFailed: grpc.StatusCode.INTERNAL,
}


def _abort(context: Any, error: BaseException, method: str) -> NoReturn:
    """Ends the call with the status of `error`. gRPC's `abort` always raises."""
    if isinstance(error, JobRejected):
        code = _UNSUPPORTED if error.unsupported else _INVALID
    elif type(error) in STATUS_OF:
        code = STATUS_OF[type(error)]
    else:
        _LOGGER.error("%s failed", method, exc_info=error)
        context.abort(grpc.StatusCode.INTERNAL, status_text(one_line(error)))
    context.abort(code, status_text(str(error)))
    raise AssertionError("unreachable")


def answering(method: Callable[..., Any]) -> Callable[..., Any]:
    """Returns a unary handler that answers errors with a gRPC status."""

    @functools.wraps(method)
    def answer(service: Any, request: Any, context: grpc.ServicerContext) -> Any:
        try:
            return method(service, decoded(request), context)
        except BaseException as error:
            _abort(context, error, method.__name__)

    return answer


def streaming(method: Callable[..., Iterator[Any]]) -> Callable[..., Iterator[Any]]:
    """Returns a streaming handler that answers errors with a gRPC status, except errors of the transport itself."""

    @functools.wraps(method)
    def answer(service: Any, request: Any, context: grpc.ServicerContext) -> Iterator[Any]:
        try:
            yield from method(service, decoded(request), context)
        except (grpc.RpcError, GeneratorExit):
            raise
        except BaseException as error:
            _abort(context, error, method.__name__)

    return answer
