"""Where the server's end of the channel listens, and what executors call it."""

from __future__ import annotations

import ipaddress

import attrs
from beam_runner_model.errors import Unavailable

LOOPBACK = "127.0.0.1"
SERVER_NAME = "beam-spark-channel"
"""Whom the server's certificate is for, whatever it is called on the network."""


class ChannelError(Unavailable):
    """The channel can't be there for executors; one sentence that says why, and what to do."""


@attrs.frozen
class ChannelPlace:
    """Where the channel is.

    Attributes:
        host: the name or address to listen at.
        port: likewise; 0 is a free one.
        advertised_host: the name or address at which executors reach it; empty for the one above.
        advertised_port: likewise; 0 for the one that it listens at.
    """

    host: str = LOOPBACK
    port: int = 0
    advertised_host: str = ""
    advertised_port: int = 0

    @property
    def is_private(self) -> bool:
        """Whether no other machine can come between the two ends."""
        return is_loopback(self.host) and is_loopback(self.advertised_host or self.host)

    @property
    def binding(self) -> str:
        """What is listened at."""
        return join(self.host, self.port)

    def address(self, port: int) -> str:
        """What executors call it, if it listens at this port."""
        return join(self.advertised_host or self.host, self.advertised_port or port)


def is_loopback(host: str) -> bool:
    """Whether a name or address means the machine itself."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def is_every_address(host: str) -> bool:
    """Whether who listens at it listens at all addresses of the machine."""
    try:
        return ipaddress.ip_address(host.strip("[]")).is_unspecified
    except ValueError:
        return False


def join(host: str, port: int) -> str:
    """Both in one, as gRPC writes it: an address of IPv6 is in brackets."""
    return f"[{host}]:{port}" if ":" in host and not host.startswith("[") else f"{host}:{port}"


def parse_advertised(text: str) -> tuple[str, int]:
    """Host and port of ``HOST`` or ``HOST:PORT``; the port is 0 if there is none.

    Raises:
        ValueError: it is neither.
    """
    host, colon, port = text.rpartition(":")
    if not colon or (":" in host and not host.endswith("]")) or text.endswith("]"):
        host, port = text, "0"
    host = host.removeprefix("[").removesuffix("]")
    if not host or "/" in host or not port.isdecimal() or int(port) > 65535:
        raise ValueError(f"expected HOST or HOST:PORT, got {text!r}")
    return host, int(port)
