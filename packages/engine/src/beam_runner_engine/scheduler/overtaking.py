"""The check that no watermark overtakes data: for simulations, and to debug a host.

A watermark promises a reader that it has seen all that is earlier, but for what was late at its source.
Data keeps the promise by two rules, which hold for any user code:

- A stage reads at no later time than any stage is at that writes for it. So what a stage puts out at
  or after its own output watermark is on time for its readers. What it puts out before that was late
  already, or user code has moved it back.
- Data that was on time when it was handed on is on time in the bundle that reads it.
"""

from __future__ import annotations

from collections.abc import Iterable

import attrs
from beam_runner_model.times import Timestamp

from beam_runner_engine.scheduler.commands import Bundle, Command, OpenBundles, ReleaseData
from beam_runner_engine.scheduler.data import Data
from beam_runner_engine.scheduler.events import BundleDone, Event, Output
from beam_runner_engine.scheduler.scheduler import Scheduler
from beam_runner_engine.scheduler.state import SchedulerState, StageState


@attrs.frozen
class Overtaken:
    """Data that a watermark has passed though it was on time; times in ms.

    `stage` reads `collection` at `watermark`, and the earliest of its elements is at `timestamp`.
    """

    stage: str
    collection: str
    timestamp: Timestamp
    watermark: Timestamp


class WatermarkWatch:
    """Hands events on to a scheduler, and looks at the data in them; changes nothing.

    It may begin at any time. Of data that was handed on before, it says nothing.
    """

    def __init__(self) -> None:
        self._on_time: dict[Data, None] = {}
        self._found: list[Overtaken] = []

    def handle(self, scheduler: Scheduler, event: Event) -> tuple[Command, ...]:
        """Has the scheduler handle an event, and returns its commands."""
        state = scheduler.state
        if isinstance(event, BundleDone) and _is_open(state, event):
            stages = _stages_of(state, event)
            for output in event.outputs:
                self._look_at(state, output, stages)
        commands = scheduler.handle(event)
        for command in commands:
            match command:
                case OpenBundles(_, bundles):
                    self._look_at_bundles(state, bundles)
                case ReleaseData(data):
                    for released in data:
                        self._on_time.pop(released, None)
        return commands

    def take_found(self) -> list[Overtaken]:
        """Returns what it has found since it was asked last."""
        found, self._found = self._found, []
        return found

    def _look_at(self, state: SchedulerState, output: Output, stages: list[StageState]) -> None:
        writers = [stage for stage in stages if output.collection in stage.spec.outputs]
        time = output.data.facts.min_timestamp
        if not writers or time < min(stage.output for stage in writers):
            return
        self._on_time[output.data] = None
        for number in state.collections[output.collection].node.consumers:
            reader = state.stages[number]
            watermark = reader.upstream.min()
            if watermark > time:
                self._found.append(Overtaken(reader.spec.name, output.collection, time, watermark))

    def _look_at_bundles(self, state: SchedulerState, bundles: Iterable[Bundle]) -> None:
        for bundle in bundles:
            for one in bundle.inputs:
                time = one.data.facts.min_timestamp
                if time < bundle.input_watermark and one.data in self._on_time:
                    inputs = state.stages[state.numbers[bundle.stage]].spec.inputs
                    watermark = bundle.input_watermark
                    self._found.append(
                        Overtaken(bundle.stage, " or ".join(inputs), time, watermark)
                    )


def _is_open(state: SchedulerState, event: BundleDone) -> bool:
    record = state.bundles.get(event.bundle)
    return record is not None and record.bundle.attempt == event.attempt


def _stages_of(state: SchedulerState, event: BundleDone) -> list[StageState]:
    """Returns the stages that have an open bundle: of a section several."""
    record = state.bundles[event.bundle]
    numbers = [part.stage for part in record.parts] or [record.stage]
    return [state.stages[number] for number in numbers]
