"""Attempt at a bundle that isolates failing input, for jobs with a quarantine (files for failing
elements). The attempt runs the bundle several times with different units (elements, groups,
timers); each run is a trial.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Mapping
from functools import cached_property
from typing import Protocol

import attrs
from beam_runner_engine.scheduler.events import BundleDone, SplitDone
from beam_runner_model.buffers import BufferKind
from beam_runner_model.bundles import MonitoringInfo
from beam_runner_worker.errors import BundleError
from beam_runner_worker.fnapi.input_elements import InputElements

from beam_runner_runtime.bundles.isolation import (
    MOST_BYTES,
    FailingUnits,
    compute_unit_digest,
    count_unit_failures,
    make_quarantined_unit,
    search_failing_units,
)
from beam_runner_runtime.bundles.keyed import ShardGrouping
from beam_runner_runtime.bundles.stage_context import StageContext
from beam_runner_runtime.bundles.stage_metrics import make_quarantine_metrics
from beam_runner_runtime.bundles.stateful import StatefulBundle
from beam_runner_runtime.bundles.unit_search import TrialFailure
from beam_runner_runtime.bundles.units import UnitSelection
from beam_runner_runtime.channel.attempts import BundleFailure
from beam_runner_runtime.channel.isolation import IsolationOrder
from beam_runner_runtime.channel.messages import BundleReply, RunBundle, SplitReply


@attrs.frozen
class ProcessedInput:
    """Uncommitted result of a bundle, after the SDK harness has processed the input.

    Attributes:
        done: event for the engine's scheduler, without a summary of the shard.
        keyed: state of the key shard; None without such state.
    """

    done: BundleDone
    keyed: ShardGrouping | StatefulBundle | None
    metrics: tuple[MonitoringInfo, ...]


class RunUnits(Protocol):
    """Function that discards the results of the previous trial, and runs the bundle with the
    selected units (elements, groups, timers).
    """

    def __call__(self, name: str, units: UnitSelection) -> ProcessedInput:
        """Returns the results of the trial `name`."""


def create_bundle_trials(
    work: StageContext,
    order: RunBundle,
    run: RunUnits,
    build_reply: Callable[[ProcessedInput], BundleReply],
    describe: Callable[[Exception], BundleFailure],
) -> BundleTrials | None:
    """Creates the object that isolates a bundle's failing units (elements, groups, timers); None if
    input of the stage can't go to quarantine.

    Restrictions and impulses never go to quarantine, because they represent the complete output of
    a source. Input of a stage with `RequiresStableInput` doesn't either, because each attempt must
    process the same elements.
    """
    source = work.input_buffer
    if order.isolation is None or source is None or work.stage.splittable:
        return None
    if work.stage.stable_input:
        return None
    if work.stage.table is not None or source.restrictions:
        return None
    return BundleTrials(work, order, order.isolation, run, build_reply, describe)


class BundleTrials:
    """Runner of one attempt at a bundle. If user code fails, the runner isolates the failing units
    (elements, groups, timers).

    Args:
        build_reply: function that returns the reply for the last trial.
        describe: function that returns the record of a failure.
    """

    def __init__(
        self,
        work: StageContext,
        order: RunBundle,
        isolation: IsolationOrder,
        run: RunUnits,
        build_reply: Callable[[ProcessedInput], BundleReply],
        describe: Callable[[Exception], BundleFailure],
    ) -> None:
        self._work = work
        self._order = order
        self._isolation = isolation
        self._run = run
        self._build_reply = build_reply
        self._describe = describe
        self._splitting = threading.Lock()
        self._was_split = False
        self._searches = False
        self._count = 0
        self._units: UnitSelection | None = None
        self._processed: ProcessedInput | None = None

    @cached_property
    def _reader(self) -> InputElements:
        return InputElements(self._work.stage.spec)

    def split_unless_searching(self, split: Callable[[], SplitReply]) -> SplitReply:
        """Calls `split`, unless the attempt has started to search for failing units (elements,
        groups, timers).

        After a split, this attempt isolates no units, because the split has changed the input.
        """
        attempt = self._order.attempt
        with self._splitting:
            if self._searches:
                return SplitReply(SplitDone(attempt.bundle, attempt.attempt))
            reply = split()
            self._was_split = self._was_split or bool(reply.done.residuals)
            return reply

    def run_attempt(self) -> BundleReply | BundleFailure:
        """Runs the bundle. If user code fails, runs the bundle again with fewer units until the
        failing units are found.
        """
        first = self._run_trial((), None)
        if first is None:
            assert self._processed is not None
            return self._build_reply(self._processed)
        with self._splitting:
            if self._was_split:
                return self._fail(first.error, self._isolation.failures, "the bundle was split")
            self._searches = True
        found = search_failing_units(self._isolation, self._run_trial, first)
        if found.reason:
            return self._fail(first.error, self._isolation.failures, found.reason)
        return self._finish_search(found)

    def _run_trial(self, excluded: Collection[int], limit: int | None) -> TrialFailure | None:
        """Runs the bundle with some of its units (elements, groups, timers), as
        `unit_search.RunTrial` describes.
        """
        name = self._order.name if not self._count else f"{self._order.name}.{self._count}"
        self._count += 1
        keyed, stateful = self._work.input_buffer, self._work.stage.stateful
        assert keyed is not None
        self._units = UnitSelection(
            lambda chunk: self._reader.find_ends(chunk),
            excluded,
            limit,
            numbers_rows=keyed.kind is BufferKind.KEYED
            and stateful is not None
            and not stateful.time_sorted,
        )
        try:
            self._processed = self._run(name, self._units)
        except BundleError as error:
            # In a stateful stage, the harness also gets timers, and doesn't get late elements.
            # Therefore, the harness's element counts don't match the numbers of units.
            if error.claimed is None or stateful is not None:
                return TrialFailure(error, self._units.taken)
            return TrialFailure(error, self._units.find_end(error.claimed), is_named=True)
        return None

    def _finish_search(self, found: FailingUnits) -> BundleReply | BundleFailure:
        """Returns the bundle's reply without the failing units, if each failing unit has failed in
        enough attempts. Otherwise, returns the record of the failure.
        """
        assert self._units is not None
        assert self._processed is not None
        units = self._units.found
        counts = count_unit_failures(self._isolation, units)
        error = next(iter(found.errors.values()))
        digests = tuple(
            (compute_unit_digest(unit), counts[number]) for number, unit in units.items()
        )
        if min(counts.values()) < self._isolation.attempts:
            least = min(counts.values())
            reason = (
                f"{len(units)} isolated; failed by itself in {least} of"
                f" {self._isolation.attempts} attempts"
            )
            return self._fail(error, digests, reason)
        if (size := sum(len(unit.encoded) for unit in units.values())) > MOST_BYTES:
            reason = f"the isolated elements have {size} bytes; the maximum is {MOST_BYTES}"
            return self._fail(error, digests, reason)
        return self._set_units_aside(found.errors, counts)

    def _set_units_aside(
        self, errors: Mapping[int, BundleError], counts: Mapping[int, int]
    ) -> BundleReply:
        assert self._units is not None
        assert self._processed is not None
        windows, coder = self._work.windows.coder, self._reader.coder
        records = tuple(
            make_quarantined_unit(unit, errors[number], counts[number], windows, coder)
            for number, unit in sorted(self._units.found.items())
        )
        more = make_quarantine_metrics(self._work.stage.stage_id, (one.step for one in records))
        processed = self._processed
        processed = attrs.evolve(processed, metrics=(*processed.metrics, *more))
        return attrs.evolve(self._build_reply(processed), quarantined=records)

    def _fail(
        self, error: BundleError, isolated: tuple[tuple[bytes, int], ...], reason: str
    ) -> BundleFailure:
        """Returns the record of a failure, which contains the digests of the isolated units."""
        broken = self._describe(error)
        assert broken.failure is not None
        failure = attrs.evolve(broken.failure, isolated=isolated, quarantine=reason)
        return attrs.evolve(broken, failure=failure)
