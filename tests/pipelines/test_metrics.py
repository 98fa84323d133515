"""Tests of user metrics, which are exact after the commit and grow while a job runs."""

from __future__ import annotations

import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import apache_beam as beam
from apache_beam.coders import VarIntCoder
from apache_beam.metrics import Metrics
from apache_beam.testing.test_stream import TestStream as Stream
from apache_beam.transforms import userstate
from apache_beam.transforms.window import FixedWindows, TimestampedValue
from apache_beam.utils.histogram import LinearBucket
from beam_runner_jobservices.client import JobClient
from beam_runner_jobservices.figures.step_metrics import compute_figures
from beam_runner_jobservices.figures.step_tree import StepTree
from beam_runner_jobservices.metric_values import decode_metric_value
from beam_runner_jobservices.wire.descriptions import describe_pipeline
from beam_runner_model.jobs import JobState
from jobs import Pipelines
from waiting import wait_until


class Measure(beam.DoFn):
    def __init__(self) -> None:
        self._count = Metrics.counter("test", "count")
        self._sizes = Metrics.distribution("test", "sizes")
        self._gauge = Metrics.gauge("test", "gauge")
        self._names = Metrics.string_set("test", "names")
        self._paths = Metrics.bounded_trie("test", "paths")
        self._buckets = Metrics.histogram("test", "buckets", LinearBucket(0, 10, 3))

    def process(self, element: int) -> None:
        self._count.inc(element)
        self._sizes.update(element)
        self._gauge.set(7)
        self._names.add("odd" if element % 2 else "even")
        self._paths.add(("all", "odd" if element % 2 else "even"))
        self._buckets.update(element)


def test_metrics_of_every_kind_have_exact_values(everywhere: Pipelines) -> None:
    pipeline = everywhere.new()
    pipeline | beam.Create(range(1, 21)) | beam.Reshuffle() | "Measure" >> beam.ParDo(Measure())
    job = everywhere.job(pipeline)
    assert job.wait() is JobState.DONE
    committed, attempted = job.metric("counters", "count")
    assert committed == attempted == sum(range(1, 21))
    for sizes in job.metric("distributions", "sizes"):
        assert (sizes.count, sizes.sum, sizes.min, sizes.max) == (20, 210, 1, 20)
    for gauge in job.metric("gauges", "gauge"):
        assert gauge.value == 7
    for names in job.metric("string_sets", "names"):
        assert set(names) == {"odd", "even"}
    for paths in job.metric("bounded_tries", "paths"):
        assert set(paths.flattened()) == {("all", "odd", False), ("all", "even", False)}
    with JobClient(job.address) as client:
        metrics = client.get_metrics(job.job_id)
    # Python's SDK doesn't report histograms as of Beam 2.77.
    for infos in (metrics.committed, metrics.attempted):
        times = [info for info in infos if info.urn.endswith("process_bundle_msecs:v1")]
        assert any("Measure" in info.labels["PTRANSFORM"] for info in times)
        assert not any("progress" in info.type for info in infos)


def test_ended_job_has_costs_and_durations_of_its_bundles(everywhere: Pipelines) -> None:
    pipeline = everywhere.new()
    (
        pipeline
        | beam.Create(range(20))
        | beam.Reshuffle()
        | beam.Map(lambda x: (x % 3, x))
        | (beam.GroupByKey())
    )
    job = everywhere.job(pipeline)
    assert job.wait() is JobState.DONE
    with JobClient(job.address) as client:
        metrics = client.get_metrics(job.job_id)
        tree = StepTree(describe_pipeline(client.get_pipeline(job.job_id)))
    stages = [one for one in compute_figures(metrics, tree).stages if one.committed]
    assert stages
    for stage in stages:
        took, msecs = stage.bundle_durations, stage.bundle_msecs
        assert took is not None and msecs is not None
        assert took.count == msecs.count
        assert took.min <= took.median <= took.p95 <= took.max
        # The distribution contains whole milliseconds.
        assert 0 <= took.min * 1000 - msecs.min + 0.01 < 1.1
        assert 0 <= took.max * 1000 - msecs.max + 0.01 < 1.1
        # Only embedded user code runs in the thread that is measured.
        is_measured = (stage.cpu_seconds is not None, stage.peak_memory_bytes is not None)
        assert is_measured == (everywhere.environment == "embedded",) * 2


class CountSetUps(beam.DoFn):
    def setup(self) -> None:
        Metrics.counter("test", "set_ups").inc()

    def process(self, element: int) -> Iterable[int]:
        Metrics.counter("test", "seen").inc()
        yield element


def test_metrics_query_of_a_program_returns_only_user_metrics(everywhere: Pipelines) -> None:
    pipeline = everywhere.new()
    counted = pipeline | beam.Create(range(5)) | beam.Reshuffle() | beam.ParDo(CountSetUps())
    counted | beam.Map(str)
    job = everywhere.job(pipeline)
    assert job.wait() is JobState.DONE
    found = job.result.metrics().query()
    counters = found.pop("counters")
    assert [(one.key.metric.name, one.committed) for one in counters] == [("seen", 5)]
    assert not any(found.values())


class CountAndWait(beam.DoFn):
    """DoFn that counts its elements, then waits for a file."""

    def __init__(self, go_on: Path) -> None:
        self._go_on = go_on
        self._count = Metrics.counter("test", "waited")

    def process(self, element: int) -> None:
        self._count.inc()
        while not self._go_on.exists():
            time.sleep(0.05)


def test_attempted_metrics_of_a_running_job_are_reported(
    pipelines: Pipelines, tmp_path: Path
) -> None:
    pipeline = pipelines.new()
    pipeline | beam.Create([1, 2]) | beam.ParDo(CountAndWait(tmp_path / "go on"))
    job = pipelines.job(pipeline)
    try:
        wait_until(
            lambda: (job.metric("counters", "waited")[1] or 0) >= 1, 60, "an attempted count"
        )
        assert not job.metric("counters", "waited")[0]
    finally:
        (tmp_path / "go on").touch()
    assert job.wait() is JobState.DONE
    assert job.metric("counters", "waited") == (2, 2)


def test_metrics_of_several_stages_are_summed(pipelines: Pipelines) -> None:
    class Tally(beam.DoFn):
        def process(self, element: int) -> list[tuple[int, int]]:
            Metrics.counter("test", "seen").inc()
            return [(element % 3, element)]

    pipeline = pipelines.new()
    tallied = pipeline | beam.Create(range(30)) | beam.ParDo(Tally())
    tallied | "one" >> beam.GroupByKey() | beam.Map(str)
    tallied | "two" >> beam.CombinePerKey(sum) | "text" >> beam.Map(str)
    job = pipelines.job(pipeline)
    assert job.wait() is JobState.DONE
    assert job.metric("counters", "seen") == (30, 30)


def test_late_values_are_counted_as_dropped(pipelines: Pipelines) -> None:
    stream = (
        Stream()
        .add_elements([TimestampedValue(("k", 1), 1)])
        .advance_watermark_to(10)
        .add_elements([TimestampedValue(("k", 2), 2), TimestampedValue(("k", 3), 12)])
        .advance_watermark_to_infinity()
    )
    pipeline = pipelines.new("--streaming")
    windows = beam.WindowInto(FixedWindows(10))
    pipeline | stream | windows | beam.GroupByKey() | "Count" >> beam.Map(str)
    job = pipelines.job(pipeline)
    assert job.wait() is JobState.DONE
    with JobClient(job.address) as client:
        infos = client.get_metrics(job.job_id).committed
    dropped = [info for info in infos if info.urn == "beam_spark:stage:dropped_values:v1"]
    assert [decode_metric_value(info) for info in dropped] == [1]


class Passing(beam.DoFn):
    """Stateful DoFn that passes elements on; late elements are dropped because of its state."""

    LAST = userstate.ReadModifyWriteStateSpec("last", VarIntCoder())

    def process(
        self, pair: tuple[str, int], last: Any = beam.DoFn.StateParam(LAST)
    ) -> Iterable[tuple[str, int]]:
        last.write(pair[1])
        Metrics.counter("test", "passed").inc()
        yield pair


def test_late_elements_of_a_stateful_step_are_processed_or_counted(
    pipelines: Pipelines,
) -> None:
    """Several late elements of a key arrive together, directly and through a Reshuffle."""
    late = [TimestampedValue(("k", time), time) for time in range(6)]
    timely = [TimestampedValue(("k", time), time) for time in (13, 14)]
    stream = Stream().advance_watermark_to(10).add_elements(late).add_elements(timely)
    pipeline = pipelines.new("--streaming")
    given = pipeline | stream.advance_watermark_to_infinity()
    ways = (given, given | beam.Reshuffle())
    ways | beam.Flatten() | beam.WindowInto(FixedWindows(10)) | "Pass" >> beam.ParDo(Passing())
    job = pipelines.job(pipeline)
    assert job.wait() is JobState.DONE
    with JobClient(job.address) as client:
        infos = client.get_metrics(job.job_id).committed
    dropped = [info for info in infos if info.urn == "beam_spark:stage:dropped_values:v1"]
    assert [decode_metric_value(info) for info in dropped] == [2 * len(late)]
    assert job.counter("passed") == 2 * len(timely)


def test_element_count_is_reported_for_each_pcollection(embedded: Pipelines) -> None:
    """The runner's web pages show the count of each PCollection."""
    pipeline = embedded.new()
    pipeline | beam.Create(range(5)) | beam.Map(lambda n: (n % 2, n)) | beam.GroupByKey()
    job = embedded.job(pipeline)
    assert job.wait() is JobState.DONE
    with JobClient(embedded.address) as client:
        infos = client.get_metrics(job.job_id).committed
    counts = [info for info in infos if info.urn == "beam:metric:element_count:v1"]
    assert len(counts) >= 2
    assert all("PCOLLECTION" in info.labels for info in counts)
