"""Check that no watermark passes on-time data, for simulations and for debugging.

A watermark promises a reader that all earlier data has arrived, except data that was late at its
source. Two rules, independent of user code, keep this promise:

- The watermark of a stage's input is at most the output watermark of every stage that writes the
  input. Outputs at or after the writer's output watermark are therefore on time for all readers.
  Earlier outputs were already late, or user code moved their timestamps back.
- Data that was on time when it was delivered is on time in the bundle that reads it.
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
class LateDataViolation:
    """Violation: on-time data that a watermark has passed. Times are event times in ms.

    Attributes:
        stage: the reading stage.
        collection: the collection that the stage reads.
        watermark: the watermark of the stage.
    """

    stage: str
    collection: str
    timestamp: Timestamp
    watermark: Timestamp


class WatermarkChecker:
    """Wrapper of `Scheduler.handle_event` that checks the data in events and commands, without changing
    them.

    The check can start at any time. Data that was delivered before the start is not checked.
    """

    def __init__(self) -> None:
        self._on_time: dict[Data, None] = {}
        self._found: list[LateDataViolation] = []

    def handle_event(self, scheduler: Scheduler, event: Event) -> tuple[Command, ...]:
        """Handles an event with the scheduler, and returns the scheduler's commands."""
        state = scheduler.state
        if isinstance(event, BundleDone) and _is_bundle_open(state, event):
            stages = _get_stages(state, event)
            for output in event.outputs:
                self._check_output_against_watermark(state, output, stages)
        commands = scheduler.handle_event(event)
        for command in commands:
            match command:
                case OpenBundles(_, bundles):
                    self._check_bundles_against_watermark(state, bundles)
                case ReleaseData(data):
                    for released in data:
                        self._on_time.pop(released, None)
        return commands

    def take_violations(self) -> list[LateDataViolation]:
        """Returns the violations found since the last call."""
        found, self._found = self._found, []
        return found

    def _check_output_against_watermark(
        self, state: SchedulerState, output: Output, stages: list[StageState]
    ) -> None:
        writers = [stage for stage in stages if output.collection in stage.spec.outputs]
        time = output.data.facts.min_timestamp
        if not writers or time < min(stage.output for stage in writers):
            return
        self._on_time[output.data] = None
        for number in state.collections[output.collection].node.consumers:
            reader = state.stages[number]
            watermark = reader.upstream.get_earliest_time()
            if watermark > time:
                self._found.append(
                    LateDataViolation(reader.spec.name, output.collection, time, watermark)
                )

    def _check_bundles_against_watermark(
        self, state: SchedulerState, bundles: Iterable[Bundle]
    ) -> None:
        for bundle in bundles:
            for one in bundle.inputs:
                time = one.data.facts.min_timestamp
                if time < bundle.input_watermark and one.data in self._on_time:
                    inputs = state.stages[state.numbers[bundle.stage]].spec.inputs
                    watermark = bundle.input_watermark
                    self._found.append(
                        LateDataViolation(bundle.stage, " or ".join(inputs), time, watermark)
                    )


def _is_bundle_open(state: SchedulerState, event: BundleDone) -> bool:
    record = state.bundles.get(event.bundle)
    return record is not None and record.bundle.attempt == event.attempt


def _get_stages(state: SchedulerState, event: BundleDone) -> list[StageState]:
    """Returns the stages of an open bundle: several stages for a section."""
    record = state.bundles[event.bundle]
    numbers = [part.stage for part in record.parts] or [record.stage]
    return [state.stages[number] for number in numbers]
