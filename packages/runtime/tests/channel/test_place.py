from __future__ import annotations

import pytest

from beam_runner_runtime.channel.place import ChannelAddress, is_loopback, parse_host_and_port


@pytest.mark.parametrize(
    ("host", "means_itself"),
    [
        ("localhost", True),
        ("127.0.0.1", True),
        ("127.3.2.1", True),
        ("::1", True),
        ("[::1]", True),
        ("0.0.0.0", False),
        ("10.0.0.1", False),
        ("localhost.example", False),
        ("::", False),
    ],
)
def test_loopback_hosts_are_recognized(host: str, means_itself: bool) -> None:
    assert is_loopback(host) is means_itself
    assert ChannelAddress(host).is_private is means_itself
    # For example, other machines connect through a tunnel.
    assert not ChannelAddress(host, advertised_host="server.example").is_private


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("driver", ("driver", 0)),
        ("driver:7", ("driver", 7)),
        ("10.0.0.1:7", ("10.0.0.1", 7)),
        ("::1", ("::1", 0)),
        ("[::1]", ("::1", 0)),
        ("[::1]:7", ("::1", 7)),
    ],
)
def test_advertised_address_is_parsed_into_host_and_port(text: str, said: tuple[str, int]) -> None:
    assert parse_host_and_port(text) == said


@pytest.mark.parametrize(
    "text", ["", ":7", "driver:", "driver:x", "driver:65536", "http://x", "[]"]
)
def test_unusable_advertised_address_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="expected HOST or HOST:PORT"):
        parse_host_and_port(text)


def test_grpc_addresses_are_parsed() -> None:
    assert ChannelAddress("::", 5).listen_address == "[::]:5"
    assert ChannelAddress("[::]", 5).listen_address == "[::]:5"
    assert ChannelAddress("0.0.0.0").executor_address(7) == "0.0.0.0:7"
    assert ChannelAddress("::", 0, "::1").executor_address(7) == "[::1]:7"
    assert ChannelAddress("::", 0, "name", 8).executor_address(7) == "name:8"
