"""Tests of requests that are too large to be decoded."""

from __future__ import annotations

import pytest

from beam_runner_jobservices.errors import JobApiError
from beam_runner_jobservices.limits import ServerLimits


@pytest.fixture
def limits() -> ServerLimits:
    return ServerLimits(request_bytes=100_000)


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (150_000, r"the request has 15\d{4} bytes; the maximum is 100000; stage large data"),
        (250_000, r"message larger than max \(25\d{4} vs. 200000\)"),
    ],
    ids=["in words", "unread"],
)
def test_large_requests_are_refused(client, pipeline, more, said):
    with pytest.raises(JobApiError, match=said) as raised:
        client.prepare_job(pipeline, {"beam:option:text:v1": "x" * more})
    assert raised.value.code == "RESOURCE_EXHAUSTED"
    client.submit_job(pipeline)
