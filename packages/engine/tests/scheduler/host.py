"""Simulated caller of the scheduler (host), which executes commands in memory and creates events
from the results.

The host records committed data, processed elements and the state of each shard. After every event,
`promises` compares the scheduler's commands and watermarks with these records.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import attrs

from beam_runner_engine.scheduler.commands import (
    Bundle,
    CancelBundles,
    Command,
    FailJob,
    FinalizeBundles,
    FinishJob,
    Input,
    OpenBundles,
    ReleaseData,
    ReleaseState,
    RequestTick,
    SplitBundle,
)
from beam_runner_engine.scheduler.data import Data
from beam_runner_engine.scheduler.events import (
    AttemptsLost,
    BundleFailed,
    Event,
    FailureKind,
    Output,
    Progress,
    Redeliver,
    Residual,
    SectionRefused,
    SplitDone,
    Start,
    Tick,
)
from beam_runner_engine.scheduler.overtaking import WatermarkChecker
from beam_runner_engine.scheduler.policy import DefaultPolicy, SectionPolicy
from beam_runner_engine.scheduler.scheduler import Scheduler
from beam_runner_engine.scheduler.specs import (
    AddElements,
    GraphSpec,
    Limits,
)

from .failing import Failed, Paused
from .sections import SectionRunner
from .usercode import SHARDS, Behaviour, Element, Keep


class SimulatedHost(SectionRunner):
    """Simulated caller that executes the scheduler's commands, and creates events from the
    results.
    """

    def __init__(
        self,
        graph: GraphSpec,
        behaviours: dict[str, Behaviour],
        limits: Limits,
        late_sources: bool = False,
        section_policy: SectionPolicy | None = None,
    ) -> None:
        self.graph = graph
        self.behaviours = behaviours
        self.late_sources = late_sources
        self.limits = limits
        self.stages = {stage.name: stage for stage in graph.stages}
        self.section_policy = section_policy
        self.scheduler = self.new_scheduler()
        self.watch = WatermarkChecker()
        self.log: list[Event] = []
        self.answers: list[tuple[Command, ...]] = []
        self.open: dict[int, Bundle] = {}
        self.opened: dict[int, str] = {}
        """Stage of every bundle so far, except bundles of sections."""
        self.asked: dict[int, SplitBundle] = {}
        self.checkpointed: dict[int, set[int]] = {}
        self.whole: set[int] = set()
        self.paused: dict[int, Paused] = {}
        self.failed: dict[int, Failed] = {}
        self.now = 0
        self.wake: int | None = None
        self.next_ident = 0
        self.next_ref = 0
        self.committed: dict[str, dict[int, Element]] = {}
        self.redelivered: dict[str, list[Element]] = {}
        self.side_data: dict[str, list[Data]] = {}
        self.processed: dict[str, Counter[Any]] = {name: Counter() for name in self.stages}
        self.keeps: dict[tuple[str, int], Keep] = {}
        self.made: dict[int, Data] = {}
        self.released: set[int] = set()
        self.pieces: dict[int, set[int]] = {}
        """Data that was split off other data, whose storage the data shares."""
        self.done: list[int] = []
        self.finalized: list[int] = []
        self.finalizable: set[int] = set()
        self.end: FinishJob | FailJob | None = None
        self.watermarks: dict[str, tuple[int, int, int]] = {}

    def __repr__(self) -> str:
        return (
            f"SimulatedHost({self.graph}, {self.behaviours}, {self.limits}, {self.late_sources},"
            f" {self.section_policy})"
        )

    def new_scheduler(self) -> Scheduler:
        # Like a stream: half of an endless restriction can also be endless.
        bounded = not any(one.unbounded for one in self.behaviours.values())
        policy = DefaultPolicy(halves_restrictions=bounded)
        return Scheduler(self.graph, self.limits, policy, self.section_policy)

    # Input of the scheduler.

    def start(self, roots: dict[str, list[Element]]) -> None:
        outputs = tuple(
            output for name, elements in roots.items() for output in self.outputs(name, elements)
        )
        for output in outputs:
            self.note_committed(output)
            self.side_data.setdefault(output.collection, []).append(output.data)
        for stream in self.graph.test_streams:
            for step in stream.steps:
                if isinstance(step, AddElements):
                    self.note_committed(Output(step.collection, step.data))
        self.handle(Start(self.now, outputs))

    def note_committed(self, output: Output) -> None:
        known = self.committed.setdefault(output.collection, {})
        for element in output.data.ref.elements:
            assert element.ident not in known
            known[element.ident] = element

    def redeliver(self, name: str, like: Element) -> None:
        """Gives one stage an element with the time and the windows of another element."""
        element = self.element(like.time, like.windows)
        self.redelivered.setdefault(name, []).append(element)
        shard = element.ident % SHARDS if self.stages[name].is_keyed else None
        self.handle(Redeliver(name, (self.data((element,), shard),)))

    # All events pass through this method.

    def handle(self, event: Event) -> tuple[Command, ...]:
        commands = self.watch.handle_event(self.scheduler, event)
        assert self.watch.take_violations() == []
        self.log.append(event)
        self.answers.append(commands)
        self.check_watermarks()
        for command in commands:
            self.carry_out(command)
        self.check_open()
        return commands

    def carry_out(self, command: Command) -> None:
        assert self.end is None or isinstance(command, ReleaseData)
        match command:
            case OpenBundles(stage, bundles):
                for bundle in bundles:
                    self.check_opened(stage, bundle)
                    self.begin_attempt(bundle)
                    self.opened[bundle.number] = "" if bundle.parts else stage
            case SplitBundle(number, attempt, _):
                assert self.open[number].attempt == attempt
                assert not self.open[number].parts, "a section is split"
                self.asked[number] = command
            case CancelBundles(bundles):
                assert {(one.number, one.attempt) for one in self.open.values()} >= set(bundles)
                self.open.clear()
            case FinalizeBundles(numbers):
                assert set(numbers) <= set(self.done), "finalized before the commit"
                self.finalized.extend(numbers)
            case RequestTick(time):
                self.wake = time
            case ReleaseState(stage):
                assert self.scheduler.create_stage_report(stage).complete
                assert all(keep == Keep() for key, keep in self.keeps.items() if key[0] == stage)
            case ReleaseData(data):
                for one in data:
                    self.check_release(one)
            case FinishJob() | FailJob():
                self.end = command
                self.open.clear()
                self.asked.clear()
                self.paused.clear()

    def begin_attempt(self, bundle: Bundle) -> None:
        self.open[bundle.number] = bundle
        self.checkpointed.pop(bundle.number, None)
        self.whole.discard(bundle.number)
        if all(one.whole or one.truncate for one in bundle.inputs):
            self.whole.add(bundle.number)

    def check_opened(self, stage: str, bundle: Bundle) -> None:
        earlier = self.open.get(bundle.number)
        paused = self.paused.pop(bundle.number, None)
        if paused is not None:
            self.check_resumed(paused, bundle)
        elif earlier is not None:
            assert bundle.attempt == earlier.attempt + 1
            assert bundle.parts == earlier.parts
        elif bundle.parts:
            self.check_section_opening(bundle)
        else:
            self.check_opening(stage, bundle)

    # Events of bundles.

    def complete(self, number: int, most: int = 2) -> None:
        bundle = self.open[number]
        if bundle.parts:
            self.complete_section(bundle, most)
            return
        result = self.run(bundle, most)
        self.check_on_time(bundle.stage, result)
        del self.open[number]
        self.asked.pop(number, None)
        self.done.append(number)
        if result.event.finalize:
            self.finalizable.add(number)
        self.processed[bundle.stage].update(result.processed)
        if result.keep is not None:
            assert bundle.shard is not None
            self.keeps[bundle.stage, bundle.shard] = result.keep
        for output in result.event.outputs:
            self.note_committed(output)
            self.side_data.setdefault(output.collection, []).append(output.data)
        self.handle(result.event)

    def complete_section(self, bundle: Bundle, most: int) -> None:
        """Commits a section (stages that run as one bundle), or refuses the section if its stages
        can't run as one bundle.
        """
        result = self.run_section(bundle, most)
        del self.open[bundle.number]
        if isinstance(result, SectionRefused):
            self.handle(result)
            return
        self.done.append(bundle.number)
        if result.event.finalize:
            self.finalizable.add(bundle.number)
        for stage, one in result.results:
            self.check_on_time(stage, one)
            self.processed[stage].update(one.processed)
            for output in one.event.outputs:
                self.note_committed(output)
                self.side_data.setdefault(output.collection, []).append(output.data)
        self.handle(result.event)

    def refuse(self, number: int) -> None:
        bundle = self.open.pop(number)
        self.handle(SectionRefused(number, bundle.attempt, "it can't be placed"))

    def fail(self, number: int, kind: FailureKind) -> None:
        bundle = self.open[number]
        self.asked.pop(number, None)
        pause = self.failed.setdefault(number, Failed()).pause(
            kind, self.limits, self.scheduler.now, scripted=self.scheduler.state.scripted_clock
        )
        if pause:
            self.paused[number] = Paused(self.open.pop(number), self.scheduler.now + pause)
        self.handle(BundleFailed(number, bundle.attempt, f"cause {len(self.log)}", kind))
        if pause is None:
            assert isinstance(self.end, FailJob), "tried beyond the last attempt"
        elif not pause and self.end is None:
            assert self.open[number].attempt == bundle.attempt + 1

    def lose(self) -> None:
        """Loses all running attempts, and restarts."""
        self.asked.clear()
        self.handle(AttemptsLost())

    def progress(self, number: int, fraction: float, elapsed: int) -> None:
        self.handle(Progress(number, self.open[number].attempt, fraction, elapsed))

    def answer_split(self, number: int, keep: int, done: int = 1) -> None:
        """Splits a bundle after `keep` inputs, and splits the next input in two. A checkpoint
        leaves `done` positions.
        """
        bundle, asked = self.open[number], self.asked.pop(number)
        keyed = self.stages[bundle.stage].is_keyed
        cut = self.cut_between_shards(bundle, keep) if keyed else min(keep, len(bundle.inputs))
        primary = list(bundle.inputs[:cut])
        residuals = [self.residual_of(one) for one in bundle.inputs[cut:]]
        if primary and not keyed:
            first, rest = self.cut_input(bundle, primary.pop(), asked.fraction, done)
            primary.append(first)
            residuals += [] if rest is None else [rest]
        event = SplitDone(number, asked.attempt, tuple(primary), tuple(residuals))
        if residuals:
            self.open[number] = attrs.evolve(bundle, inputs=tuple(primary))
            before = {one.data.ref.number for one in bundle.inputs}
            parts: tuple[Input | Residual, ...] = (*primary, *residuals)
            for part in parts:
                if part.data.ref.number not in before:
                    for origin in before:
                        self.pieces.setdefault(origin, set()).add(part.data.ref.number)
        self.handle(event)

    def cut_between_shards(self, bundle: Bundle, keep: int) -> int:
        """Returns the number of inputs that the bundle keeps together with `keep` of its shards."""
        kept = list(dict.fromkeys(one.data.facts.shard for one in bundle.inputs))[:keep]
        return sum(one.data.facts.shard in kept for one in bundle.inputs)

    def residual_of(self, one: Input) -> Residual:
        return Residual(
            one.data,
            windows=one.windows,
            estimator_state=one.estimator_state,
            untouched=True,
            whole=one.whole,
        )

    def cut_input(
        self, bundle: Bundle, one: Input, fraction: float, done: int
    ) -> tuple[Input, Residual | None]:
        """Splits an input between its elements, or splits the restriction of its only element."""
        elements, shard = one.data.ref.elements, one.data.facts.shard
        if len(elements) > 1:
            first = self.data(elements[:1], shard)
            rest = self.data(elements[1:], shard)
            return (
                attrs.evolve(one, data=first),
                attrs.evolve(self.residual_of(one), data=rest),
            )
        spec = self.stages[bundle.stage]
        if not spec.splittable:
            return one, None
        (element,) = elements
        high = self.length(spec.name, element) if element.high is None else element.high
        if one.truncate:
            high = self.truncated(self.behaviours[spec.name], element.low, high)
        cut = element.low + (int((min(high, element.low + 8) - element.low) * fraction) or done)
        if cut >= high:
            return one, None
        first = self.data((attrs.evolve(element, high=cut),), shard)
        rest = self.data((attrs.evolve(element, low=cut, high=high),), shard)
        if fraction:
            self.whole.add(bundle.number)
        else:
            self.checkpointed.setdefault(bundle.number, set()).add(first.ref.number)
        watermark, whole = self.stamp(element, cut), one.whole or one.truncate
        return (
            attrs.evolve(one, data=first, truncate=False, whole=True),
            Residual(rest, watermark=watermark, windows=one.windows, whole=whole),
        )

    def tick(self, now: int) -> None:
        self.now = max(self.now, now)
        self.handle(Tick(now))

    def run_to_end(self, most_steps: int) -> None:
        """Completes running bundles and advances time until the job ends."""
        for _ in range(most_steps):
            if self.end is not None:
                return
            if self.open:
                self.complete(next(iter(self.open)), most=3)
            else:
                assert self.scheduler.next_wake is not None, "nothing moves and nobody says why"
                assert self.wake == self.scheduler.next_wake
                self.tick(self.wake)
        raise AssertionError(
            f"no end after {most_steps} steps: {self.scheduler.list_wait_reasons()}"
        )
