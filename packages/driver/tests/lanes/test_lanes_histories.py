"""Tests that no event of a lane (worker slot) loses a bundle or assigns a bundle twice."""

from __future__ import annotations

from typing import Any

from beam_runner_engine.scheduler.commands import Bundle
from beam_runner_runtime.channel.attempts import Attempt
from fake_links import LOOP, FakeLink, bundle, given, opened
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from beam_runner_driver.lanes.lanes import LaneDispatcher
from beam_runner_driver.lanes.lost_work import LostWork
from beam_runner_driver.lanes.slots import ClusterSlots, JobSlots


def order(one: Bundle) -> Any:
    return one


class AnyHistory(RuleBasedStateMachine):
    """A state machine in which each bundle waits, runs in one process, has a reply, or was returned."""

    def __init__(self) -> None:
        super().__init__()
        self.started: list[int] = []
        self.open: dict[int, FakeLink] = {}
        self.next = 0
        self.out: set[int] = set()

    @initialize(cores=st.integers(1, 3), more=st.integers(0, 2))
    def begin(self, cores: int, more: int) -> None:
        self.most = cores + more
        self.lanes: Any = LaneDispatcher(
            self.started.append,
            order,
            lambda: LOOP,
            cores,
            self.most,
            JobSlots(ClusterSlots(), "job"),
        )

    @rule(count=st.integers(1, 4))
    def run(self, count: int) -> None:
        bundles = [bundle(self.next + n) for n in range(count)]
        self.out |= {one.number for one in bundles}
        self.next += count
        self.lanes.queue_bundles(bundles)

    def give_back(self, loss: LostWork) -> None:
        if loss.bundle is not None:
            assert loss.bundle.number in self.out
            self.out.discard(loss.bundle.number)

    @precondition(lambda self: set(self.started) - set(self.open))
    @rule(pick=st.randoms(use_true_random=False))
    def open_one(self, pick: Any) -> None:
        number = pick.choice(sorted(set(self.started) - set(self.open)))
        self.open[number] = FakeLink()
        self.give_back(opened(self.lanes, number, self.open[number]))

    @precondition(lambda self: self.open)
    @rule(pick=st.randoms(use_true_random=False), how=st.sampled_from(["loss", "end", "retry"]))
    def break_one(self, pick: Any, how: str) -> None:
        number = pick.choice(sorted(self.open))
        link = self.open.pop(number)
        if how == "loss":
            self.give_back(self.lanes.handle_process_exit(link))
        elif how == "end":
            self.started.remove(number)
            self.give_back(self.lanes.handle_lane_end(number))
            self.give_back(self.lanes.handle_process_exit(link))
        else:
            self.open[number] = FakeLink()
            self.give_back(opened(self.lanes, number, self.open[number]))
            self.give_back(self.lanes.handle_process_exit(link))
        self.lanes.assign_bundles()

    @precondition(lambda self: any(given(link) for link in self.open.values()))
    @rule(pick=st.randoms(use_true_random=False))
    def answer(self, pick: Any) -> None:
        link = pick.choice([link for link in self.open.values() if given(link)])
        number = given(link)[-1]
        self.lanes.record_bundle_end(link, Attempt(number, 1))
        self.out.discard(number)
        self.lanes.assign_bundles()

    @invariant()
    def nothing_is_lost(self) -> None:
        if not hasattr(self, "lanes"):
            return
        waiting = {one.number for one in self.lanes._waiting}
        at_work = {
            number
            for link in self.open.values()
            for number in given(link)[-1:]
            if self.lanes.find_process(Attempt(number, 1)) is link
        }
        assert self.out == waiting | at_work
        assert not waiting & at_work
        assert len(self.lanes._lanes) <= self.most
        if waiting:
            assert len(self.lanes._lanes) >= 1


TestAnyHistory = AnyHistory.TestCase
TestAnyHistory.settings = settings(max_examples=60, stateful_step_count=40)
