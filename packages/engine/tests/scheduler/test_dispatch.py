"""Jobs of a host that has few places and asks the engine what runs in them next."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from beam_runner_engine.dispatch.waiting import WaitingBundles
from beam_runner_engine.scheduler.commands import OpenBundles

from .graphs import Job, jobs

STAND_BACK = 0.25


@given(job=jobs(), places=st.integers(1, 3), data=st.data())
def test_simulated_jobs_end_in_this_order(job: Job, places: int, data: st.DataObject) -> None:
    """A host with few places that runs whatever is next: all that is open is waiting or in a place."""
    host = job.host
    sources = {stage.name for stage in host.graph.stages if stage.splittable}
    waiting = WaitingBundles(lambda one: one.stage in sources, STAND_BACK)
    running: list[int] = []
    told = 0
    host.start(job.roots)
    for moment in range(400):
        opened = [
            one
            for answer in host.answers[told:]
            for command in answer
            if isinstance(command, OpenBundles)
            for one in command.bundles
        ]
        told = len(host.answers)
        waiting.add((one for one in opened if one.number in host.open), moment / 100)
        if host.end is not None:
            return
        while len(running) < places and len(waiting):
            running.append(waiting.take().number)
        in_line = sorted([*running, *(one.number for one in waiting)])
        assert in_line == sorted(host.open)
        if running:
            host.complete(running.pop(data.draw(st.integers(0, len(running) - 1))), most=3)
        else:
            assert host.scheduler.next_wake is not None
            host.tick(host.scheduler.next_wake)
    assert job.unbounded
