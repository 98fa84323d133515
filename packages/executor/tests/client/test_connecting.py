from __future__ import annotations

import logging
import socket

import pytest

from beam_spark_executor.client import connecting
from beam_spark_executor.client.connecting import connect_to_job_service


def test_unreachable_server_is_reported_during_wait_and_at_end(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(connecting, "_PATIENCE_SECONDS", 0.1)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # the socket doesn't listen
        endpoint = f"127.0.0.1:{taken.getsockname()[1]}"
        with caplog.at_level(logging.WARNING), pytest.raises(RuntimeError) as said:
            connect_to_job_service(endpoint, 1)
    assert f"no job server responded at {endpoint} within 1 seconds" in str(said.value)
    assert [record.getMessage() for record in caplog.records] == [
        f"no job server responds at {endpoint}; waiting up to 1 seconds"
    ]
