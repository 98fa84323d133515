from __future__ import annotations

from collections.abc import Iterator

import pytest

from beam_spark_executor.bundles.needs import Needs, trouble_here
from beam_spark_executor.channel.endpoints import KNOCK
from beam_spark_executor.channel.messages import Endpoint
from beam_spark_executor.channel.place import ChannelPlace
from beam_spark_executor.channel.server import ChannelServer


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    server = ChannelServer(ChannelPlace(), lambda job_id: None, lambda number: None)
    server.start()
    yield server.endpoints.of(KNOCK)
    server.stop()


def test_where_all_is_as_it_is_here_there_is_no_trouble(endpoint: Endpoint) -> None:
    assert trouble_here(Needs(endpoint, None, None)) == ""


def test_other_versions_are_named(endpoint: Endpoint) -> None:
    versions = {"apache-beam": "2.1", "no-such-package": "7"}
    assert trouble_here(Needs(endpoint, None, None, versions)).endswith("spark.archives")
    assert " and 2.1 in the server" in trouble_here(Needs(endpoint, None, None, versions))
    del versions["apache-beam"]
    missing = trouble_here(Needs(endpoint, None, None, versions))
    assert "no-such-package is missing there and 7 in the server" in missing
