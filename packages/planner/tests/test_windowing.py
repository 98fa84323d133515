"""Tests that all kinds of strategies and triggers become the engine's strategies and triggers."""

from __future__ import annotations

from typing import Any

import apache_beam as beam
import pytest
import samples
from apache_beam.transforms import trigger as beam_triggers
from apache_beam.transforms.window import FixedWindows, Sessions, TimestampCombiner
from beam_runner_model import triggers
from beam_runner_model.buffers import BufferKind
from beam_runner_model.strategy import (
    AccumulationMode,
    ClosingBehavior,
    MergeStatus,
    OnTimeBehavior,
    WindowingStrategy,
)
from beam_runner_model.timestamp_combiners import TimestampCombiner as EngineCombiner

from beam_runner_planner import _protos
from beam_runner_planner.plan import JobPlan
from beam_runner_planner.translate import plan_job
from beam_runner_planner.windowing import convert_trigger, convert_windowing_strategy

COUNT = beam_triggers.AfterCount(3)
TIMED = beam_triggers.AfterProcessingTime(2)


def windowed(window_fn: Any, **arguments: Any) -> samples.Build:
    """Returns a pipeline with a grouping in these windows."""
    arguments.setdefault("accumulation_mode", beam_triggers.AccumulationMode.DISCARDING)
    return lambda p: (
        p
        | beam.Create([("k", 1)])
        | beam.WindowInto(window_fn, **arguments)
        | beam.GroupByKey()
        | beam.Map(str)
    )


def strategy_in(plan: JobPlan) -> WindowingStrategy:
    (buffer,) = (b for b in plan.buffers.values() if b.kind is BufferKind.GROUPED)
    assert buffer.strategy is not None
    return buffer.strategy


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (beam_triggers.DefaultTrigger(), triggers.DefaultTrigger()),
        (COUNT, triggers.AfterCount(3)),
        (TIMED, triggers.AfterProcessingTime((triggers.Delay(2_000),))),
        (beam_triggers.Repeatedly(COUNT), triggers.Repeatedly(triggers.AfterCount(3))),
        (beam_triggers.Always(), triggers.Always()),
        (beam_triggers.AfterWatermark(), triggers.AfterEndOfWindow()),
        (
            beam_triggers.AfterWatermark(early=COUNT, late=beam_triggers.AfterCount(1)),
            triggers.AfterEndOfWindow(triggers.AfterCount(3), triggers.AfterCount(1)),
        ),
        (
            beam_triggers.AfterAny(COUNT, TIMED),
            triggers.AfterAny(
                (triggers.AfterCount(3), triggers.AfterProcessingTime((triggers.Delay(2_000),)))
            ),
        ),
        (
            beam_triggers.AfterAll(COUNT, beam_triggers.AfterWatermark()),
            triggers.AfterAll((triggers.AfterCount(3), triggers.AfterEndOfWindow())),
        ),
        (
            beam_triggers.AfterEach(COUNT, beam_triggers.AfterWatermark()),
            triggers.AfterEach((triggers.AfterCount(3), triggers.AfterEndOfWindow())),
        ),
        (
            beam_triggers.OrFinally(beam_triggers.Repeatedly(COUNT), TIMED),
            triggers.OrFinally(
                triggers.Repeatedly(triggers.AfterCount(3)),
                triggers.AfterProcessingTime((triggers.Delay(2_000),)),
            ),
        ),
    ],
    ids=lambda value: type(value).__name__,
)
def test_python_triggers_are_parsed(given: Any, expected: triggers.Trigger) -> None:
    plan = samples.plan_of(
        windowed(FixedWindows(10), trigger=given), *samples.EMBEDDED, "--allow_unsafe_triggers"
    )
    assert strategy_in(plan).trigger == expected


def of_other_sdks(**kind: Any) -> _protos.Trigger:
    proto = _protos.Trigger()
    for name in kind:
        getattr(proto, name).SetInParent()
    return proto


def test_triggers_unknown_to_python_are_parsed() -> None:
    assert convert_trigger(of_other_sdks(never=True)) == triggers.Never()
    assert convert_trigger(_protos.Trigger()) == triggers.DefaultTrigger()
    assert (
        convert_trigger(of_other_sdks(after_synchronized_processing_time=True))
        == triggers.AfterSynchronizedProcessingTime()
    )
    aligned = of_other_sdks(after_processing_time=True)
    transforms = aligned.after_processing_time.timestamp_transforms
    transforms.add().align_to.period = 60_000
    transforms.add().delay.delay_millis = 5
    assert convert_trigger(aligned) == triggers.AfterProcessingTime(
        (triggers.AlignTo(60_000, 0), triggers.Delay(5))
    )


def test_windowing_strategy_fields_are_parsed() -> None:
    plan = samples.plan_of(
        windowed(
            Sessions(10),
            trigger=beam_triggers.Repeatedly(COUNT),
            accumulation_mode=beam_triggers.AccumulationMode.ACCUMULATING,
            timestamp_combiner=TimestampCombiner.OUTPUT_AT_LATEST,
            allowed_lateness=30,
        )
    )
    strategy = strategy_in(plan)
    assert strategy.merge_status is MergeStatus.NEEDS_MERGE
    assert strategy.accumulation_mode is AccumulationMode.ACCUMULATING
    assert strategy.timestamp_combiner is EngineCombiner.LATEST
    assert strategy.allowed_lateness == 30_000
    assert strategy.on_time_behavior is OnTimeBehavior.FIRE_ALWAYS


def with_strategies(sdk: str, **fields: int) -> WindowingStrategy:
    """Returns the strategy of a grouping with fields that Python can't set."""
    proto = samples.proto_of(windowed(FixedWindows(10)))
    for environment in proto.components.environments.values():
        environment.capabilities[:] = [f"beam:version:sdk_base:apache/{sdk}:2.77.0"]
    for strategy in proto.components.windowing_strategies.values():
        for name, value in fields.items():
            setattr(strategy, name, value)
    return strategy_in(plan_job(samples.job_of(proto)))


def test_merged_windows_are_not_merged_again() -> None:
    merged = with_strategies("any", merge_status=_protos.MergeStatus.ALREADY_MERGED)
    assert merged.merge_status is MergeStatus.ALREADY_MERGED and not merged.needs_merge


def test_strategy_without_empty_on_time_panes_is_parsed() -> None:
    quiet = with_strategies("any", on_time_behavior=_protos.OnTimeBehavior.FIRE_IF_NONEMPTY)
    assert quiet.on_time_behavior is OnTimeBehavior.FIRE_IF_NONEMPTY


@pytest.mark.parametrize(
    ("sdk", "expected"),
    [
        ("beam_java17_sdk", ClosingBehavior.EMIT_ALWAYS),
        # Python always sets this field, and has no such panes.
        ("beam_python3.11_sdk", ClosingBehavior.EMIT_IF_NONEMPTY),
    ],
)
def test_strategy_with_empty_final_panes_is_parsed(sdk: str, expected: ClosingBehavior) -> None:
    always = with_strategies(sdk, closing_behavior=_protos.ClosingBehavior.EMIT_ALWAYS)
    assert always.closing_behavior is expected


JAVA = "beam:version:sdk_base:apache/beam_java17_sdk:2.77.0"
GO = "beam:version:sdk_base:go:apache/beam_go_sdk:2.77.0"
SOON = triggers.AfterProcessingTime((triggers.Delay(1),))


@pytest.mark.parametrize(
    ("sdk", "given", "expected"),
    [
        (
            JAVA,
            of_other_sdks(after_processing_time=True),
            triggers.AfterProcessingTime(),
        ),
        (
            GO,
            of_other_sdks(after_processing_time=True),
            triggers.AfterEach((triggers.AfterProcessingTime(), triggers.Never())),
        ),
        (
            GO,
            of_other_sdks(after_synchronized_processing_time=True),
            triggers.AfterEach((SOON, triggers.Never())),
        ),
        (
            GO,
            _protos.Trigger(
                repeat=_protos.Trigger.Repeat(
                    subtrigger=of_other_sdks(after_synchronized_processing_time=True)
                )
            ),
            triggers.Repeatedly(SOON),
        ),
        (GO, of_other_sdks(always=True), triggers.Always()),
    ],
)
def test_go_triggers_are_parsed_by_sdk_version(
    sdk: str, given: _protos.Trigger, expected: triggers.Trigger
) -> None:
    components = _protos.Components()
    components.environments["env"].capabilities.append(sdk)
    components.coders["window"].spec.urn = "beam:coder:global_window:v1"
    proto = _protos.WindowingStrategy(window_coder_id="window", environment_id="env", trigger=given)
    assert convert_windowing_strategy(proto, components).trigger == expected
