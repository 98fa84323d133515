"""Runs the bundles of one stage on an SDK harness, and tells, splits and finalizes them there."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Protocol

import attrs
from beam_runner_model.bundles import (
    BundleProgress,
    BundleResult,
    BundleSplit,
    MonitoringInfo,
    ResidualElement,
)
from beam_runner_model.chunks import InputChunk

from beam_runner_worker.errors import HarnessError
from beam_runner_worker.fnapi.bundle import SdkBundle
from beam_runner_worker.fnapi.bundle_state import BundleStores
from beam_runner_worker.fnapi.connection import SdkConnection
from beam_runner_worker.fnapi.descriptors import SdkStagePlan
from beam_runner_worker.fnapi.failures import bundle_failed, which_element
from beam_runner_worker.fnapi.finalization import Finalizations
from beam_runner_worker.fnapi.messages import DataChunk, segments
from beam_runner_worker.fnapi.metrics import LastingMetrics, ShortIds
from beam_runner_worker.fnapi.progress import processed_elements, progress_request
from beam_runner_worker.fnapi.sampling import SdkSamples
from beam_runner_worker.fnapi.side_inputs import SideInputPages
from beam_runner_worker.fnapi.splits import Splitter, residual
from beam_runner_worker.fnapi.transfer import Transfer
from beam_runner_worker.fnapi.vanished import VanishedBundle
from beam_runner_worker.log_records import LogRecord, Severity
from beam_runner_worker.ports import LogSink, OutputPort, SideInputReader, UserState
from beam_runner_worker.totals import Totals

_PROGRESS_SECONDS = 5.0


class Sdk(Protocol):
    """An SDK harness that is there, with what is known of it."""

    connection: SdkConnection
    short_ids: ShortIds
    samples: SdkSamples

    def waits(self) -> bool | None:
        """Whether its interpreter has time for others; None if that is not known."""


class SdkSource(Protocol):
    """Gives a stage the SDK harness to run a bundle on."""

    @property
    def is_starting(self) -> bool:
        """Whether one was started and has not connected yet."""

    def sdk(self) -> Sdk:
        """A connected SDK harness; a new one if the last was lost.

        Raises:
            HarnessError: none came.
        """


class _Done:
    """What the SDK bundles of a bundle have said so far.

    Attributes:
        elements: how many elements of the input they were given.
        metrics: of all of them together.
        residuals: in their order.
        to_finalize: the instructions of those that asked for finalization.
    """

    def __init__(self) -> None:
        self.elements = 0
        self.metrics = Totals()
        self.residuals: list[ResidualElement] = []
        self.to_finalize: list[str] = []

    def result(self) -> BundleResult:
        return BundleResult(self.metrics.infos(), bool(self.to_finalize), tuple(self.residuals))


@attrs.frozen
class _Running:
    """The SDK bundle that runs, with what those before it in the same bundle have said."""

    sdk: Sdk
    bundle: SdkBundle
    splitter: Splitter
    vanished: VanishedBundle
    earlier_elements: int
    earlier_metrics: tuple[MonitoringInfo, ...]


class FnApiStage:
    """One stage on the SDK harnesses of one environment.

    An SDK tells the timers that user code sets when its bundle ends, if not before. So where a
    bundle has to settle, the SDK is given a bundle of its own for what comes before, and another
    one for what comes after. Large groups are kept for it no longer than that.

    Args:
        plan: the stage.
        side_inputs: where its side inputs are.
        source: where SDK harnesses come from.
        logs: takes what people should know.
    """

    def __init__(
        self, plan: SdkStagePlan, side_inputs: SideInputReader, source: SdkSource, logs: LogSink
    ) -> None:
        self._plan = plan
        self._side_inputs = side_inputs
        self._source = source
        self._logs = logs
        self._finalizations = Finalizations(self._warn)
        self._lasting = LastingMetrics(self._warn)
        self._running: _Running | None = None

    def process_bundle(
        self,
        bundle_id: str,
        inputs: Iterable[InputChunk],
        outputs: Mapping[str, OutputPort],
        state: UserState | None = None,
    ) -> BundleResult:
        """Processes one bundle; see :class:`beam_runner_worker.ports.StageHarness`.

        A split that is under way has its answer when this returns. A bundle with state is never
        split. What ``inputs``, ``outputs`` or ``state`` raise comes out as it is.

        Raises:
            BundleFailed: user code or the SDK raised.
            HarnessError: the SDK was lost, or broke the protocol.
        """
        sdk = self._source.sdk()
        bundle_state = self._state(state)
        done = _Done()
        for segment in segments(bundle_state.in_turn(inputs)):
            if not self._process(sdk, bundle_id, bundle_state, segment, outputs, done):
                break
        if done.to_finalize:
            self._finalizations.remember(bundle_id, sdk.connection, done.to_finalize)
        return done.result()

    def _state(self, state: UserState | None) -> BundleStores:
        """What a bundle reads and writes on the state channel."""
        pages = SideInputPages(self._side_inputs, self._plan.side_inputs)
        return BundleStores(pages, state, self._plan.stateful.state)

    def _process(
        self,
        sdk: Sdk,
        bundle_id: str,
        state: BundleStores,
        inputs: Iterator[DataChunk],
        outputs: Mapping[str, OutputPort],
        done: _Done,
    ) -> bool:
        """Processes some input in a bundle of the SDK, and adds what comes of it.

        Returns:
            Whether more input may follow: not if the SDK has given the rest away.
        """
        connection = sdk.connection
        bundle = connection.open_bundle(bundle_id, self._plan.spec.stage_id, state)
        splitter = Splitter(self._plan, sdk.connection, bundle, self._warn)
        vanished = VanishedBundle(connection, bundle, self._plan.spec.title)
        self._running = _Running(
            sdk, bundle, splitter, vanished, done.elements, done.metrics.infos()
        )
        try:
            transfer = Transfer(self._plan, connection, bundle, outputs)
            response = transfer.run(inputs)
            if response.error:
                raise self._failed(response.error, bundle, in_a_pool=sdk.connection.in_a_pool)
            splitter.close()
            more = transfer.wants_more()
        finally:
            self._running = None
            sdk.connection.close_bundle(bundle)
            state.groups.clear()
        said = response.process_bundle
        done.elements += bundle.elements
        infos = sdk.short_ids.resolve(said.monitoring_data, said.monitoring_infos)
        done.metrics.add(self._lasting.of(infos))
        done.metrics.add(sdk.samples.take())
        done.residuals += (residual(root, self._plan.heads) for root in said.residual_roots)
        if said.requires_finalization:
            done.to_finalize.append(bundle.instruction_id)
        return more

    def _failed(self, error: str, bundle: SdkBundle, *, in_a_pool: bool) -> Exception:
        names = {
            transform_id: transform.unique_name
            for transform_id, transform in self._plan.descriptor.transforms.items()
        }
        element = which_element(error, bundle)
        return bundle_failed(error, self._plan.spec.title, names, element, in_a_pool=in_a_pool)

    def progress(self) -> BundleProgress | None:
        """How far the running bundle is; see :class:`beam_runner_worker.ports.StageHarness`.

        None, too, if the SDK does not answer within 5 seconds or is lost: what is wrong with it is
        told by the thread that runs the bundle.
        """
        running = self._running
        if running is None:
            return BundleProgress((), 0.0, starts=True) if self._source.is_starting else None
        request = progress_request(running.bundle.instruction_id)
        try:
            answer = running.sdk.connection.ask(request, _PROGRESS_SECONDS).process_bundle_progress
            infos = running.sdk.short_ids.resolve(answer.monitoring_data, answer.monitoring_infos)
        except HarnessError as error:
            running.vanished.unanswered(error)
            return None
        running.vanished.answered()
        source = self._plan.spec.input.transform_id
        processed = processed_elements(infos, source, self._plan.heads)
        running.bundle.processed = processed
        metrics = Totals()
        metrics.add(running.earlier_metrics)
        metrics.add(self._lasting.of(infos))
        count = running.earlier_elements + processed
        return BundleProgress(metrics.infos(), count, running.sdk.waits())

    def split(self, keep: float, elements: int, points: Sequence[int] = ()) -> BundleSplit | None:
        """Splits the running bundle; see :class:`beam_runner_worker.ports.StageHarness`.

        Raises:
            HarnessError: the SDK is lost; the thread that runs the bundle gets the same.
        """
        running = self._running
        if running is None or running.bundle.state.given:
            return None
        return running.splitter.split(keep, elements, points)

    def finalize(self, bundle_id: str) -> None:
        """Runs finalization callbacks; see :class:`beam_runner_worker.ports.StageHarness`."""
        self._finalizations.finalize(bundle_id)

    def _warn(self, text: str) -> None:
        self._logs.log([LogRecord(Severity.WARN, int(time.time() * 1000), text)])
