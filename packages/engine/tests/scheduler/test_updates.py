"""Property tests of updates: random histories of random jobs, with edits of their graphs.

The default is 100 histories; `BEAM_ENGINE_RUNS=10000` sets more. A failure prints the seed of
its history.
"""

from __future__ import annotations

import os
from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from beam_runner_engine.scheduler import transfer
from beam_runner_engine.scheduler.commands import FinishJob
from beam_runner_engine.scheduler.events import (
    Abort,
    BundleDone,
    Cancel,
    Drain,
    FailureKind,
    Hold,
)
from beam_runner_engine.scheduler.transitions import Phase as JobPhase

from .lineages import Lineage
from .mutations import MUTATIONS, ROOT_MUTATIONS
from .updated_host import Edit, Mutation, UpdatedHost

MUTATED_HISTORIES = 300
RUNS = int(os.environ.get("BEAM_ENGINE_RUNS", "100"))
FAILURES = (FailureKind.USER, FailureKind.OUTSIDE, FailureKind.UNAVAILABLE)
ACTIONS = {
    "complete": 8,
    "progress": 3,
    "split": 2,
    "tick": 3,
    "fail": 2,
    "hold": 1,
    "update": 3,
    "lose": 0.3,
    "drain": 0.15,
    "restart": 0.4,
}


class History:
    """Random history of one job: bundles, failures, time and updates in random order."""

    def __init__(self, seed: int, mutation: Mutation | None = None) -> None:
        self.random = Random(seed)
        self.mutation = mutation
        self.lineage = Lineage(self.random)
        self.host: UpdatedHost = self.lineage.host

    def run(self) -> None:
        host = self.host
        host.start(self.lineage.roots)
        steps = self.random.randint(10, 80)
        for action in self.random.choices(list(ACTIONS), list(ACTIONS.values()), k=steps):
            if host.end is None:
                getattr(self, action)()
        if host.end is None:
            host.handle(Hold())
        endless = any(host.behaviours[name].unbounded for name in host.stages)
        if host.end is None and (endless or self.random.random() < 0.3):
            host.handle(Drain())
        host.run_to_end(3_000)
        assert isinstance(host.end, FinishJob)
        host.check_end()

    def pick(self) -> int | None:
        return self.random.choice(sorted(self.host.open)) if self.host.open else None

    def complete(self) -> None:
        number = self.pick()
        if number is not None:
            self.host.complete(number, self.random.randint(1, 3))

    def progress(self) -> None:
        number = self.pick()
        if number is not None:
            fraction, elapsed = (
                self.random.choice((0.1, 0.5)),
                self.random.choice((0, 5_000, 20_000)),
            )
            self.host.progress(number, fraction, elapsed)

    def split(self) -> None:
        if self.host.asked:
            number = self.random.choice(sorted(self.host.asked))
            self.host.answer_split(number, self.random.randint(0, 2))

    def tick(self) -> None:
        self.host.tick(self.host.now + self.random.randint(0, 6))

    def fail(self) -> None:
        number = self.pick()
        if number is not None:
            self.host.fail(number, self.random.choice(FAILURES))

    def hold(self) -> None:
        names = [stage.name for stage in self.host.graph.stages if stage.splittable]
        self.host.handle(Hold(tuple(names) if self.random.random() < 0.6 else ()))

    def update(self) -> None:
        edit = self.lineage.draw_edit()
        number = self.pick()
        if edit is None:
            return
        late = None if number is None else BundleDone(number, self.host.open[number].attempt)
        if self.host.update(edit, self.mutation) and late is not None and self.host.end is None:
            assert self.host.scheduler.handle_event(late) == (), "a bundle was given up"

    def lose(self) -> None:
        self.host.lose()

    def drain(self) -> None:
        self.host.handle(Drain())

    def restart(self) -> None:
        """Cancels the job, or lets it fail, and continues from its last state."""
        if self.host.scheduler.phase is JobPhase.RUNNING:
            self.host.handle(self.random.choice((Cancel(), Abort("lost"))))
            self.host.end = None
            assert self.host.update(Edit(self.host.graph), self.mutation)


@pytest.mark.timeout(120 + RUNS)
@settings(
    max_examples=RUNS,
    phases=(Phase.explicit, Phase.reuse, Phase.generate),
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
@given(seed=st.integers(0, 2**63))
def test_updated_job_loses_and_repeats_no_element(seed: int) -> None:
    History(seed).run()


def is_caught(mutation: Mutation | None) -> bool:
    """Returns whether a check fails in one of the first histories."""
    for seed in range(MUTATED_HISTORIES):
        try:
            History(seed, mutation).run()
        except AssertionError:
            return True
    return False


@pytest.mark.parametrize("mutation", MUTATIONS.values(), ids=MUTATIONS)
def test_update_check_detects_a_transfer_that_loses_a_part_of_the_state(mutation: Mutation) -> None:
    assert is_caught(mutation)


@pytest.mark.parametrize("delivery", ROOT_MUTATIONS.values(), ids=ROOT_MUTATIONS)
def test_update_check_detects_a_transfer_that_delivers_wrong_root_data(
    delivery: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transfer, "_deliver_root_data", delivery)
    assert is_caught(None)
