"""Listening address of the channel server, and the address that executors use."""

from __future__ import annotations

import ipaddress

import attrs
from beam_runner_model.errors import Unavailable

LOOPBACK = "127.0.0.1"
SERVER_NAME = "beam-spark-channel"
"""Host name in the server's certificate. It doesn't depend on the network name of the server's
machine.
"""


class ChannelError(Unavailable):
    """Raised if executors can't reach the channel server. The message is one sentence with the cause and the fix."""


@attrs.frozen
class ChannelAddress:
    """Listening address of the channel server, and the host name that executors connect to.

    Attributes:
        host: host name or address to listen at.
        port: port to listen at; 0 selects a free port.
        advertised_host: host name or address that executors use; empty for `host`.
        advertised_port: port that executors use; 0 for the listening port.
    """

    host: str = LOOPBACK
    port: int = 0
    advertised_host: str = ""
    advertised_port: int = 0

    @property
    def is_private(self) -> bool:
        """Whether the server listens only on the loopback interface, so that other machines can't
        reach the server.
        """
        return is_loopback(self.host) and is_loopback(self.advertised_host or self.host)

    @property
    def listen_address(self) -> str:
        """Address at which the server listens for workers, as `HOST:PORT`."""
        return join_host_port(self.host, self.port)

    def executor_address(self, port: int) -> str:
        """Returns the address that executors use if the server listens at `port`."""
        return join_host_port(self.advertised_host or self.host, self.advertised_port or port)


def is_loopback(host: str) -> bool:
    """Returns whether a host name or address is a loopback address."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def is_unspecified_address(host: str) -> bool:
    """Returns whether a host is the unspecified address, which listens at all addresses of the machine."""
    try:
        return ipaddress.ip_address(host.strip("[]")).is_unspecified
    except ValueError:
        return False


def join_host_port(host: str, port: int) -> str:
    """Returns host and port in the syntax of gRPC, with IPv6 addresses in brackets."""
    return f"[{host}]:{port}" if ":" in host and not host.startswith("[") else f"{host}:{port}"


def parse_host_and_port(text: str) -> tuple[str, int]:
    """Returns host and port of ``HOST`` or ``HOST:PORT``. The port is 0 if missing.

    Raises:
        ValueError: If the text has another form.
    """
    host, colon, port = text.rpartition(":")
    if not colon or (":" in host and not host.endswith("]")) or text.endswith("]"):
        host, port = text, "0"
    host = host.removeprefix("[").removesuffix("]")
    if not host or "/" in host or not port.isdecimal() or int(port) > 65535:
        raise ValueError(f"expected HOST or HOST:PORT, got {text!r}")
    return host, int(port)
