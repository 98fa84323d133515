"""Flags for the address at which executors reach the server."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

import attrs
from beam_runner_runtime.channel.place import (
    LOOPBACK,
    ChannelAddress,
    ChannelError,
    is_loopback,
    is_unspecified_address,
)

from beam_runner_server import flag_values


@attrs.frozen
class ChannelSettings:
    """Address at which executors connect to the server, as the command line sets it.

    Attributes:
        host: the name or address to listen on; ``None`` uses the host of Spark's driver.
        port: the port to listen on; ``None`` uses Spark's, and 0 a free port.
        advertised: the host and port that executors connect to. ``None`` uses the listening
            address, or the name of Spark's driver if the server listens on all addresses.
    """

    host: str | None = None
    port: int = 0
    advertised: tuple[str, int] | None = None

    def make_channel_address(
        self, master: str, driver: str, driver_binding: str, *, here: bool
    ) -> ChannelAddress:
        """Returns the address at which the server listens for executors, and the address that
        executors connect to.

        Args:
            master: Spark's master URL.
            driver: the name or address under which executors reach Spark's driver.
            driver_binding: the address on which Spark's driver listens.
            here: whether all executors run on the server's machine.

        Raises:
            ChannelError: the address is a loopback address, but executors run on other machines.
        """
        host = self.host or (LOOPBACK if here else driver_binding)
        # If the server listens on one address, executors can only use that address.
        own = "" if here or not is_unspecified_address(host) else driver
        name, port = self.advertised or (own or host, 0)
        if not here and is_loopback(name):
            raise ChannelError(
                f"{master} runs bundles on other machines, but {name} is a loopback address, at "
                "which they can't reach the server: set a name under which they can reach this "
                "machine, by"
                " --channel-host and --channel-advertise, or by"
                " --spark-conf=spark.driver.host=..."
            )
        return ChannelAddress(host, self.port, name, port)


def add_channel_flags(flag: Callable[..., Any]) -> None:
    """Adds the flags for the address at which executors reach the server."""
    flag(
        "--channel-host",
        metavar="HOST",
        help="host name or address at which the server listens for executors (default:"
        " spark.driver.bindAddress or spark.driver.host; 127.0.0.1 if Spark runs on this"
        " machine)",
    )
    flag(
        "--channel-port",
        type=flag_values.parse_port,
        default=0,
        metavar="PORT",
        help="port for executors; 0 picks a free port (default: %(default)s)",
    )
    flag(
        "--channel-advertise",
        type=flag_values.parse_advertised_address,
        metavar="HOST[:PORT]",
        help="address to which executors connect, for example the name of a Kubernetes service"
        " (default: the host and port above, with spark.driver.host for 0.0.0.0 or ::)",
    )


def read_channel_settings(found: argparse.Namespace) -> ChannelSettings:
    """Returns the channel settings of the command line."""
    return ChannelSettings(found.channel_host, found.channel_port, found.channel_advertise)
