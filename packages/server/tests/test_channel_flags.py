from __future__ import annotations

import pytest
from beam_runner_runtime.channel.place import ChannelAddress, ChannelError

from beam_runner_server.channel_flags import ChannelSettings
from beam_runner_server.flags import parse_command_line
from beam_runner_server.plain import PlainProgram

CLUSTER = "spark://master:7077"


def test_worker_channel_uses_address_of_spark_driver() -> None:
    place = ChannelSettings().make_channel_address(CLUSTER, "driver.example", "0.0.0.0", here=False)
    assert place == ChannelAddress("0.0.0.0", 0, "driver.example")
    assert place.executor_address(5) == "driver.example:5"


def test_worker_channel_of_single_machine_listens_only_on_loopback() -> None:
    place = ChannelSettings().make_channel_address("local[2]", "127.0.0.1", "127.0.0.1", here=True)
    assert place.is_private
    assert place.executor_address(5) == "127.0.0.1:5"


def test_worker_channel_flags_override_defaults() -> None:
    flags = ("--channel-host=10.0.0.1", "--channel-port", "7", "--channel-advertise=public:8")
    wishes = parse_command_line(flags, PlainProgram()).channel
    assert wishes == ChannelSettings("10.0.0.1", 7, ("public", 8))
    wanted = ChannelAddress("10.0.0.1", 7, "public", 8)
    assert wishes.make_channel_address(CLUSTER, "driver", "driver", here=False) == wanted
    assert wishes.make_channel_address("local[2]", "127.0.0.1", "127.0.0.1", here=True) == wanted


@pytest.mark.parametrize(
    ("binding", "here", "address"),
    [
        ("10.0.0.1", False, "10.0.0.1:5"),
        ("0.0.0.0", False, "driver:5"),
        ("10.0.0.1", True, "10.0.0.1:5"),
    ],
)
def test_worker_channel_advertises_its_listening_address(
    binding: str, here: bool, address: str
) -> None:
    place = ChannelSettings(binding).make_channel_address(CLUSTER, "driver", "driver", here=here)
    assert place.executor_address(5) == address


def test_worker_channel_with_port_only_uses_host_of_spark() -> None:
    wishes = parse_command_line(["--channel-port=7"], PlainProgram()).channel
    place = wishes.make_channel_address(CLUSTER, "driver", "0.0.0.0", here=False)
    assert place == ChannelAddress("0.0.0.0", 7, "driver")


@pytest.mark.parametrize(
    ("wishes", "driver"),
    [
        (ChannelSettings(), "localhost"),
        (ChannelSettings(host="127.0.0.1"), "driver"),
        (ChannelSettings(advertised=("localhost", 5)), "driver"),
    ],
)
def test_worker_channel_on_loopback_address_is_refused_for_cluster(
    wishes: ChannelSettings, driver: str
) -> None:
    with pytest.raises(
        ChannelError,
        match=r"spark://master:7077 runs .* (localhost|127.0.0.1) is a loopback address",
    ):
        wishes.make_channel_address(CLUSTER, driver, driver, here=False)


@pytest.mark.parametrize(
    "flag", ["--channel-port=x", "--channel-port=70000", "--channel-advertise=:5"]
)
def test_worker_channel_flags_with_invalid_values_are_refused(
    flag: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        parse_command_line([flag], PlainProgram())
    assert f"{flag.partition('=')[0]}: expected" in capsys.readouterr().err
