"""Tests of bundle metrics: user metrics and element counts, at the end and during a bundle."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.metrics import Metrics, monitoring_infos
from apache_beam.portability.api import metrics_pb2
from beam_runner_model.bundles import MonitoringInfo
from beam_runner_model.chunks import ElementChunk
from beam_runner_worker.samples import SAMPLED_ELEMENTS, decode_samples
from mini_runner import IMPULSE, EmptyArtifacts, Logs, MiniRunner, Plan, Port, Views, job

from beam_runner_embedded._protos import beam_fn_api_pb2
from beam_runner_embedded.harness import EmbeddedHarness

ELEMENT_COUNT = "beam:metric:element_count:v1"
SAMPLED_BYTE_SIZE = "beam:metric:sampled_byte_size:v1"


def value_of(info: MonitoringInfo) -> Any:
    """Returns the value, decoded by Beam's own functions."""
    proto = metrics_pb2.MonitoringInfo(
        urn=info.urn, type=info.type, labels=dict(info.labels), payload=info.payload
    )
    if monitoring_infos.is_counter(proto):
        return monitoring_infos.extract_counter_value(proto)
    if monitoring_infos.is_distribution(proto):
        count, total, low, high = monitoring_infos.extract_distribution(proto)
        return count, total, low, high
    if monitoring_infos.is_gauge(proto):
        return monitoring_infos.extract_gauge_value(proto)[1]
    return monitoring_infos.extract_string_set_value(proto)


class Measure(beam.DoFn):
    def start_bundle(self) -> None:
        Metrics.counter("space", "bundles").inc()

    def process(self, element: int) -> Iterator[int]:
        Metrics.counter("space", "seen").inc(2)
        Metrics.distribution("space", "sizes").update(element)
        Metrics.gauge("space", "last").set(element)
        Metrics.string_set("space", "parity").add("even" if element % 2 == 0 else "odd")
        yield element


class CountSetUps(beam.DoFn):
    def setup(self) -> None:
        Metrics.counter("space", "set_ups").inc()
        Metrics.counter("space", "both").inc()

    def process(self, element: bytes) -> None:
        Metrics.counter("space", "both").inc()


def test_counter_incremented_only_in_setup_is_not_reported() -> None:
    pipeline = beam.Pipeline()
    pipeline | beam.Impulse() | beam.ParDo(CountSetUps())
    plan = Plan(pipeline)
    (planned,) = plan.stages
    harness = EmbeddedHarness(job(), EmptyArtifacts(), Logs())
    stage = harness.get_stage_harness(planned.spec, Views(None, planned))
    for _ in range(2):
        result = stage.process_bundle("b", [ElementChunk(1, IMPULSE)], {})
        counters = {
            dict(info.labels)["NAME"]: value_of(info)
            for info in result.metrics
            if dict(info.labels).get("NAMESPACE") == "space"
        }
        assert counters == {"both": 1}
    harness.close()


def test_user_metrics_cover_one_bundle() -> None:
    pipeline = beam.Pipeline()
    numbers = pipeline | beam.Impulse() | beam.FlatMap(lambda _: range(1, 5))
    numbers | "Measure" >> beam.ParDo(Measure())
    plan = Plan(pipeline)
    (planned,) = plan.stages
    harness = EmbeddedHarness(job(), EmptyArtifacts(), Logs())
    stage = harness.get_stage_harness(planned.spec, Views(None, planned))
    for _ in range(2):
        result = stage.process_bundle("b", [ElementChunk(1, IMPULSE)], {})
        metrics = {}
        for info in result.metrics:
            labels = dict(info.labels)
            if labels.get("NAMESPACE") == "space":
                metrics[labels["NAME"]] = value_of(info)
                assert "Measure" in labels["PTRANSFORM"]
        assert metrics == {
            "bundles": 1,
            "seen": 8,
            "sizes": (4, 10, 1, 4),
            "last": 4,
            "parity": {"even", "odd"},
        }
    result = stage.process_bundle("b", [], {})
    distributions = [i for i in result.metrics if dict(i.labels).get("NAME") == "sizes"]
    assert distributions == []
    harness.close()


def test_element_counts_cover_every_pcollection() -> None:
    pipeline = beam.Pipeline()
    numbers = pipeline | beam.Create(range(7)) | "Twice" >> beam.FlatMap(lambda i: [(i % 2, i)] * 2)
    numbers | beam.GroupByKey() | "Sum" >> beam.MapTuple(lambda k, vs: sum(vs))
    outputs = numbers | beam.ParDo(Sides()).with_outputs("small", main="main")
    outputs.small | "Keep" >> beam.Map(lambda kv: kv)
    runner = MiniRunner(pipeline).run()
    counts: dict[str, int] = {}
    for stage, result in runner.results:
        descriptor = beam_fn_api_pb2.ProcessBundleDescriptor.FromString(stage.spec.descriptor)
        reported = {
            dict(info.labels)["PCOLLECTION"]: value_of(info)
            for info in result.metrics
            if info.urn == ELEMENT_COUNT
        }
        expected = {
            pcollection_id
            for transform in descriptor.transforms.values()
            for pcollection_id in transform.outputs.values()
        }
        assert set(reported) == expected
        sized = {
            dict(info.labels)["PCOLLECTION"]: value_of(info)
            for info in result.metrics
            if info.urn == SAMPLED_BYTE_SIZE
        }
        # The writer has already measured the sizes of a stage's input. No stage writes groups.
        for transform_id, transform in descriptor.transforms.items():
            for pcollection_id in transform.outputs.values():
                if "read/" not in transform_id or "GroupByKey" in transform_id:
                    count, total, low, high = sized[pcollection_id]
                    assert count > 0
                    assert 0 < low <= total / count <= high
        for transform_id, transform in descriptor.transforms.items():
            for tag, pcollection_id in transform.outputs.items():
                counts[f"{transform_id}.{tag}"] = reported[pcollection_id]

    def count(part: str) -> set[int]:
        return {number for name, number in counts.items() if part in name}

    assert count("Twice") == {14}
    assert count("read/GroupByKey") == {2}
    assert count("Sum") == {2}
    assert count("Keep") == {6}
    assert sorted(count("Sides")) == [6, 14]


def sleep(seconds: float) -> float:
    time.sleep(seconds)
    return seconds


def test_execution_times_cover_one_bundle() -> None:
    """The first bundle names each transform, and later bundles name transforms that took time."""
    pipeline = beam.Pipeline()
    numbers = pipeline | beam.Impulse() | "Times" >> beam.FlatMap(lambda _: [0.2, 0.2])
    _ = numbers | "Sleep" >> beam.Map(sleep) | "Quick" >> beam.Map(lambda seconds: seconds)
    (planned,) = Plan(pipeline).stages
    harness = EmbeddedHarness(job(), EmptyArtifacts(), Logs())
    stage = harness.get_stage_harness(planned.spec, Views(None, planned))
    for number in range(3):
        began = time.monotonic()
        result = stage.process_bundle("b", [ElementChunk(1, IMPULSE)], {})
        took = 1000 * (time.monotonic() - began)
        times = {
            (dict(info.labels)["PTRANSFORM"], info.urn.split(":")[-2]): value_of(info)
            for info in result.metrics
            if "msecs" in info.urn
        }
        (slept,) = (
            value
            for (name, kind), value in times.items()
            if (name, kind) == ("Sleep", "total_msecs")
        )
        assert 300 <= slept <= took + 200, times
        assert times["Sleep", "process_bundle_msecs"] <= slept
        assert not any(name.startswith(("read/", "write/")) for name, _ in times)
        if number == 0:
            assert {kind for name, kind in times if name == "Quick"} == {
                "start_bundle_msecs",
                "process_bundle_msecs",
                "finish_bundle_msecs",
                "total_msecs",
            }
    assert stage.process_bundle("b", [], {}).metrics
    harness.close()


def test_sampled_elements_are_returned_on_request() -> None:
    pipeline = beam.Pipeline()
    numbers = pipeline | beam.Impulse() | beam.FlatMap(lambda _: range(5)).with_output_types(int)
    _ = numbers | "Square" >> beam.Map(lambda i: i * i).with_output_types(int)
    (planned,) = Plan(pipeline).stages

    def sampled(**options: Any) -> list[Any]:
        harness = EmbeddedHarness(job(**options), EmptyArtifacts(), Logs())
        stage = harness.get_stage_harness(planned.spec, Views(None, planned))
        found: list[MonitoringInfo] = []
        for _ in range(2):
            result = stage.process_bundle("b", [ElementChunk(1, IMPULSE)], {})
            found += [info for info in result.metrics if info.urn == SAMPLED_ELEMENTS]
        harness.close()
        decode = beam.coders.VarIntCoder().decode
        return [(dict(i.labels)["PCOLLECTION"], *map(decode, decode_samples(i))) for i in found]

    assert sampled() == []
    experiment = {"beam:option:experiments:v1": ["enable_data_sampling"]}
    first = sampled(**experiment)
    assert len({pcollection for pcollection, *_ in first}) == 2
    assert all(0 <= element <= 16 for _, *elements in first for element in elements)
    # Each bundle takes a sample of each PCollection, and reports it once.
    assert len(first) == 4


def test_stages_share_one_sampling_thread() -> None:
    pipeline = beam.Pipeline()
    numbers = pipeline | beam.Create(range(3)) | "Key" >> beam.Map(lambda i: (i, i))
    _ = numbers | beam.GroupByKey() | "Ungroup" >> beam.FlatMapTuple(lambda k, vs: vs)
    MiniRunner(pipeline).run()
    assert sum(thread.name == "times" for thread in threading.enumerate()) == 1


class Sides(beam.DoFn):
    def process(self, element: tuple[int, int]) -> Iterator[Any]:
        yield element
        if element[1] < 3:
            yield beam.pvalue.TaggedOutput("small", element)


ENTERED = threading.Event()
GO_ON = threading.Event()


def wait_in_the_middle(element: int) -> int:
    Metrics.counter("space", "done").inc()
    if element == 2:
        ENTERED.set()
        assert GO_ON.wait(30)
    return element


def test_bundle_progress_is_reported_during_bundle() -> None:
    pipeline = beam.Pipeline()
    numbers = pipeline | beam.Impulse() | beam.FlatMap(lambda _: range(5))
    numbers | beam.Map(wait_in_the_middle) | "Key" >> beam.Map(lambda i: (i, i)) | beam.GroupByKey()
    plan = Plan(pipeline)
    planned = plan.stages[0]
    harness = EmbeddedHarness(job(), EmptyArtifacts(), Logs())
    stage = harness.get_stage_harness(planned.spec, Views(None, planned))
    assert stage.get_progress() is None
    ports = {name: Port() for name in planned.output_buffers}
    chunks = [ElementChunk(1, IMPULSE)]
    worker = threading.Thread(target=stage.process_bundle, args=("b", chunks, ports))
    worker.start()
    assert ENTERED.wait(30)
    progress = stage.get_progress()
    done = [value_of(i) for i in progress.metrics if dict(i.labels).get("NAME") == "done"]
    assert done == [3]
    assert progress.processed == 0.0
    GO_ON.set()
    worker.join(30)
    assert stage.get_progress() is None
    harness.close()


@pytest.mark.parametrize("bundles", [1, 3])
def test_counters_of_several_bundles_are_summed(bundles: int) -> None:
    pipeline = beam.Pipeline()
    numbers = pipeline | beam.Create(range(30)) | beam.Reshuffle()
    numbers | beam.ParDo(Measure())
    runner = MiniRunner(pipeline, chunks_per_bundle=bundles).run()
    assert runner.counters()["seen"] == 60
