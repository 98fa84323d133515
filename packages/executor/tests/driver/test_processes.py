"""The worker processes of a job are told to end, waited for, and never forgotten."""

from __future__ import annotations

import pickle
import threading
import time
from typing import Any

import pytest

from beam_spark_executor.channel.messages import (
    Abort,
    EndJob,
    ExternalWorkerStarted,
    Hello,
    TearDown,
)
from beam_spark_executor.channel.server import WorkerLink
from beam_spark_executor.driver import processes
from beam_spark_executor.driver.processes import JobProcesses


def link(pid: int) -> WorkerLink:
    return WorkerLink(Hello("job", "host", pid))


def told(worker: WorkerLink) -> list[Any]:
    worker.close()
    return [pickle.loads(command) for command in worker.commands()]


def test_without_processes_the_end_is_at_once() -> None:
    started = time.monotonic()
    assert JobProcesses().end(abort=False, seconds=600)
    assert time.monotonic() - started < 60


@pytest.mark.parametrize(("abort", "command"), [(False, EndJob()), (True, Abort())])
def test_every_process_is_told_and_waited_for(abort: bool, command: Any) -> None:
    ours = JobProcesses()
    workers = [link(1), link(2)]
    for worker in workers:
        ours.attached(worker)
    goers = [threading.Timer(0.1, ours.detached, (worker,)) for worker in workers]
    for goer in goers:
        goer.start()
    assert ours.end(abort=abort, seconds=5)
    assert [told(worker) for worker in workers] == [[command], [command]]


def test_processes_can_tear_down_before_they_are_to_end() -> None:
    ours = JobProcesses()
    worker = link(1)
    ours.attached(worker)
    ours.tear_down()
    threading.Timer(0.1, ours.detached, (worker,)).start()
    assert ours.end(abort=False, seconds=5)
    assert told(worker) == [TearDown(), EndJob()]


def test_a_process_that_stays_is_reported() -> None:
    ours = JobProcesses()
    ours.attached(link(1))
    assert not ours.end(abort=False, seconds=0.05)


def test_a_process_that_comes_late_is_sent_away() -> None:
    ours = JobProcesses()
    ours.end(abort=False, seconds=1)
    late = link(3)
    ours.attached(late)
    assert told(late) == [Abort()]


def test_workers_outside_are_stopped_once(monkeypatch: pytest.MonkeyPatch) -> None:
    stopped: list[tuple[str, str]] = []
    monkeypatch.setattr(
        processes,
        "stop_external_worker",
        lambda endpoint, worker, *_: stopped.append((endpoint, worker)),
    )
    ours = JobProcesses()
    worker = link(1)
    ours.attached(worker)
    ours.external_worker(worker, ExternalWorkerStarted("pool:1", "sdk-1"))
    ours.detached(worker)  # killed before it could stop its SDK itself
    assert ours.end(abort=False, seconds=1)
    ours.end(abort=True, seconds=1)
    assert stopped == [("pool:1", "sdk-1")]
