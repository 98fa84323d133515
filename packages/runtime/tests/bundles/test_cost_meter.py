"""Tests of the costs that a bundle reports: CPU time of its thread, and memory of its process."""

from __future__ import annotations

import threading
import time

from beam_runner_model.bundle_costs import BundleCosts, decode_bundle_costs
from waiting import wait_until

from beam_runner_runtime.bundles.cost_meter import CostMeter


def use_cpu(seconds: float) -> None:
    until = time.thread_time() + seconds
    while time.thread_time() < until:
        pass


def read_progress(meter: CostMeter) -> BundleCosts:
    return decode_bundle_costs(meter.make_progress_metric().payload)


def test_embedded_bundle_reports_cpu_time_of_its_thread_and_memory() -> None:
    use_cpu(0.02)  # An earlier bundle in the same thread doesn't count.
    before = time.thread_time()
    meter = CostMeter("s", is_embedded=True)
    other = threading.Thread(target=use_cpu, args=(0.2,))
    other.start()
    use_cpu(0.05)
    other.join()
    msecs, costs = meter.make_final_metrics()
    assert (msecs.urn, msecs.labels) == ("beam_spark:stage:bundle_msecs:v1", (("STAGE", "s"),))
    assert (costs.urn, costs.labels) == ("beam_spark:stage:bundle_costs:v1", (("STAGE", "s"),))
    found = decode_bundle_costs(costs.payload)
    assert found.cpu_seconds is not None and found.peak_memory_bytes is not None
    assert 0.05 <= found.cpu_seconds + 1e-6 <= time.thread_time() - before
    assert found.peak_memory_bytes > 1_000_000
    assert found.durations is not None
    assert found.durations.count == 1
    assert found.durations.max == found.slot_seconds


def test_progress_of_embedded_bundle_contains_cpu_time_up_to_now() -> None:
    meter = CostMeter("s", is_embedded=True)
    found: list[BundleCosts] = []

    def read_until_used() -> bool:
        use_cpu(0.01)
        # The thread of the progress reports isn't the thread of the bundle.
        reader = threading.Thread(target=lambda: found.append(read_progress(meter)))
        reader.start()
        reader.join()
        return (found[-1].cpu_seconds or 0.0) >= 0.02

    wait_until(read_until_used)
    assert found[-1].durations is None
    assert found[-1].slot_seconds > 0


def test_bundle_in_sdk_harness_reports_only_its_duration() -> None:
    meter = CostMeter("s", is_embedded=False)
    use_cpu(0.02)
    found = decode_bundle_costs(meter.make_final_metrics()[1].payload)
    assert (found.cpu_seconds, found.peak_memory_bytes) == (None, None)
    assert found.slot_seconds > 0
    assert (read_progress(meter).cpu_seconds, read_progress(meter).durations) == (None, None)
