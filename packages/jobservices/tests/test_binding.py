"""Tests of the addresses on which a server listens."""

from __future__ import annotations

import socket
from concurrent.futures import ThreadPoolExecutor

import grpc
import pytest

from beam_runner_jobservices.binding import bind_port
from beam_runner_jobservices.errors import AddressError, UnguardedAddress
from beam_runner_jobservices.guard import AccessGuard

OPEN = AccessGuard(allow_remote=True, token="x" * 16)


@pytest.fixture
def server():
    made = grpc.server(ThreadPoolExecutor(1), options=[("grpc.so_reuseport", 0)])
    yield made
    made.stop(None).wait(5)


def has_ipv6():
    try:
        with socket.socket(socket.AF_INET6) as probe:
            probe.bind(("::1", 0))
    except OSError:
        return False
    return True


def reachable(address, port):
    try:
        socket.create_connection((address, port), 5).close()
    except OSError:
        return False
    return True


def test_server_on_localhost_listens_on_ipv4_and_ipv6(server):
    port = bind_port(server, "localhost", 0, OPEN)
    server.start()
    assert reachable("127.0.0.1", port)
    assert reachable("::1", port) == has_ipv6()


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "0.0.0.0"])
def test_port_in_use_is_refused_with_its_number(server, host):
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(AddressError, match=rf"{port}.*in use"):
            bind_port(server, host, port, OPEN)


@pytest.mark.skipif(not has_ipv6(), reason="the machine has no IPv6")
def test_port_in_use_on_one_of_two_addresses_is_refused(server):
    with socket.create_server(("::1", 0), family=socket.AF_INET6) as other:
        port = other.getsockname()[1]
        with pytest.raises(AddressError, match=rf"{port}.*in use on ::1"):
            bind_port(server, "localhost", port, OPEN)


@pytest.mark.parametrize("host", ["192.0.2.1", "no-such-host.invalid"])
def test_unknown_host_is_refused_with_its_name(server, host):
    with pytest.raises(AddressError, match=host):
        bind_port(server, host, 0, OPEN)


@pytest.mark.parametrize("host", ["0.0.0.0", *(["::"] if has_ipv6() else [])])
@pytest.mark.parametrize(
    "guard",
    [
        AccessGuard(),
        AccessGuard(allow_remote=True),
        AccessGuard(token="x" * 16),
        AccessGuard(client_authority=b"x"),
    ],
)
def test_public_address_of_server_without_guard_is_refused(server, host, guard):
    with pytest.raises(UnguardedAddress, match="other machines can reach"):
        bind_port(server, host, 0, guard)


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "127.0.0.2"])
def test_loopback_address_of_server_without_guard_is_accepted(server, host):
    assert bind_port(server, host, 0, AccessGuard())
