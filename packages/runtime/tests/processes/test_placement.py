"""Tests of the placement (starter of worker processes) for local processes, in addition to the
tests of all placements.
"""

from __future__ import annotations

import os
import queue
import signal
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from beam_runner_engine.scheduler.commands import Bundle
from beam_runner_model.errors import Unavailable
from beam_runner_worker.process_tree import list_children
from job_server import wait_until
from placed_jobs import SECONDS, PlacedJobs, served
from processes import parent_process
from waiting import wait_until_gone

from beam_runner_runtime.channel.attempts import Attempt, SectionRefusal
from beam_runner_runtime.channel.messages import RunBundle
from beam_runner_runtime.processes.placement import ProcessPlacement
from beam_runner_runtime.sections.ends import SectionEnd

SLOTS = 2


@pytest.fixture
def placement(monkeypatch: pytest.MonkeyPatch) -> Iterator[ProcessPlacement]:
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(sys.path))
    placement = ProcessPlacement(cores=1)
    placement.slots = SLOTS
    placement.start()
    yield placement
    placement.stop()


@pytest.fixture
def place(placement: ProcessPlacement, tmp_path: Path) -> Iterator[PlacedJobs]:
    with served(placement) as jobs:
        yield PlacedJobs(placement, jobs, tmp_path)


def test_lane_waits_for_free_slot(place: PlacedJobs) -> None:
    job = place.job("waits")
    links = [job.open(number) for number in range(SLOTS)]
    job.start(SLOTS)
    with pytest.raises(queue.Empty):
        job.opened.get(timeout=0.5)
    job.close(0, links[0])
    job.close(SLOTS, job.next_opened(SLOTS))


def test_lane_waiting_for_slot_is_cancelled_without_process(place: PlacedJobs) -> None:
    other, job = place.job("other"), place.job("waits")
    for number in range(SLOTS):
        other.open(number)
    job.start(0)
    job.placed.cancel()
    assert job.ended.get(timeout=SECONDS) == (0, "")
    assert other.ended.empty()


def test_placement_does_not_wait_for_exited_process(
    placement: ProcessPlacement, place: PlacedJobs
) -> None:
    """A wait would delay the response by 20 s, and with it the shutdown of the server."""
    (number,) = placement._workers
    asked = threading.Thread(target=placement.get_standby_order, args=(number,))
    asked.start()
    placement._children.kill_worker(number)
    asked.join(10)
    assert not asked.is_alive()


def test_placement_leaves_no_process_after_stop(
    placement: ProcessPlacement, place: PlacedJobs
) -> None:
    worker = place.job("job").open(0).hello.pid
    started = [worker, parent_process(worker), parent_process(parent_process(worker))]
    assert parent_process(started[-1]) == os.getpid()
    placement.stop()
    for pid in started:
        wait_until_gone(pid)
    assert not placement.is_alive
    placement.stop()  # does nothing


@pytest.mark.parametrize("of_parent", [False, True], ids=["parent", "its reaper"])
def test_lost_fork_server_is_restarted(
    placement: ProcessPlacement, place: PlacedJobs, of_parent: bool
) -> None:
    """Workers of the new fork server serve the lost lanes."""
    job = place.job("job")
    for _ in range(2):
        worker = job.open(0).hello.pid
        lost = parent_process(parent_process(worker)) if of_parent else parent_process(worker)
        os.kill(lost, signal.SIGKILL)
        again = job.next_opened(0)
        wait_until_gone(worker)
        assert lost not in (
            parent_process(again.hello.pid),
            parent_process(parent_process(again.hello.pid)),
        )
        assert placement.is_alive and job.placed.is_alive
        job.close(0, again)


def test_workers_requested_from_lost_fork_server_are_started(
    placement: ProcessPlacement, place: PlacedJobs
) -> None:
    other, job = place.job("other"), place.job("job")
    os.kill(parent_process(other.open(0).hello.pid), signal.SIGKILL)
    job.start(0)
    job.next_opened(0)
    other.next_opened(0)


def test_fork_server_killed_during_start_is_restarted(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(sys.path))
    before = set(list_children(os.getpid()))
    placement = ProcessPlacement(cores=1)
    starting = threading.Thread(target=placement.start)
    starting.start()
    try:
        wait_until(lambda: set(list_children(os.getpid())) - before, SECONDS, "a parent is started")
        for pid in set(list_children(os.getpid())) - before:
            os.kill(pid, signal.SIGKILL)
        starting.join(SECONDS)
        assert placement.is_alive
        with served(placement) as jobs:
            PlacedJobs(placement, jobs, tmp_path).job("job").open(0)
    finally:
        placement.stop()


def test_sections_are_refused_so_that_their_stages_run_separately() -> None:
    told: list[SectionEnd] = []
    order = RunBundle(Bundle(7, 2, "stage", None, (), (), 0, 0, 0, 0), "name")
    job = ProcessPlacement(cores=1).create_job_placement("job", "name")
    work: Any = "of the job"
    job.start_section(order, work, "A to B", told.append)
    (refusal,) = told
    assert isinstance(refusal, SectionRefusal)
    assert refusal.attempt == Attempt(7, 2)
    assert not job.handle_section_message(refusal), "it never is about one that runs"


def test_placement_can_be_killed_during_start() -> None:
    placement = ProcessPlacement(cores=1)
    killer = threading.Timer(0.3, placement.kill)
    killer.start()
    with pytest.raises(Unavailable, match="did not start"):
        placement.start()
    wait_until(lambda: not placement.is_alive, SECONDS, "it ends")


def test_placement_that_does_not_start_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/bin/false")
    text = "did not start: it ended with exit code 1, 3 times before it was ready"
    with pytest.raises(Unavailable, match=text):
        ProcessPlacement(cores=1).start()
