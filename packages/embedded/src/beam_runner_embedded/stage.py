"""Stage of the embedded harness. The stage builds Beam's operations once, and runs many bundles
with them.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial

from apache_beam.runners.worker import statesampler
from apache_beam.runners.worker.data_sampler import DataSampler
from beam_runner_model.bundles import BundleProgress, BundleResult, BundleSplit
from beam_runner_model.chunks import InputChunk
from beam_runner_model.stages import HarnessStage
from beam_runner_worker.ports import OutputPort, SideInputReader, UserState

from beam_runner_embedded.bundle import convert_operation_error, run_bundle
from beam_runner_embedded.combine_tables import TABLE_BYTES
from beam_runner_embedded.edges import StageEdges, parse_descriptor
from beam_runner_embedded.failures import convert_build_error
from beam_runner_embedded.finalizers import StageFinalizers
from beam_runner_embedded.frames import call_with_frame_memory
from beam_runner_embedded.processor import StageProcessor
from beam_runner_embedded.sampling import collect_samples, take_samples
from beam_runner_embedded.splits import split_bundle
from beam_runner_embedded.state_handler import StateHandler


class EmbeddedStage:
    """Implementation of :class:`~beam_runner_worker.ports.StageHarness` with Beam's operations.

    The stage doesn't use Beam's bundle loop, which needs data channels and a sampling thread for
    each bundle (see ``times``). After a failure, the stage tears down its operations, and builds
    new operations for the next bundle.

    Args:
        flush_logs: function that is called at the end of each bundle.
        sampler: store of sampled elements; None if samples are off.
        table_bytes: memory limit (bytes) of a lifted combine's table.
    """

    def __init__(
        self,
        spec: HarnessStage,
        side_inputs: SideInputReader,
        flush_logs: Callable[[], None],
        sampler: DataSampler | None = None,
        table_bytes: int = TABLE_BYTES,
    ) -> None:
        self._spec = spec
        self._descriptor = parse_descriptor(spec)
        self._reader = side_inputs
        self._flush_logs = flush_logs
        self._sampler = sampler
        self._table_bytes = table_bytes
        self._processor: StageProcessor | None = None
        self._changing = False
        self._finalizers = StageFinalizers()
        self._lock = threading.Lock()
        self._running: StageProcessor | None = None

    def process_bundle(
        self,
        bundle_id: str,
        inputs: Iterable[InputChunk],
        outputs: Mapping[str, OutputPort],
        state: UserState | None = None,
    ) -> BundleResult:
        """Processes one bundle; see :class:`~beam_runner_worker.ports.StageHarness`.

        Exceptions of ``inputs``, the ports and the side-input reader propagate unchanged. The
        iterator ``inputs`` may run a bundle of another stage in the same thread.
        """
        outer = statesampler.get_current_tracker()
        try:
            processor = self._get_or_build_processor()
            processor.set_user_state(state)
            statesampler.set_current_tracker(processor.times.sampler)
            self._set_running_processor(processor)
            residuals = call_with_frame_memory(
                partial(run_bundle, processor, bundle_id, inputs, outputs, self._spec.title)
            )
            self._set_running_processor(None)
            callbacks = processor.take_finalization_callbacks()
            if callbacks:
                self._finalizers.store_bundle_data(bundle_id, callbacks)
            return BundleResult(
                metrics=(*processor.collect_metrics(), *collect_samples(self._sampler)),
                requires_finalization=bool(callbacks),
                residuals=residuals,
            )
        except BaseException:
            self._set_running_processor(None)
            self.tear_down()
            raise
        finally:
            statesampler.set_current_tracker(outer)
            self._flush_logs()

    def get_progress(self) -> BundleProgress | None:
        """Returns the progress of the running bundle; takes about 1 ms, and is thread-safe."""
        with self._lock:
            running = self._running
            if running is None:
                return None
            take_samples(self._sampler)
            return BundleProgress(tuple(running.collect_metrics()), running.source.processed_count)

    def split(self, keep: float, elements: int, points: Sequence[int] = ()) -> BundleSplit | None:
        """Splits the running bundle; see :class:`~beam_runner_worker.ports.StageHarness`.

        An element is split only while its splittable DoFn processes it. An element that has just
        started or finished stays complete.
        """
        with self._lock:
            running = self._running
            return None if running is None else split_bundle(running.source, keep, elements, points)

    def finalize_bundle(self, bundle_id: str) -> None:
        """Runs the callbacks of a committed bundle in this thread; logs errors."""
        self._finalizers.run_callbacks(bundle_id)

    def tear_down(self) -> None:
        """Tears down every initialized DoFn instance once; logs errors."""
        processor, self._processor = self._processor, None
        if processor is not None:
            statesampler.set_current_tracker(processor.times.sampler)
            try:
                processor.tear_down()
            finally:
                statesampler.set_current_tracker(None)

    def _set_running_processor(self, running: StageProcessor | None) -> None:
        with self._lock:
            self._running = running

    def _get_or_build_processor(self) -> StageProcessor:
        """Returns the cached processor with cleared counters, or a new processor whose DoFns are set
        up.

        Beam's operations cache global side inputs. After the first change of such a side input, the
        method builds a new processor without that cache.
        """
        if (
            self._processor is not None
            and not self._changing
            and not self._processor.has_current_side_inputs()
        ):
            self._changing = True
            self.tear_down()
        if self._processor is None:
            try:
                processor = StageProcessor(
                    self._descriptor,
                    StateHandler(self._reader, self._spec.title, changing=self._changing),
                    StageEdges.from_stage(self._spec),
                    self._sampler,
                    self._table_bytes,
                )
            except BaseException as error:
                raise convert_build_error(error, self._spec.title) from None
            self._processor = processor
            statesampler.set_current_tracker(processor.times.sampler)
            try:
                processor.set_up_operations()
            except BaseException as error:
                raise convert_operation_error(error, processor, self._spec.title) from None
        self._processor.reset()
        return self._processor
