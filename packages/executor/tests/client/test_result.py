from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc
import pytest
from apache_beam.portability.api import beam_job_api_pb2 as api
from apache_beam.runners.portability.portable_runner import PipelineResult

from beam_spark_executor.client.result import BeamSparkResult


class Service:
    """A server that records its requests."""

    def __init__(self) -> None:
        self.cancelled: list[str] = []

    def Cancel(self, request: Any) -> None:
        self.cancelled.append(request.job_id)


class Stream:
    """A stream of the server. After a cancel, another thread ends the stream, as gRPC does."""

    def __init__(self, events: Iterable[Any]) -> None:
        self._events = iter(events)
        self._callbacks: list[Callable[[Stream], None]] = []
        self.is_ended = False

    def __iter__(self) -> Iterator[Any]:
        return self._events

    def add_done_callback(self, callback: Callable[[Stream], None]) -> None:
        self._callbacks.append(callback)

    def cancel(self) -> None:
        threading.Timer(0.1, self._end).start()

    def _end(self) -> None:
        self.is_ended = True
        for callback in self._callbacks:
            callback(self)


class Gone(grpc.RpcError):
    def details(self) -> str:
        return "connection refused"


def result(*states: Any, service: Any = None, exit_reason: str = "") -> BeamSparkResult:
    def events() -> Any:
        for state in states:
            if isinstance(state, Exception):
                raise state
            yield api.JobStateEvent(state=state)

    of = PipelineResult(service, "job-1", Stream(()), Stream(events()))
    return BeamSparkResult(of, "localhost:1", lambda: exit_reason)


RUNNING, DONE, FAILED = api.JobState.RUNNING, api.JobState.DONE, api.JobState.FAILED
DRAINED, CANCELLED = api.JobState.DRAINED, api.JobState.CANCELLED


@pytest.mark.parametrize(("state", "told"), [(DONE, "DONE"), (DRAINED, "DRAINED")])
def test_wait_until_finish_returns_successful_state(state: Any, told: str) -> None:
    assert result(RUNNING, state).wait_until_finish() == told


def test_wait_until_finish_returns_after_both_streams_end() -> None:
    messages, states = Stream(()), Stream([api.JobStateEvent(state=DONE)])
    of = PipelineResult(Service(), "job-1", messages, states)
    assert BeamSparkResult(of, "localhost:1", str).wait_until_finish() == "DONE"
    assert messages.is_ended
    assert states.is_ended


def test_cancel_by_same_program_raises_no_error() -> None:
    service = Service()
    ours = result(RUNNING, CANCELLED, service=service)
    ours.cancel()
    assert service.cancelled == ["job-1"] == [ours.job_id]
    assert ours.wait_until_finish() == "CANCELLED"


@pytest.mark.parametrize(("state", "told"), [(FAILED, "FAILED"), (CANCELLED, "CANCELLED")])
def test_wait_until_finish_raises_for_failed_state(state: Any, told: str) -> None:
    with pytest.raises(RuntimeError, match=f"job-1 failed in state {told}"):
        result(RUNNING, state).wait_until_finish()


@pytest.mark.parametrize(
    ("exit_reason", "told"),
    [("", "the server doesn't respond: connection refused"), ("Spark is gone", "Spark is gone")],
)
def test_lost_server_raises_one_sentence(exit_reason: str, told: str) -> None:
    with pytest.raises(RuntimeError, match=f"^Can't follow the job job-1: {told}$"):
        result(RUNNING, Gone(), exit_reason=exit_reason).wait_until_finish()


def waiting(until: threading.Event, last: Any) -> BeamSparkResult:
    """Returns a job that the test ends. One thread at a time reads its states from a stream."""

    def events() -> Any:
        yield api.JobStateEvent(state=RUNNING)
        until.wait(60)
        yield api.JobStateEvent(state=last)

    of = PipelineResult(Service(), "job-1", Stream(()), Stream(events()))
    return BeamSparkResult(of, "localhost:1", str)


def test_wait_can_be_repeated_after_timeout() -> None:
    until = threading.Event()
    ours = waiting(until, CANCELLED)
    assert ours.wait_until_finish(100) == "RUNNING"
    assert ours.wait_until_finish(100) == "RUNNING"
    ours.cancel()
    until.set()
    assert ours.wait_until_finish() == ours.wait_until_finish(100) == "CANCELLED"


def test_failure_is_raised_in_each_waiting_thread() -> None:
    until = threading.Event()
    ours = waiting(until, FAILED)
    with ThreadPoolExecutor(2) as pool:
        told = [pool.submit(ours.wait_until_finish) for _ in range(2)]
        until.set()
        for one in told:
            with pytest.raises(RuntimeError, match="job-1 failed in state FAILED"):
                one.result(60)
