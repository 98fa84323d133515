"""Tests of checkpoint requests for bundles whose side input is updated."""

from __future__ import annotations

import pytest
from beam_runner_model.windows import GLOBAL_WINDOW

from beam_runner_engine.scheduler.checkpoints import OUTDATED_AFTER, RETRY_REQUEST_AFTER
from beam_runner_engine.scheduler.commands import Bundle, Command, RequestTick, SplitBundle
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
from beam_runner_engine.scheduler.scheduler import Scheduler
from beam_runner_engine.scheduler.specs import (
    GraphSpec,
    SideInputReadiness,
    SideInputSpec,
    StageKind,
    StageSpec,
)

from .samples import data, only


def updating(
    readiness: SideInputReadiness = SideInputReadiness.FIRST_PANE,
    kind: StageKind = StageKind.ORDINARY,
) -> tuple[Scheduler, Bundle]:
    """Returns a scheduler in which `update` writes the side input of `use`. A bundle of `use` has
    run since time 1000.
    """
    side = SideInputSpec("s", "side", readiness=readiness, replaces=True)
    keyed = kind is not StageKind.ORDINARY
    stages = (
        StageSpec("update", ("updates",), ("side",), splittable=True),
        StageSpec("use", ("main",), kind=kind, side_inputs=(side,)),
    )
    scheduler = Scheduler(GraphSpec(stages, ("updates", "main")))
    main = data("main", 0, shard=0) if keyed else data("main", 0, windows=(GLOBAL_WINDOW,))
    scheduler.handle_event(Start(1000, (Output("updates", data("updates")), Output("main", main))))
    update(scheduler, "v1")
    return scheduler, of_stage(scheduler, "use")


def of_stage(scheduler: Scheduler, stage: str) -> Bundle:
    (bundle,) = [bundle for bundle in scheduler.open_bundles if bundle.stage == stage]
    return bundle


def update(scheduler: Scheduler, ref: str) -> tuple[Command, ...]:
    bundle = of_stage(scheduler, "update")
    output = Output("side", data(ref, 0, windows=(GLOBAL_WINDOW,)))
    rest = Residual(data(f"after {ref}"))
    return scheduler.handle_event(BundleDone(bundle.number, 1, (output,), (rest,)))


def asked(commands: tuple[Command, ...]) -> list[SplitBundle]:
    return [command for command in commands if isinstance(command, SplitBundle)]


def test_bundle_with_an_outdated_side_input_is_checkpointed_immediately_after_a_long_run() -> None:
    scheduler, bundle = updating()
    scheduler.handle_event(Tick(5000))
    assert asked(update(scheduler, "v2")) == []
    assert asked(scheduler.handle_event(Tick(5001))) == [SplitBundle(bundle.number, 1, 0.0)]
    rest = Residual(data("rest", 0, windows=(GLOBAL_WINDOW,)), untouched=True)
    scheduler.handle_event(SplitDone(bundle.number, 1, bundle.inputs, (rest,)))
    _, later = [b for b in scheduler.open_bundles if b.stage == "use"]
    assert [one.ref for side in later.side_inputs for one in side.data] == ["v2"]


def test_bundle_with_an_outdated_side_input_is_checkpointed_later_if_it_just_started() -> None:
    scheduler, _ = updating()
    scheduler.handle_event(Tick(1010))
    assert only(update(scheduler, "v2"), RequestTick).time == 1000 + OUTDATED_AFTER
    assert asked(scheduler.handle_event(Tick(1000 + OUTDATED_AFTER - 1))) == []
    assert len(asked(scheduler.handle_event(Tick(1000 + OUTDATED_AFTER)))) == 1


def test_bundle_with_an_outdated_side_input_gets_a_repeated_request_after_progress() -> None:
    scheduler, bundle = updating()
    scheduler.handle_event(Tick(5000))
    update(scheduler, "v2")
    scheduler.handle_event(Tick(5001))
    assert asked(scheduler.handle_event(SplitDone(bundle.number, 1))) == []
    assert len(asked(scheduler.handle_event(Progress(bundle.number, 1, 0.1, 500)))) == 1


def test_bundle_with_an_outdated_side_input_gets_its_request_after_a_pending_split() -> None:
    scheduler, bundle = updating()
    split = asked(scheduler.handle_event(Progress(bundle.number, 1, 0.1, 3000)))
    assert [one.fraction for one in split] == [0.5]
    scheduler.handle_event(Tick(5000))
    update(scheduler, "v2")
    assert asked(scheduler.handle_event(Tick(5001))) == []
    scheduler.handle_event(SplitDone(bundle.number, 1))
    assert asked(scheduler.handle_event(Tick(5001 + RETRY_REQUEST_AFTER))) == [
        SplitBundle(bundle.number, 1, 0.0)
    ]


def test_closed_bundle_gets_no_checkpoint_request() -> None:
    scheduler, bundle = updating()
    update(scheduler, "v2")
    commands = scheduler.handle_event(BundleDone(bundle.number, 1))
    assert scheduler.next_wake is None
    assert asked(commands) == asked(scheduler.handle_event(Tick(9000))) == []


@pytest.mark.parametrize("kind", [StageKind.STATEFUL])
def test_unsplittable_bundle_gets_no_checkpoint_request(kind: StageKind) -> None:
    scheduler, bundle = updating(kind=kind)
    scheduler.handle_event(Tick(5000))
    update(scheduler, "v2")
    assert asked(scheduler.handle_event(Tick(6000))) == []
    assert asked(scheduler.handle_event(Progress(bundle.number, 1, 0.1, 500))) == []
    assert scheduler.next_wake is None


@pytest.mark.parametrize("stage", ["update", "use"])
def test_yielding_bundle_with_restrictions_is_checkpointed(stage: str) -> None:
    scheduler, _ = updating()
    bundle = of_stage(scheduler, stage)
    commands = scheduler.handle_event(YieldRequested(bundle.number, 1))
    assert asked(commands) == ([SplitBundle(bundle.number, 1, 0.0)] if stage == "update" else [])
