from __future__ import annotations

import errno
import time
from pathlib import Path

import pytest
from beam_runner_storage.unavailable import ExternalSystemUnavailable

from beam_runner_runtime.bundles import neighbour_wait
from beam_runner_runtime.bundles.neighbour_wait import OutageRetry
from beam_runner_runtime.channel.messages import NeighbourWaitStatus

STORE = ExternalSystemUnavailable("the data store at s3://b", "no answer")
AWAITED = NeighbourWaitStatus("the data store at s3://b", "no answer")


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(neighbour_wait, "FIRST_PAUSE_SECONDS", 0.001)


class Work:
    """A function that raises these errors in order, and then succeeds."""

    def __init__(self, *errors: Exception) -> None:
        self.errors = list(errors)
        self.calls = 0

    def __call__(self) -> int:
        self.calls += 1
        if self.errors:
            raise self.errors.pop(0)
        return self.calls


def test_call_to_unavailable_service_is_repeated_until_it_succeeds() -> None:
    told: list[NeighbourWaitStatus] = []
    assert OutageRetry(told.append, 60.0, lambda: True, Path("x"))(Work(STORE, STORE)) == 3
    assert told == [AWAITED, AWAITED, NeighbourWaitStatus()]


def test_call_to_available_service_reports_no_outage() -> None:
    told: list[NeighbourWaitStatus] = []
    assert OutageRetry(told.append, 60.0, lambda: True, Path("x"))(Work()) == 1
    assert told == []


def test_call_to_unavailable_service_raises_after_time_limit() -> None:
    told: list[NeighbourWaitStatus] = []
    work = Work(*[STORE] * 1000)
    began = time.monotonic()
    with pytest.raises(ExternalSystemUnavailable, match="the data store at s3://b is unavailable"):
        OutageRetry(told.append, 0.1, lambda: True, Path("x"))(work)
    assert 0.1 <= time.monotonic() - began < 30
    assert 2 < work.calls < 1000
    assert told[-1] == NeighbourWaitStatus(), "the wait has ended"


def test_call_to_unavailable_service_raises_immediately_if_job_has_ended() -> None:
    work = Work(STORE, STORE)
    with pytest.raises(ExternalSystemUnavailable):
        OutageRetry(lambda _: None, 60.0, lambda: False, Path("x"))(work)
    assert work.calls == 1


@pytest.mark.parametrize("error", [ValueError("x"), OSError(errno.ENOENT, "no such file")])
def test_call_to_service_raises_other_errors_unchanged(error: Exception) -> None:
    with pytest.raises(type(error)) as raised:
        OutageRetry(lambda _: None, 60.0, lambda: True, Path("x"))(Work(error))
    assert raised.value is error
