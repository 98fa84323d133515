"""Tests of the observations of a job: its running bundles, and the stacks of its workers."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import patch

import attrs
from beam_runner_model.observation import BundleProcessKind, Execution, StackFrame, ThreadStack
from beam_runner_model.waits import Wait, WaitKind
from beam_runner_runtime.channel.attempts import Attempt
from beam_runner_runtime.channel.messages import (
    BundleProgressed,
    DumpStacks,
    StackDump,
    WorkerHello,
)
from beam_runner_runtime.channel.server import WorkerLink
from beam_runner_runtime.shutdown.limits import LIMITS
from small_jobs import rig_of

from beam_runner_driver.reports import observing as module
from beam_runner_driver.reports.observing import ASKED_SECONDS, JobSnapshots

STACK = ThreadStack("host", 1, "main", (StackFrame("a.py", 3, "f"),))


def test_observed_running_bundle_has_its_process(tmp_path: Path) -> None:
    rig = rig_of(tmp_path)
    observing = JobSnapshots(rig.plan, tuple, lambda: "http://spark")
    rig.open_lanes()
    observing.take_snapshot(rig.coordinator, (), 0.0)
    (bundle,) = observing.get_latest_execution().bundles
    (lane,) = rig.coordinator.lanes.list_busy_lanes()
    assert lane.link is not None
    assert (bundle.stage, bundle.attempt, bundle.steps) == ("read", 1, ("the read step",))
    assert (bundle.host, bundle.pid) == (lane.link.hello.host, lane.link.hello.pid)
    assert bundle.silent == 0.0
    assert observing.get_latest_execution().interface == "http://spark"
    lane.link.heard = time.monotonic() - LIMITS.silent_seconds - 3
    observing.take_snapshot(rig.coordinator, (), 0.0)
    (bundle,) = observing.get_latest_execution().bundles
    assert bundle.silent >= LIMITS.silent_seconds + 3
    rig.run()
    observing.take_snapshot(rig.coordinator, (), 0.0)
    assert observing.get_latest_execution().bundles == ()


def test_observed_bundle_whose_harness_starts_is_reported_as_waiting(tmp_path: Path) -> None:
    rig = rig_of(tmp_path)
    stages = {name: attrs.evolve(one, embedded=False) for name, one in rig.plan.stages.items()}
    observing = JobSnapshots(attrs.evolve(rig.plan, stages=stages), tuple, str)
    rig.open_lanes()
    (lane,) = rig.coordinator.lanes.list_busy_lanes()
    assert lane.link is not None
    assert lane.running is not None
    attempt = Attempt.from_bundle(lane.running)
    for starts, where in (
        (True, BundleProcessKind.STARTING_HARNESS),
        (False, BundleProcessKind.HARNESS),
    ):
        rig.coordinator.handle_message(
            lane.link, BundleProgressed(attempt, 0.0, 7, (), starts=starts)
        )
        observing.take_snapshot(rig.coordinator, (), 0.0)
        (bundle,) = observing.get_latest_execution().bundles
        assert bundle.where is where


def test_job_observations_are_collected_on_request(tmp_path: Path) -> None:
    observing = JobSnapshots(rig_of(tmp_path).plan, tuple, str)
    assert not observing.has_recent_request
    observing.get_latest_execution()
    assert observing.has_recent_request
    later = module.time.monotonic() + ASKED_SECONDS + 1
    with patch.object(module.time, "monotonic", lambda: later):
        assert not observing.has_recent_request


def test_job_observations_of_first_request_are_taken_after_it(tmp_path: Path) -> None:
    rig = rig_of(tmp_path)
    observing = JobSnapshots(rig.plan, tuple, str)
    rig.open_lanes()
    observing.take_snapshot(rig.coordinator, (), 0.0)
    rig.run()
    ended = threading.Event()

    def run_rounds() -> None:
        while not ended.wait(0.01):
            if observing.has_recent_request:
                observing.take_snapshot(rig.coordinator, (), 0.0)

    thread = threading.Thread(target=run_rounds, daemon=True)
    assert observing.get_latest_execution().bundles
    later = module.time.monotonic() + 2
    with observing.renew(), patch.object(module.time, "monotonic", lambda: later):
        thread.start()
        assert observing.get_latest_execution().bundles == ()
    ended.set()
    thread.join(10)


def test_job_observations_of_blocked_thread_are_answered_within_limit(tmp_path: Path) -> None:
    rig = rig_of(tmp_path)
    observing = JobSnapshots(rig.plan, tuple, str)
    wait = Wait(WaitKind.NEIGHBOUR, neighbour="the disk")
    with patch.object(module, "_RENEWAL_SECONDS", 0.05), observing.renew():
        assert observing.get_latest_execution() == Execution()
        observing.publish_wait_reason(wait)
    with patch.object(module, "_RENEWAL_SECONDS", 600.0):
        with observing.renew():
            assert observing.get_latest_execution().waits == (wait,)
        observing.publish_wait_reason(None)
        assert observing.get_latest_execution().waits == ()


def test_observed_stacks_come_from_responding_processes(tmp_path: Path) -> None:
    links = [WorkerLink(WorkerHello("job", "host", number)) for number in range(2)]
    observing = JobSnapshots(rig_of(tmp_path).plan, lambda: links, str)

    def answer() -> Iterator[None]:
        while True:
            request = links[0]._commands.get()
            assert isinstance(request, DumpStacks)
            observing.handle_stacks(links[0], StackDump(request.request - 1, (STACK, STACK)))
            observing.handle_stacks(links[0], StackDump(request.request, (STACK,)))
            yield

    answering = answer()
    thread = threading.Thread(target=lambda: next(answering), daemon=True)
    thread.start()
    with patch.object(module, "_STACKS_SECONDS", 0.3):
        assert observing.collect_stacks() == (STACK,)
    thread.join(10)
