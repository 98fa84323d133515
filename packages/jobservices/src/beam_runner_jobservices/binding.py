"""Opening of a server's port on all network addresses of a host name."""

from __future__ import annotations

import errno
import socket
from pathlib import Path
from typing import Any

import grpc

from beam_runner_jobservices.errors import AddressError
from beam_runner_jobservices.guard import AccessGuard

_ATTEMPTS = 16
_NO_SUCH_ADDRESS = frozenset({errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT, errno.EPROTONOSUPPORT})


def bind_port(server: grpc.Server, host: str, port: int, guard: AccessGuard) -> int:
    """Makes `server` listen on every network address of the host name `host`, and returns the port.

    `localhost` is 127.0.0.1 and, if the machine has IPv6, ::1. Port 0 selects a free port, the same
    for all addresses.

    Raises:
        AddressError: `host` isn't an address of this machine, or the port is in use or not allowed.
        UnguardedAddress: other machines can reach the address, and `guard` doesn't allow that.
    """
    addresses = _find_usable_addresses(host)
    for address in addresses:
        guard.check_address(address)
    credentials = guard.make_server_credentials()
    for _ in range(_ATTEMPTS if port == 0 else 1):
        chosen = _find_free_port(host, addresses, port)
        if chosen is None:
            continue
        try:
            for address in addresses:
                name = f"[{address}]" if ":" in address else address
                _add_listening_port(server, f"{name}:{chosen}", credentials)
        except RuntimeError as error:
            raise AddressError(f"Can't listen at {host}:{chosen}: {error}") from error
        return chosen
    raise AddressError(f"Can't find a port that is free on all addresses of {host}")


def bind_socket(server: grpc.Server, path: Path) -> str:
    """Makes `server` also listen on a Unix socket without TLS, and returns the target for clients.

    The permissions of the socket's folder decide who may open the socket.

    Raises:
        AddressError: the socket can't be made, for example because its path is too long.
    """
    target = f"unix:{path}"
    try:
        server.add_insecure_port(target)
    except RuntimeError as error:
        raise AddressError(f"Can't listen at {path}: {error}") from error
    return target


def _add_listening_port(server: grpc.Server, address: str, credentials: Any) -> None:
    if credentials is None:
        server.add_insecure_port(address)
    else:
        server.add_secure_port(address, credentials)


def _find_usable_addresses(host: str) -> tuple[str, ...]:
    """Returns the numeric addresses of `host` on which this machine can listen, IPv4 first."""
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except OSError as error:
        raise AddressError(f"Can't listen at {host}: {error.strerror or error}") from error
    addresses = {str(address[4][0]) for address in found}
    if host == "localhost":
        addresses |= {"127.0.0.1", "::1"}
    usable = {address for address in addresses if _can_listen_on(address)}
    if not usable:
        raise AddressError(f"Can't listen at {host}: not an address of this machine")
    return tuple(sorted(usable, key=lambda address: (":" in address, address)))


def _can_listen_on(address: str) -> bool:
    try:
        _check_port_is_free(address, 0)
    except OSError as error:
        if error.errno in _NO_SUCH_ADDRESS:
            return False
        raise AddressError(f"Can't listen at {address}: {error.strerror}") from error
    return True


def _find_free_port(host: str, addresses: tuple[str, ...], port: int) -> int | None:
    """Returns the port if the port is free on all addresses. For port 0, returns a free port, or
    None if the caller should try again.
    """
    chosen = port
    for address in addresses:
        try:
            chosen = _check_port_is_free(address, chosen)
        except OSError as error:
            if port == 0 and error.errno == errno.EADDRINUSE:
                return None
            reason = error.strerror
            if error.errno == errno.EADDRINUSE:
                reason = (
                    f"the port is in use on {address}; stop the process that uses"
                    " the port, or choose another port"
                )
            raise AddressError(f"Can't listen at {host}:{port}: {reason}") from error
    return chosen


def _check_port_is_free(address: str, port: int) -> int:
    """Binds a socket to the address, to check that the port is free, and closes it; returns the port."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family is socket.AF_INET6:
            probe.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        probe.bind((address, port))
        probe.listen(1)
        return int(probe.getsockname()[1])
