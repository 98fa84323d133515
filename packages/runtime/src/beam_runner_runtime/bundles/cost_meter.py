"""Measurement of what a bundle costs: duration, CPU time of its thread, and memory of its process."""

from __future__ import annotations

import resource
import threading
import time

from beam_runner_model.bundle_costs import BUNDLE_COSTS_TYPE, encode_bundle_costs
from beam_runner_model.bundles import MonitoringInfo
from beam_runner_worker.core_times import read_thread_time

from beam_runner_runtime.bundles.stage_metrics import make_distribution_metric, make_stage_metric


class CostMeter:
    """Meter of the costs of one bundle. The thread that runs the bundle creates the meter.

    CPU time and memory are measured only for embedded user code, because an SDK harness is a separate
    process.

    Attributes:
        thread: native ID of the thread that runs the bundle.
    """

    def __init__(self, stage_id: str, *, is_embedded: bool) -> None:
        self._stage_id = stage_id
        self._is_embedded = is_embedded
        self.thread = threading.get_native_id()
        self._began = time.monotonic()
        self._cpu_before = time.thread_time() if is_embedded else 0.0

    @property
    def elapsed_seconds(self) -> float:
        """Time since the start of the bundle."""
        return time.monotonic() - self._began

    def make_final_metrics(self) -> tuple[MonitoringInfo, MonitoringInfo]:
        """Returns the duration of the bundle in milliseconds, and its costs. Only the bundle's thread can
        call this method.
        """
        seconds = self.elapsed_seconds
        cpu_seconds = time.thread_time() - self._cpu_before if self._is_embedded else 0.0
        costs = encode_bundle_costs(seconds, cpu_seconds, self._read_peak_memory())
        return (
            make_distribution_metric("bundle_msecs", self._stage_id, int(seconds * 1000)),
            self._make_costs_metric(costs),
        )

    def make_progress_metric(self) -> MonitoringInfo:
        """Returns the costs of the bundle up to now; thread-safe."""
        told = read_thread_time(self.thread) if self._is_embedded else None
        cpu_seconds = 0.0 if told is None else told.ran - self._cpu_before
        costs = encode_bundle_costs(
            self.elapsed_seconds, cpu_seconds, self._read_peak_memory(), is_finished=False
        )
        return self._make_costs_metric(costs)

    def _read_peak_memory(self) -> int:
        if not self._is_embedded:
            return 0
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024

    def _make_costs_metric(self, costs: bytes) -> MonitoringInfo:
        return make_stage_metric("bundle_costs", BUNDLE_COSTS_TYPE, self._stage_id, costs)
