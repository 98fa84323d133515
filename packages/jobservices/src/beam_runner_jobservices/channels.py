"""gRPC channels to a Job API server, with options for messages of any size, and with credentials."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import attrs
import grpc

CHANNEL_OPTIONS = (
    ("grpc.max_receive_message_length", -1),
    ("grpc.max_send_message_length", -1),
)
AUTHORIZATION = "authorization"
"""The metadata key of a token."""


def format_bearer_token(token: str) -> str:
    """Returns the value of `AUTHORIZATION` for this token."""
    return f"Bearer {token}"


@attrs.frozen
class Credentials:
    """Credentials that a client sends to a server that requires authentication, and the certificate
    authority that it trusts.

    Attributes:
        token: a token that the client sends with every call; empty for no token.
        tls: whether the client connects with TLS.
        authority: the PEM of the authority that signed the server's certificate; empty uses gRPC's
            default authorities.
        certificate, key: the client's own certificate and key as PEM, if the server requires them.
    """

    token: str = attrs.field(default="", repr=False)
    tls: bool = False
    authority: bytes = attrs.field(default=b"", repr=False)
    certificate: bytes = attrs.field(default=b"", repr=False)
    key: bytes = attrs.field(default=b"", repr=False)


def open_channel(
    address: str, credentials: Credentials, options: Sequence[tuple[str, int]] = CHANNEL_OPTIONS
) -> Any:
    """Returns a channel to the server at `address` (`host:port`) that sends the credentials."""
    if credentials.tls:
        shown = grpc.ssl_channel_credentials(
            credentials.authority or None, credentials.key or None, credentials.certificate or None
        )
        channel = grpc.secure_channel(address, shown, options=options)
    else:
        channel = grpc.insecure_channel(address, options=options)
    if not credentials.token:
        return channel
    return grpc.intercept_channel(channel, _TokenSender(credentials.token))


class _CallDetails(NamedTuple):
    """The details of a call that gRPC passes to interceptors."""

    method: str
    timeout: float | None
    metadata: Sequence[tuple[str, str | bytes]] | None
    credentials: Any
    wait_for_ready: bool | None
    compression: Any


class _TokenSender(
    grpc.UnaryUnaryClientInterceptor,
    grpc.UnaryStreamClientInterceptor,
    grpc.StreamUnaryClientInterceptor,
    grpc.StreamStreamClientInterceptor,
):
    """An interceptor that sends a token with every call."""

    def __init__(self, token: str) -> None:
        self._shown = (AUTHORIZATION, format_bearer_token(token))

    def _send_with_token(
        self, proceed: Callable[[_CallDetails, Any], Any], call: Any, request: Any
    ) -> Any:
        shown = (*(call.metadata or ()), self._shown)
        return proceed(
            _CallDetails(
                call.method,
                call.timeout,
                shown,
                call.credentials,
                call.wait_for_ready,
                call.compression,
            ),
            request,
        )

    intercept_unary_unary = _send_with_token
    intercept_unary_stream = _send_with_token
    intercept_stream_unary = _send_with_token
    intercept_stream_stream = _send_with_token
