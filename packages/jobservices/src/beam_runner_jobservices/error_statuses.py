"""Conversion of exceptions in handlers to gRPC statuses, so that clients don't get tracebacks."""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Iterator
from typing import Any, NoReturn

import grpc
from beam_runner_model.errors import Unavailable

from beam_runner_jobservices.decoding import get_decoded_request
from beam_runner_jobservices.errors import (
    DamagedData,
    DiskFull,
    ExecutorFailed,
    InvalidRequest,
    JobRejected,
    LimitExceeded,
    NotFound,
    NotReady,
)
from beam_runner_jobservices.texts import fit_status_text, format_exception

_LOGGER = logging.getLogger(__name__)

_INVALID = grpc.StatusCode.INVALID_ARGUMENT
_UNSUPPORTED = grpc.StatusCode.UNIMPLEMENTED

STATUS_OF: dict[type[BaseException], grpc.StatusCode] = {
    NotFound: grpc.StatusCode.NOT_FOUND,
    InvalidRequest: _INVALID,
    NotReady: grpc.StatusCode.FAILED_PRECONDITION,
    LimitExceeded: grpc.StatusCode.RESOURCE_EXHAUSTED,
    DiskFull: grpc.StatusCode.RESOURCE_EXHAUSTED,
    Unavailable: grpc.StatusCode.UNAVAILABLE,
    DamagedData: grpc.StatusCode.DATA_LOSS,
    ExecutorFailed: grpc.StatusCode.INTERNAL,
}


def _abort_call_with_error(context: Any, error: BaseException, method: str) -> NoReturn:
    """Ends the call with the status of `error`. gRPC's `abort` always raises."""
    if isinstance(error, JobRejected):
        code = _UNSUPPORTED if error.unsupported else _INVALID
    elif type(error) in STATUS_OF:
        code = STATUS_OF[type(error)]
    else:
        _LOGGER.error("%s failed", method, exc_info=error)
        context.abort(grpc.StatusCode.INTERNAL, fit_status_text(format_exception(error)))
    context.abort(code, fit_status_text(str(error)))
    raise AssertionError("unreachable")


def convert_errors_to_status(method: Callable[..., Any]) -> Callable[..., Any]:
    """Wraps a unary handler: converts its exceptions to a gRPC status."""

    @functools.wraps(method)
    def handle_call(service: Any, request: Any, context: grpc.ServicerContext) -> Any:
        try:
            return method(service, get_decoded_request(request), context)
        except BaseException as error:
            _abort_call_with_error(context, error, method.__name__)

    return handle_call


def convert_stream_errors_to_status(
    method: Callable[..., Iterator[Any]],
) -> Callable[..., Iterator[Any]]:
    """Wraps a streaming handler: converts its exceptions to a gRPC status, except gRPC's own errors."""

    @functools.wraps(method)
    def handle_call(service: Any, request: Any, context: grpc.ServicerContext) -> Iterator[Any]:
        try:
            yield from method(service, get_decoded_request(request), context)
        except (grpc.RpcError, GeneratorExit):
            raise
        except BaseException as error:
            _abort_call_with_error(context, error, method.__name__)

    return handle_call
