"""Who may call a server: everybody on this machine, or whoever brings its token or a certificate."""

from __future__ import annotations

import hmac
import ipaddress
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs
import grpc

from beam_runner_jobservices.channels import AUTHORIZATION, bearer
from beam_runner_jobservices.errors import JobServicesError, Unguarded

_SHORTEST_TOKEN = 16


@attrs.frozen
class Guard:
    """What a server asks of its clients, on every call of every service.

    - `allow_remote`: whether it may listen where other machines reach it; then a token or
      `client_authority` has to be there, for whoever may submit a job runs code on the server.
    - `token`: what clients send as `authorization: Bearer <token>`; empty asks for none.
    - `certificate`, `key`: of the server, as PEM, for TLS.
    - `client_authority`: PEM of the authority whose certificates clients must have.
    """

    allow_remote: bool = False
    token: str = attrs.field(default="", repr=False)
    certificate: bytes = attrs.field(default=b"", repr=False)
    key: bytes = attrs.field(default=b"", repr=False)
    client_authority: bytes = attrs.field(default=b"", repr=False)

    @property
    def asks(self) -> bool:
        """Whether it lets in only those who show something."""
        return bool(self.token or self.client_authority)

    def check(self, address: str) -> None:
        """Check that the server may listen at a numeric address.

        Raises:
            Unguarded: other machines reach it, and that is not allowed, or nothing guards it.
        """
        if ipaddress.ip_address(address).is_loopback:
            return
        if not self.allow_remote or not self.asks:
            raise Unguarded(
                f"cannot listen at {address}: other machines reach it, and whoever submits a job runs"
                " code here; that has to be allowed, and guarded by a token or by clients' certificates"
            )

    def interceptors(self) -> tuple[grpc.ServerInterceptor, ...]:
        """What looks at each call before anything of it is read."""
        return (_TokenCheck(self.token),) if self.token else ()

    def server_credentials(self) -> Any:
        """For `add_secure_port`, or None where calls come without TLS."""
        if not self.certificate:
            return None
        return grpc.ssl_server_credentials(
            [(self.key, self.certificate)],
            root_certificates=self.client_authority or None,
            require_client_auth=bool(self.client_authority),
        )


def read_guard(
    *,
    allow_remote: bool = False,
    token_file: Path | None = None,
    certificate: Path | None = None,
    key: Path | None = None,
    client_authority: Path | None = None,
) -> Guard:
    """The guard that these files describe: a token, and PEM files for TLS.

    Raises:
        JobServicesError: one of them cannot be read, is not what it should be, or lacks another.
    """
    if (certificate is None) != (key is None) or (client_authority and certificate is None):
        raise JobServicesError(
            "TLS needs the server's certificate and its key, and clients' certificates need TLS"
        )
    if certificate is not None:
        _check_tls(certificate, key, client_authority)
    return Guard(
        allow_remote,
        "" if token_file is None else read_token(token_file),
        read_secret(certificate),
        read_secret(key),
        read_secret(client_authority),
    )


def read_token(path: Path) -> str:
    """The token in a file: all of it, but for white space around it.

    Raises:
        JobServicesError: it cannot be read, or it is none, or too short to be a secret.
    """
    token = read_secret(path).decode("ascii", "replace").strip()
    if len(token) < _SHORTEST_TOKEN or not token.isascii() or not token.isprintable():
        raise JobServicesError(
            f"{path} holds no token: it must be {_SHORTEST_TOKEN} or more printable ASCII characters,"
            " as `openssl rand -hex 32` gives them"
        )
    return token


def read_secret(path: Path | None) -> bytes:
    """A file with a secret or a certificate; nothing where none is named.

    Raises:
        JobServicesError: it cannot be read.
    """
    try:
        return b"" if path is None else path.read_bytes()
    except OSError as error:
        raise JobServicesError(f"cannot read {path}: {error.strerror}") from error


def _check_tls(certificate: Path, key: Path | None, client_authority: Path | None) -> None:
    """Raise what `read_guard` does: gRPC would only say that it cannot listen."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    files = f"{certificate} with {key}"
    try:
        # A key that wants a password is refused; without one given Python asks at the terminal.
        context.load_cert_chain(certificate, key, password="")
        if client_authority is not None:
            files = str(client_authority)
            context.load_verify_locations(client_authority)
    except (OSError, ValueError) as error:
        reason = getattr(error, "reason", None) or getattr(error, "strerror", None) or error
        raise JobServicesError(f"cannot use {files} for TLS: {reason}") from error


class _TokenCheck(grpc.ServerInterceptor):
    """Refuses calls without the token, before a byte of their requests is read."""

    def __init__(self, token: str) -> None:
        self._expected = bearer(token).encode()
        # As a stream, whatever was called: the requests of a unary call would be read first.
        self._refusal = grpc.stream_stream_rpc_method_handler(_refuse)

    def intercept_service(self, continuation: Callable[[Any], Any], call: Any) -> Any:
        given = [value for name, value in call.invocation_metadata if name == AUTHORIZATION]
        if len(given) == 1 and hmac.compare_digest(_bytes(given[0]), self._expected):
            return continuation(call)
        return self._refusal


def _refuse(requests: Any, context: grpc.ServicerContext) -> Any:
    context.abort(
        grpc.StatusCode.UNAUTHENTICATED,
        "this server wants a token: send it with every call as `authorization: Bearer <token>`",
    )


def _bytes(value: str | bytes) -> bytes:
    return value if isinstance(value, bytes) else value.encode()
