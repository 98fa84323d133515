"""Property tests: an endless source commits as often as the policy requires, independent of other
requests.
"""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from beam_runner_engine.scheduler.commands import Command, SplitBundle
from beam_runner_engine.scheduler.events import (
    BundleDone,
    Output,
    Progress,
    Residual,
    SplitDone,
    Start,
    Tick,
    YieldRequested,
)
from beam_runner_engine.scheduler.policy import DefaultPolicy
from beam_runner_engine.scheduler.scheduler import Scheduler
from beam_runner_engine.scheduler.specs import GraphSpec, Limits, StageSpec

from .samples import data

EVERY_MS, TOLD_EVERY_MS = 500, 100
READ = GraphSpec((StageSpec("read", ("root",), splittable=True),), ("root",))

turns = st.lists(
    st.tuples(
        st.sampled_from([0.0, 1e-18, 0.1, 0.5, 1.0]),  # Reported fraction.
        st.booleans(),  # Whether other bundles wait for the slot.
        st.integers(0, 3),  # Number of reports before a split is answered.
        st.integers(0, 2),  # Number of rejected checkpoints before a checkpoint succeeds.
        st.booleans(),  # Whether the bundle lingers.
    ),
    min_size=1,
    max_size=6,
)


class Host:
    """Simulated caller that runs one endless bundle after another, with a progress report every 100
    ms.

    Its restriction trackers can't split at fractions.
    """

    def __init__(self, idle: int) -> None:
        policy = DefaultPolicy(checkpoint_after=EVERY_MS)
        self.scheduler = Scheduler(READ, Limits(parallelism=1 + idle), policy)
        self.handle(Start(roots=(Output("root", data("a")),)))
        self.now = 0

    def handle(self, event: object) -> tuple[Command, ...]:
        return self.scheduler.handle_event(event)  # type: ignore[arg-type]

    def turn(
        self,
        fraction: float,
        gives_way: bool,
        answered_after: int,
        refusals: int,
        lingers: bool,
    ) -> tuple[int, int]:
        """Returns the times (ms after the start) of the first checkpoint request and of the
        successful checkpoint.
        """
        (bundle,) = self.scheduler.open_bundles
        me = (bundle.number, bundle.attempt)
        first, asked, waited = None, None, 0
        for elapsed in range(TOLD_EVERY_MS, 100_000, TOLD_EVERY_MS):
            self.now += TOLD_EVERY_MS
            commands = [*self.handle(Tick(self.now))]
            if asked is not None:
                waited += 1
                if waited > answered_after:
                    kept, asked, waited = asked, None, 0
                    if kept == 0.0 and not refusals:
                        self.grant(me)
                        assert first is not None
                        return first, elapsed
                    refusals -= kept == 0.0
                    commands += self.handle(SplitDone(*me))
            if gives_way:
                commands += self.handle(YieldRequested(*me))
            commands += self.handle(Progress(*me, fraction, elapsed, lingers=lingers))
            for command in commands:
                if isinstance(command, SplitBundle):
                    asked = command.fraction
                    if asked == 0.0 and first is None:
                        first = elapsed
        raise AssertionError("nothing was committed")

    def grant(self, me: tuple[int, int]) -> None:
        (bundle,) = self.scheduler.open_bundles
        rest = Residual(data(f"rest of {bundle.number}"))
        self.handle(SplitDone(*me, bundle.inputs, (rest,)))
        self.handle(BundleDone(*me))


@given(idle=st.integers(0, 3), turns=turns)
def test_bundle_of_an_endless_source_is_checkpointed_within_the_policy_limit(
    idle: int, turns: list[tuple[float, bool, int, int, bool]]
) -> None:
    host = Host(idle)
    for turn in turns:
        _, _, answered_after, refusals, _ = turn
        first, granted = host.turn(*turn)
        # A pending split is answered first.
        assert first <= EVERY_MS + (answered_after + 1) * TOLD_EVERY_MS
        # Each rejection takes an answer, and the next report requests again.
        assert granted <= first + (refusals + 1) * (answered_after + 2) * TOLD_EVERY_MS


def test_waiting_bundle_of_a_source_with_output_is_checkpointed_immediately() -> None:
    host = Host(idle=3)
    (bundle,) = host.scheduler.open_bundles
    told = Progress(bundle.number, 1, 0.1, 50)
    assert [c for c in host.handle(told) if isinstance(c, SplitBundle) and c.fraction == 0.0] == []
    host = Host(idle=3)
    told = Progress(bundle.number, 1, 0.1, 50, lingers=True)
    assert host.handle(told) == (SplitBundle(bundle.number, 1, 0.0),)
