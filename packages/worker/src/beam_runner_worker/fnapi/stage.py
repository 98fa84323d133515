"""Stage of the Fn API harness, which runs, observes, splits and finalizes bundles in SDK harnesses."""

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
from beam_runner_worker.fnapi.abandoned_bundles import AbandonedBundleDetector
from beam_runner_worker.fnapi.bundle import SdkBundle
from beam_runner_worker.fnapi.bundle_state import BundleStateStores
from beam_runner_worker.fnapi.cache_tokens import SideInputTokens
from beam_runner_worker.fnapi.connection import SdkConnection
from beam_runner_worker.fnapi.descriptors import SdkStagePlan
from beam_runner_worker.fnapi.failures import (
    create_bundle_error,
    describe_possibly_failing_elements,
)
from beam_runner_worker.fnapi.finalization import PendingFinalizations
from beam_runner_worker.fnapi.messages import DataChunk, split_at_flushes
from beam_runner_worker.fnapi.metrics import ShortIds, SummableMetricsFilter
from beam_runner_worker.fnapi.progress import count_processed_elements, create_progress_request
from beam_runner_worker.fnapi.sampling import SdkSamples
from beam_runner_worker.fnapi.side_inputs import SideInputPages
from beam_runner_worker.fnapi.splits import BundleSplitter, convert_residual
from beam_runner_worker.fnapi.transfer import BundleTransfer
from beam_runner_worker.log_records import LogRecord, Severity
from beam_runner_worker.ports import LogSink, OutputPort, SideInputReader, UserState
from beam_runner_worker.totals import Totals

_PROGRESS_SECONDS = 5.0


class ConnectedSdk(Protocol):
    """SDK harness that is connected, with its metric ids and samples."""

    connection: SdkConnection
    short_ids: ShortIds
    samples: SdkSamples

    def has_idle_interpreter(self) -> bool | None:
        """Returns True if the harness's interpreter has time for other bundles; None if unknown."""


class SdkProvider(Protocol):
    """Provider of the SDK harness in which a stage runs its bundles."""

    @property
    def is_starting(self) -> bool:
        """Whether a started harness has not connected yet."""

    def get_connected_sdk(self) -> ConnectedSdk:
        """Returns a connected SDK harness. Starts a new SDK harness if the last one was lost.

        Raises:
            HarnessError: No harness connected.
        """


class _SdkBundleResults:
    """Combined results of the finished SDK bundles that belong to one bundle of the runner. Each flush
    barrier begins a new SDK bundle.

    Attributes:
        elements: number of input elements of the SDK bundles.
        to_finalize: instruction IDs of the SDK bundles that requested finalization.
    """

    def __init__(self) -> None:
        self.elements = 0
        self.metrics = Totals()
        self.residuals: list[ResidualElement] = []
        self.to_finalize: list[str] = []

    def to_bundle_result(self) -> BundleResult:
        return BundleResult(self.metrics.infos(), bool(self.to_finalize), tuple(self.residuals))


@attrs.frozen
class _RunningBundle:
    """Running SDK bundle, with the results of earlier SDK bundles that belong to the same bundle of the runner."""

    sdk: ConnectedSdk
    bundle: SdkBundle
    splitter: BundleSplitter
    vanished: AbandonedBundleDetector
    earlier_elements: int
    earlier_metrics: tuple[MonitoringInfo, ...]


class FnApiStage:
    """Implementation of :class:`~beam_runner_worker.ports.StageHarness` that runs a stage in the SDK
    harnesses of one environment.

    An SDK may report the timers of user code only at the end of its bundle. So at each flush
    barrier the stage ends the SDK bundle, and starts another SDK bundle for the following input.
    Large groups are stored only until the end of an SDK bundle.
    """

    def __init__(
        self, plan: SdkStagePlan, side_inputs: SideInputReader, source: SdkProvider, logs: LogSink
    ) -> None:
        self._plan = plan
        self._side_inputs = side_inputs
        self._source = source
        self._logs = logs
        self._tokens = SideInputTokens(plan.cacheable, side_inputs)
        self._finalizations = PendingFinalizations(self._log_warning)
        self._lasting = SummableMetricsFilter(self._log_warning)
        self._running: _RunningBundle | None = None

    def process_bundle(
        self,
        bundle_id: str,
        inputs: Iterable[InputChunk],
        outputs: Mapping[str, OutputPort],
        state: UserState | None = None,
    ) -> BundleResult:
        """Processes one bundle; see :class:`beam_runner_worker.ports.StageHarness`.

        A concurrent split gets its result before this method returns. A bundle with state is never
        split. Errors of ``inputs``, ``outputs`` and ``state`` propagate unchanged.

        Raises:
            BundleError: User code or the SDK raised an exception.
            HarnessError: The SDK was lost, or violated the protocol.
        """
        sdk = self._source.get_connected_sdk()
        bundle_state = self._create_state_stores(state)
        done = _SdkBundleResults()
        for segment in split_at_flushes(bundle_state.read_chunks_between_requests(inputs)):
            if not self._process_segment(sdk, bundle_id, bundle_state, segment, outputs, done):
                break
        if done.to_finalize:
            self._finalizations.add_bundle(bundle_id, sdk.connection, done.to_finalize)
        return done.to_bundle_result()

    def _create_state_stores(self, state: UserState | None) -> BundleStateStores:
        """Returns the stores that a bundle reads and writes over the state channel."""
        pages = SideInputPages(self._side_inputs, self._plan.side_inputs)
        return BundleStateStores(pages, state, self._plan.stateful.state)

    def _process_segment(
        self,
        sdk: ConnectedSdk,
        bundle_id: str,
        state: BundleStateStores,
        inputs: Iterator[DataChunk],
        outputs: Mapping[str, OutputPort],
        done: _SdkBundleResults,
    ) -> bool:
        """Processes one segment of the input in an SDK bundle, and adds the results to ``done``.

        Returns:
            Whether more input can follow; False if the SDK has returned the remainder as a
            residual.
        """
        connection = sdk.connection
        tokens = self._tokens.list_cache_tokens()
        bundle = connection.open_bundle(bundle_id, self._plan.spec.stage_id, state, tokens)
        splitter = BundleSplitter(self._plan, sdk.connection, bundle, self._log_warning)
        vanished = AbandonedBundleDetector(connection, bundle, self._plan.spec.title)
        self._running = _RunningBundle(
            sdk, bundle, splitter, vanished, done.elements, done.metrics.infos()
        )
        try:
            transfer = BundleTransfer(self._plan, connection, bundle, outputs)
            response = transfer.transfer_bundle(inputs)
            if response.error:
                raise self._create_bundle_error(
                    response.error, bundle, in_a_pool=sdk.connection.in_a_pool
                )
            splitter.close()
            more = transfer.accepts_more_input()
        finally:
            self._running = None
            sdk.connection.close_bundle(bundle)
            state.groups.clear_groups()
        said = response.process_bundle
        done.elements += bundle.elements
        infos = sdk.short_ids.resolve_metrics(said.monitoring_data, said.monitoring_infos)
        done.metrics.add(self._lasting.filter_metrics(infos))
        done.metrics.add(sdk.samples.request_samples())
        done.residuals += (convert_residual(root, self._plan.heads) for root in said.residual_roots)
        if said.requires_finalization:
            done.to_finalize.append(bundle.instruction_id)
        return more

    def _create_bundle_error(self, error: str, bundle: SdkBundle, *, in_a_pool: bool) -> Exception:
        names = {
            transform_id: transform.unique_name
            for transform_id, transform in self._plan.descriptor.transforms.items()
        }
        element = describe_possibly_failing_elements(error, bundle)
        return create_bundle_error(
            error, self._plan.spec.title, names, element, in_a_pool=in_a_pool
        )

    def get_progress(self) -> BundleProgress | None:
        """Returns the progress of the running bundle; see
        :class:`beam_runner_worker.ports.StageHarness`.

        Also returns None if the SDK doesn't respond within 5 s or is lost. The bundle's own thread
        raises the error in that case.
        """
        running = self._running
        if running is None:
            return BundleProgress((), 0.0, starts=True) if self._source.is_starting else None
        request = create_progress_request(running.bundle.instruction_id)
        try:
            answer = running.sdk.connection.send_and_wait(
                request, _PROGRESS_SECONDS
            ).process_bundle_progress
            infos = running.sdk.short_ids.resolve_metrics(
                answer.monitoring_data, answer.monitoring_infos
            )
        except HarnessError as error:
            running.vanished.record_missing_answer(error)
            return None
        running.vanished.record_answer()
        source = self._plan.spec.input.transform_id
        processed = count_processed_elements(infos, source, self._plan.heads)
        running.bundle.processed = processed
        metrics = Totals()
        metrics.add(running.earlier_metrics)
        metrics.add(self._lasting.filter_metrics(infos))
        count = running.earlier_elements + processed
        return BundleProgress(metrics.infos(), count, running.sdk.has_idle_interpreter())

    def split(self, keep: float, elements: int, points: Sequence[int] = ()) -> BundleSplit | None:
        """Splits the running bundle; see :class:`beam_runner_worker.ports.StageHarness`.

        Raises:
            HarnessError: The SDK is lost. The bundle's own thread gets the same error.
        """
        running = self._running
        if running is None or running.bundle.state.has_user_state:
            return None
        return running.splitter.split(keep, elements, points)

    def finalize_bundle(self, bundle_id: str) -> None:
        """Runs finalization callbacks; see :class:`beam_runner_worker.ports.StageHarness`."""
        self._finalizations.finalize_bundle(bundle_id)

    def _log_warning(self, text: str) -> None:
        self._logs.log_records([LogRecord(Severity.WARN, int(time.time() * 1000), text)])
