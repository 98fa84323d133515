"""Access control of a job server, by network address, token and client certificate."""

from __future__ import annotations

import hmac
import ipaddress
import ssl
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import attrs
import grpc

from beam_runner_jobservices.channels import AUTHORIZATION, format_bearer_token
from beam_runner_jobservices.errors import JobServicesError, UnguardedAddress
from beam_runner_jobservices.method_rights import (
    REFUSED_TOKEN,
    RightsInterceptor,
    find_calling_user,
)
from beam_runner_jobservices.users import SHORTEST_TOKEN, Quota, is_valid_token
from beam_runner_jobservices.users_file import UsersFile


@attrs.frozen
class AccessGuard:
    """Checker of the credentials that a server requires for every call.

    Attributes:
        allow_remote: whether the server may listen on addresses that other machines can reach. If
            so, a token or `client_authority` is required, because a client that submits a job runs
            code on the server.
        token: the token that clients send as `authorization: Bearer <token>`; empty requires none.
        users: the users with their tokens and rights, in place of `token`; None has no users.
        certificate, key: the certificate and key of the server as PEM, for TLS.
        client_authority: the PEM of the authority that must have signed the clients' certificates.
    """

    allow_remote: bool = False
    token: str = attrs.field(default="", repr=False)
    certificate: bytes = attrs.field(default=b"", repr=False)
    key: bytes = attrs.field(default=b"", repr=False)
    client_authority: bytes = attrs.field(default=b"", repr=False)
    users: UsersFile | None = attrs.field(default=None, repr=False)

    @property
    def requires_credentials(self) -> bool:
        """Whether clients need credentials."""
        return bool(self.requires_token or self.client_authority)

    @property
    def requires_token(self) -> bool:
        """Whether clients need a token."""
        return bool(self.token) or self.users is not None

    @property
    def local_token(self) -> str:
        """The token for the server's own programs; empty if the server requires no token."""
        return self.token if self.users is None else self.users.local_token

    def check_address(self, address: str) -> None:
        """Checks that the server may listen on a numeric address.

        Raises:
            UnguardedAddress: other machines can reach the address, and that isn't allowed or not guarded.
        """
        if ipaddress.ip_address(address).is_loopback:
            return
        if not self.allow_remote or not self.requires_credentials:
            raise UnguardedAddress(
                f"Can't listen at {address}: other machines can reach this address, and"
                " every client can run code on this machine. Allow remote clients, and"
                " require a token or client certificates"
            )

    def make_interceptors(self) -> tuple[grpc.ServerInterceptor, ...]:
        """Returns the interceptors that check each call before the server reads its request."""
        if self.users is not None:
            return (RightsInterceptor(self.users),)
        return (_TokenCheck(self.token),) if self.token else ()

    def find_user_name(self, metadata: Iterable[Any]) -> str:
        """Returns the name of the user who makes a call; empty for calls without a user."""
        user = None if self.users is None else find_calling_user(self.users, metadata)
        return user.name if user else ""

    def find_owner_limit(self, metadata: Iterable[Any]) -> str | None:
        """Returns the user to whose jobs a call is limited; None if the call covers all jobs."""
        user = None if self.users is None else find_calling_user(self.users, metadata)
        return None if user is None or user.sees_all_jobs else user.name

    def find_quota(self, user: str) -> Quota:
        """Returns the quota of a user."""
        return Quota() if self.users is None else self.users.find_quota(user)

    def make_server_credentials(self) -> Any:
        """Returns the credentials for `add_secure_port`, or None for calls without TLS."""
        if not self.certificate:
            return None
        return grpc.ssl_server_credentials(
            [(self.key, self.certificate)],
            root_certificates=self.client_authority or None,
            require_client_auth=bool(self.client_authority),
        )


def read_access_guard(
    *,
    allow_remote: bool = False,
    token_file: Path | None = None,
    users_file: Path | None = None,
    certificate: Path | None = None,
    key: Path | None = None,
    client_authority: Path | None = None,
) -> AccessGuard:
    """Reads the files with token or users and with certificates, and returns the access guard.

    Raises:
        JobServicesError: a file can't be read, is malformed, or requires another file.
    """
    if (certificate is None) != (key is None) or (client_authority and certificate is None):
        raise JobServicesError(
            "TLS needs both the server's certificate and its key, and client certificates need TLS"
        )
    if certificate is not None:
        _check_tls_files(certificate, key, client_authority)
    return AccessGuard(
        allow_remote,
        "" if token_file is None else read_token(token_file),
        read_secret(certificate),
        read_secret(key),
        read_secret(client_authority),
        None if users_file is None else UsersFile(users_file),
    )


def read_token(path: Path) -> str:
    """Returns the token in a file, which is its whole content without surrounding white space.

    Raises:
        JobServicesError: the file can't be read, or its token is missing or too short to be secret.
    """
    token = read_secret(path).decode("ascii", "replace").strip()
    if not is_valid_token(token):
        raise JobServicesError(
            f"{path} contains no valid token; expected {SHORTEST_TOKEN} or more"
            " printable ASCII characters, such as the output of `openssl rand -hex 32`"
        )
    return token


def read_secret(path: Path | None) -> bytes:
    """Returns the content of a file with a secret or a certificate; empty if no file is named.

    Raises:
        JobServicesError: the file can't be read.
    """
    try:
        return b"" if path is None else path.read_bytes()
    except OSError as error:
        raise JobServicesError(f"Can't read {path}: {error.strerror}") from error


def _check_tls_files(certificate: Path, key: Path | None, client_authority: Path | None) -> None:
    """Raises the errors of `read_access_guard`, because gRPC would only report that it can't listen."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    files = f"{certificate} with {key}"
    try:
        # Refuse a key with a password. Without this callback, Python would wait for the password at the terminal.
        context.load_cert_chain(certificate, key, password="")
        if client_authority is not None:
            files = str(client_authority)
            context.load_verify_locations(client_authority)
    except (OSError, ValueError) as error:
        reason = getattr(error, "reason", None) or getattr(error, "strerror", None) or error
        raise JobServicesError(f"Can't use {files} for TLS: {reason}") from error


class _TokenCheck(grpc.ServerInterceptor):
    """gRPC interceptor that refuses calls without the token before the server reads their requests."""

    def __init__(self, token: str) -> None:
        self._expected = format_bearer_token(token).encode()

    def intercept_service(self, continuation: Callable[[Any], Any], call: Any) -> Any:
        given = [value for name, value in call.invocation_metadata if name == AUTHORIZATION]
        if len(given) == 1 and hmac.compare_digest(_encode_header_value(given[0]), self._expected):
            return continuation(call)
        return REFUSED_TOKEN


def _encode_header_value(value: str | bytes) -> bytes:
    return value if isinstance(value, bytes) else value.encode()
