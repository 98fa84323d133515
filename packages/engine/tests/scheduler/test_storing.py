"""Tests that a scheduler continues in another process, from a pickle of the scheduler or from the
stored state.
"""

from __future__ import annotations

import pickle

import pytest

from beam_runner_engine.scheduler.events import BundleDone, Output, Start
from beam_runner_engine.scheduler.scheduler import Scheduler
from beam_runner_engine.scheduler.specs import GraphSpec, StageSpec

from .samples import data


def running() -> Scheduler:
    scheduler = Scheduler(GraphSpec((StageSpec("a", ("r",)),), ("r",)))
    scheduler.handle_event(Start(roots=(Output("r", data("d")),)))
    return scheduler


@pytest.mark.parametrize(
    "elsewhere",
    [
        lambda one: pickle.loads(pickle.dumps(one)),
        lambda one: Scheduler.from_state(pickle.loads(pickle.dumps(one.state))),
    ],
    ids=["pickled", "as its state"],
)
def test_restored_scheduler_handles_the_same_events(elsewhere: object) -> None:
    scheduler = running()
    again = elsewhere(scheduler)  # type: ignore[operator]
    assert again.open_bundles == scheduler.open_bundles
    assert again.handle_event(BundleDone(0, 1)) == scheduler.handle_event(BundleDone(0, 1))
