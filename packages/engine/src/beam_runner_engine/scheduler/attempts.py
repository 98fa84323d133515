"""Attempts at bundles: opens a bundle with its first attempt, and starts the next attempt after a
failure.
"""

from __future__ import annotations

from collections.abc import Iterable

import attrs
from beam_runner_model.windows import Window

from beam_runner_engine.scheduler.commands import Bundle, Input, OpenBundles
from beam_runner_engine.scheduler.readiness import OpenableBundle
from beam_runner_engine.scheduler.side_inputs import create_side_input_views
from beam_runner_engine.scheduler.splits import is_work_exempt_from_drain, must_checkpoint_bundle
from beam_runner_engine.scheduler.state import BundleRecord, SchedulerState, StageState, Work
from beam_runner_engine.scheduler.transitions import Phase
from beam_runner_engine.scheduler.wakeups import set_shard_wake_ups


def open_bundle(state: SchedulerState, stage: StageState, opening: OpenableBundle) -> Bundle:
    """Opens a bundle for work that the caller took from the queues, and returns its first attempt."""
    draining = state.phase is Phase.DRAINING
    truncate = draining and stage.spec.splittable
    side_inputs, views = create_side_input_views(state, stage, opening.work)
    shard = stage.shards[opening.shard]
    bundle = Bundle(
        number=state.next_bundle,
        attempt=1,
        stage=stage.spec.name,
        shard=opening.shard,
        inputs=tuple(build_bundle_inputs(opening.work, truncate)),
        side_inputs=side_inputs,
        input_watermark=max(stage.input, shard.watermark),
        end_watermark=opening.end_watermark,
        output_watermark=stage.output,
        processing_time=state.now,
        draining=draining,
    )
    state.next_bundle += 1
    state.bundles[bundle.number] = BundleRecord(
        bundle=bundle,
        stage=stage.number,
        work=opening.work,
        views=views,
        truncated=truncate or is_work_exempt_from_drain(opening.work),
    )
    stage.open += 1
    stage.running += len(opening.work)
    shard.open += 1
    stage.waiting_bytes -= sum(work.data.facts.size for work in opening.work)
    if opening.shard is not None:
        set_shard_wake_ups(state, stage, opening.shard, None)
    return bundle


def discard_attempt(record: BundleRecord) -> None:
    """Discards the latest attempt at a bundle, so that its later reports are ignored."""
    record.bundle = attrs.evolve(record.bundle, attempt=record.bundle.attempt + 1)
    record.split = None
    record.progress = None
    record.stalled = 0


def start_attempt(state: SchedulerState, record: BundleRecord) -> None:
    """Starts the next attempt at a bundle. In a drain, opens a second bundle for the work that must
    not be truncated.

    In a drain, the restrictions of the attempt are truncated, as in new bundles.
    """
    stage = state.stages[record.stage]
    apart: tuple[Bundle, ...] = ()
    if must_checkpoint_bundle(state, stage, record):
        record.truncated = True
        inputs = tuple(build_bundle_inputs(record.work, truncate=True))
        record.bundle = attrs.evolve(record.bundle, inputs=inputs)
    elif stage.spec.splittable and not record.truncated:
        apart = _separate_drain_exempt_work(state, stage, record)
    state.commands.append(OpenBundles(stage.spec.name, (record.bundle, *apart)))


def restart_attempts(state: SchedulerState) -> None:
    """Restarts all running bundles after the program that ran them was lost, without counting
    failures. Pauses continue.
    """
    for record in tuple(state.bundles.values()):
        if record.due is None:
            discard_attempt(record)
            start_attempt(state, record)


def build_bundle_inputs(work: Iterable[Work], truncate: bool) -> Iterable[Input]:
    """Yields the inputs with which the caller executes a bundle.

    Work on the same data with the same watermark estimator state becomes one input, with
    the union of their windows.
    """
    joined: dict[int, list[Work]] = {}
    for item in work:
        joined.setdefault(item.piece, []).append(item)
    for items in joined.values():
        told = [item.windows for item in items if item.windows is not None]
        windows = frozenset[Window]().union(*told)
        disjoint = len(told) == len(items) and len(windows) == sum(map(len, told))
        first = items[0]
        if disjoint and all(
            (item.estimator_state, item.truncated) == (first.estimator_state, first.truncated)
            for item in items
        ):
            yield _build_bundle_input(first, windows, truncate)
        else:
            for item in items:
                yield _build_bundle_input(item, item.windows, truncate)


def _build_bundle_input(work: Work, windows: frozenset[Window] | None, truncate: bool) -> Input:
    return Input(
        data=work.data,
        windows=None if windows == work.data.facts.windows else windows,
        truncate=truncate and not work.truncated,
        estimator_state=work.estimator_state,
        whole=work.truncated,
    )


def _separate_drain_exempt_work(
    state: SchedulerState, stage: StageState, record: BundleRecord
) -> tuple[Bundle, ...]:
    """Separates the work that a drain must not truncate from other work, and returns a new bundle for
    the other work.

    If one attempt had both kinds of work, the caller could not tell from which kind a residual was
    split.
    """
    whole = [work for work in record.work if work.truncated]
    rest = [work for work in record.work if not work.truncated]
    if not whole or not rest:
        return ()
    stage.running -= len(rest)
    stage.waiting_bytes += sum(work.data.facts.size for work in rest)
    record.work = whole
    record.truncated = True
    record.bundle = attrs.evolve(
        record.bundle, inputs=tuple(build_bundle_inputs(whole, truncate=False))
    )
    shard, end = record.bundle.shard, record.bundle.end_watermark
    return (open_bundle(state, stage, OpenableBundle(shard, rest, end)),)
