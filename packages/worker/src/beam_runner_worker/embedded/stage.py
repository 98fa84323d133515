"""One stage in this process: builds its operations once and runs bundle after bundle on them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping

from apache_beam.runners.worker import statesampler

from beam_runner_worker.embedded.bundle import error_for_host, run_bundle
from beam_runner_worker.embedded.edges import Edges, parse_descriptor
from beam_runner_worker.embedded.failures import describe_failed_build
from beam_runner_worker.embedded.metrics import to_records
from beam_runner_worker.embedded.processor import Processor
from beam_runner_worker.embedded.side_inputs import SideInputs
from beam_runner_worker.ports import OutputPort, SideInputReader
from beam_runner_worker.records import BundleResult, InputChunk, MonitoringInfo, StageSpec


class EmbeddedStage:
    """A :class:`~beam_runner_worker.ports.StageHarness` on Beam's operations.

    Beam's own bundle loop is not used: it wants data channels, and it starts a sampling thread
    which takes 50 to 170 ms to join at the end of each bundle. Hence no execution times among the
    metrics. After a failure the operations are torn down, and built anew for the next bundle.

    Args:
        spec: the stage.
        side_inputs: gives its side inputs, which do not change.
        flush_logs: called at the end of each bundle.
    """

    def __init__(
        self, spec: StageSpec, side_inputs: SideInputReader, flush_logs: Callable[[], None]
    ) -> None:
        self._spec = spec
        self._descriptor = parse_descriptor(spec)
        self._reader = side_inputs
        self._flush_logs = flush_logs
        self._processor: Processor | None = None
        self._lock = threading.Lock()
        self._running: Processor | None = None

    def process_bundle(
        self, bundle_id: str, inputs: Iterable[InputChunk], outputs: Mapping[str, OutputPort]
    ) -> BundleResult:
        """Processes one bundle; see :class:`~beam_runner_worker.ports.StageHarness`.

        What ``inputs``, the ports and the side input reader raise comes out as it is.
        """
        try:
            processor = self._build()
            statesampler.set_current_tracker(processor.state_sampler)
            self._show(processor)
            run_bundle(processor, bundle_id, inputs, outputs, self._spec.name)
            self._show(None)
            return BundleResult(
                metrics=to_records(processor.monitoring_infos()),
                requires_finalization=processor.requires_finalization(),
            )
        except BaseException:
            self._show(None)
            self.tear_down()
            raise
        finally:
            statesampler.set_current_tracker(None)
            self._flush_logs()

    def progress(self) -> tuple[MonitoringInfo, ...]:
        """Metrics of the running bundle so far; takes about a millisecond, from any thread."""
        with self._lock:
            return to_records(self._running.monitoring_infos()) if self._running else ()

    def tear_down(self) -> None:
        """Tears down every DoFn instance that was set up, once; errors go to the log."""
        processor, self._processor = self._processor, None
        if processor is not None:
            statesampler.set_current_tracker(processor.state_sampler)
            try:
                processor.tear_down()
            finally:
                statesampler.set_current_tracker(None)

    def _show(self, running: Processor | None) -> None:
        with self._lock:
            self._running = running

    def _build(self) -> Processor:
        """The processor with clean counters: the kept one, or a new one with its DoFns set up."""
        if self._processor is None:
            try:
                processor = Processor(
                    self._descriptor,
                    SideInputs(self._reader, self._spec.name),
                    Edges.of(self._spec),
                )
            except Exception as error:
                raise describe_failed_build(error, self._spec.name) from None
            self._processor = processor
            statesampler.set_current_tracker(processor.state_sampler)
            try:
                processor.set_up()
            except BaseException as error:
                raise error_for_host(error, processor, self._spec.name) from None
        self._processor.reset()
        return self._processor
