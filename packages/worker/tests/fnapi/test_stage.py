"""Tests of a stage's results, metrics, progress and errors, and of its reaction to wrong SDK
messages.
"""

from __future__ import annotations

import json
import struct
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import apache_beam as beam
import pytest
from apache_beam.metrics import Metrics
from apache_beam.transforms.userstate import BagStateSpec
from beam_runner_model.bundles import BundleResult, MonitoringInfo
from beam_runner_model.chunks import InputChunk
from beam_runner_model.stages import OutputKind
from beam_runner_model.varints import decode_varint
from tiny_host import IMPULSE_HEADER, Chunks, TinyHost, elements, new_pipeline, pickle_by_value
from waiting import wait_until

from beam_runner_worker.errors import BundleError, HarnessError

pytestmark = pytest.mark.timeout(120)
pickle_by_value(__name__)


def one_stage(pipeline: beam.Pipeline) -> tuple[TinyHost, object]:
    host = TinyHost(pipeline)
    (spec,) = host.specs
    return host, spec


def metric(infos: tuple[MonitoringInfo, ...], name: str) -> list[MonitoringInfo]:
    return [info for info in infos if dict(info.labels).get("NAME") == name]


def varints(payload: bytes) -> list[int]:
    found, position = [], 0
    while position < len(payload):
        value, position = decode_varint(payload, position)
        found.append(value)
    return found


class Measures(beam.DoFn):
    def process(self, element):
        n = len(element)
        Metrics.counter("ns", "count").inc(n)
        Metrics.distribution("ns", "spread").update(n)
        Metrics.gauge("ns", "level").set(n)
        Metrics.string_set("ns", "names").add(f"n{n}")


def test_user_metrics_of_all_kinds_are_returned(serve):
    host, spec = one_stage(_then(beam.ParDo(Measures()), "Measure"))
    stage = (
        serve(host).get_harness(spec.environment_id).get_stage_harness(spec, host.side_inputs(spec))
    )
    for lengths in ([1, 2, 9], [300 % 128, 3]):
        result = stage.process_bundle("b", [elements(*(b"x" * n for n in lengths))], {})
        assert isinstance(result, BundleResult)
        (count,) = metric(result.metrics, "count")
        assert count.urn == "beam:metric:user:sum_int64:v1"
        assert count.type == "beam:metrics:sum_int64:v1"
        assert dict(count.labels)["NAMESPACE"] == "ns"
        assert dict(count.labels)["PTRANSFORM"] == "Measure"
        assert varints(count.payload) == [sum(lengths)]
        (spread,) = metric(result.metrics, "spread")
        assert varints(spread.payload)[:4] == [
            len(lengths),
            sum(lengths),
            min(lengths),
            max(lengths),
        ]
        (level,) = metric(result.metrics, "level")
        assert varints(level.payload)[1] == lengths[-1]
        (names,) = metric(result.metrics, "names")
        assert names.urn == "beam:metric:user:set_string:v1"
        assert all(f"n{n}".encode() in names.payload for n in lengths)
    counts = [i for i in result.metrics if i.urn == "beam:metric:element_count:v1"]
    assert any(varints(each.payload) == [2] for each in counts)
    assert not result.requires_finalization


def _then(transform: beam.PTransform, label: str) -> beam.Pipeline:
    p = new_pipeline()
    p | beam.Impulse() | label >> transform
    return p


class Waits(beam.DoFn):
    """A DoFn that counts an element, then waits until a file exists."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def process(self, element):
        Metrics.counter("ns", "begun").inc()
        Path(f"{self.path}.begun").touch()
        while not self.path.exists():
            time.sleep(0.01)


def fail_on_x(element):
    if element == b"x":
        raise ValueError("no x please")
    return element


def test_user_exception_names_transform_and_leaves_harness_usable(serve):
    p = new_pipeline()
    p | beam.Impulse() | "Outer" >> _Composite() | beam.Map(lambda x: None)
    host, spec = one_stage(p)
    stage = (
        serve(host).get_harness(spec.environment_id).get_stage_harness(spec, host.side_inputs(spec))
    )
    for _ in range(2):
        with pytest.raises(BundleError) as caught:
            stage.process_bundle("b", [elements(b"a", b"x")], {})
        assert caught.value.transform == "Outer/Inner"
        assert caught.value.summary == "ValueError: no x please"
        assert "in fail_on_x" in caught.value.trace
        stage.process_bundle("b", [elements(b"a", b"b")], {})


class _Composite(beam.PTransform):
    def expand(self, pcoll):
        return pcoll | "Inner" >> beam.Map(fail_on_x)


def test_failure_ends_bundle_with_endless_input(serve):
    host, spec = one_stage(_then(beam.Map(fail_on_x), "Fail"))
    stage = (
        serve(host).get_harness(spec.environment_id).get_stage_harness(spec, host.side_inputs(spec))
    )

    def endless() -> Iterator[InputChunk]:
        yield elements(b"x")
        while True:
            yield elements(b"y" * 100, *[b"z" * 100] * 100_000)

    with pytest.raises(BundleError, match="no x please"):
        stage.process_bundle("b", endless(), {})
    stage.process_bundle("b", [elements(b"a")], {})


def test_bundle_with_failing_input_leaves_harness_usable(serve):
    host = TinyHost(_then_keep())
    spec = host.specs[0]
    stage = (
        serve(host).get_harness(spec.environment_id).get_stage_harness(spec, host.side_inputs(spec))
    )

    def broken() -> Iterator[InputChunk]:
        yield elements(*[b"y" * 100] * 20_000)
        raise OSError("the host's own trouble")

    for _ in range(3):
        with pytest.raises(OSError, match="own trouble"):
            stage.process_bundle("b", broken(), _sinks(spec))
    sinks = _sinks(spec)
    stage.process_bundle("b", [elements(b"a", b"b")], sinks)
    (chunks,) = sinks.values()
    assert sum(chunk.count for chunk in chunks.chunks) == 2


def _then_keep() -> beam.Pipeline:
    """Returns two stages, the first of which has one output."""
    p = new_pipeline()
    kept = p | beam.Impulse() | beam.Map(lambda x: x)
    kept | beam.Reshuffle() | beam.Map(lambda x: None)
    return p


def _sinks(spec) -> dict[str, Chunks]:
    return {edge.transform_id: _AnyChunks() for edge in spec.outputs}


class _AnyChunks(Chunks):
    def write(self, chunk) -> None:
        self.chunks.append(chunk)


def test_bundle_with_failing_output_leaves_harness_usable(serve):
    host = TinyHost(_then_keep())
    spec = host.specs[0]
    stage = (
        serve(host).get_harness(spec.environment_id).get_stage_harness(spec, host.side_inputs(spec))
    )

    class Full:
        def write(self, chunk) -> None:
            raise OSError("disk full")

    ports = {edge.transform_id: Full() for edge in spec.outputs}
    with pytest.raises(OSError, match="disk full"):
        stage.process_bundle("b", [elements(b"a")], ports)
    sinks = _sinks(spec)
    stage.process_bundle("b", [elements(b"a", b"b")], sinks)
    assert sum(chunk.count for chunk in next(iter(sinks.values())).chunks) == 2


def test_bundle_with_large_input_and_output_completes(serve):
    """20 MB of input and 60 MB of output exceed all buffers. Checks that no thread blocks forever
    if the runner writes slowly.
    """
    p = new_pipeline()
    out = p | beam.Impulse() | beam.FlatMap(lambda x: [x] * 3)
    out | beam.Reshuffle() | beam.Map(lambda x: None)
    host = TinyHost(p)
    spec = host.specs[0]
    stage = (
        serve(host).get_harness(spec.environment_id).get_stage_harness(spec, host.side_inputs(spec))
    )

    class Slow(_AnyChunks):
        def write(self, chunk) -> None:
            super().write(chunk)
            time.sleep(0.005)

    ports = {edge.transform_id: Slow() for edge in spec.outputs}
    each = elements(*[b"y" * 10_000] * 100)
    stage.process_bundle("b", (each for _ in range(20)), ports)
    (port,) = ports.values()
    assert sum(chunk.count for chunk in port.chunks) == 3 * 20 * 100
    assert {edge.kind for edge in spec.outputs} == {OutputKind.KEYED}


def test_harness_runs_concurrent_bundles(serve, tmp_path: Path):
    go_on = tmp_path / "go"
    p = new_pipeline()
    p | beam.Impulse() | "Wait" >> beam.ParDo(Waits(go_on))
    p | "Other" >> beam.Impulse() | "Count" >> beam.ParDo(Measures())
    host = TinyHost(p)
    harness = serve(host).get_harness(host.specs[0].environment_id)
    waiting, other = (
        harness.get_stage_harness(spec, host.side_inputs(spec)) for spec in host.specs
    )
    if "Wait" not in host.specs[0].name:
        waiting, other = other, waiting
    thread = threading.Thread(target=waiting.process_bundle, args=("b", [elements(b"x")], {}))
    thread.start()
    wait_until((tmp_path / "go.begun").exists)
    result = other.process_bundle("c", [elements(b"xyz")], {})
    assert varints(metric(result.metrics, "count")[0].payload) == [3]
    assert thread.is_alive()
    go_on.touch()
    thread.join(30)
    assert not thread.is_alive()


class Stateful(beam.DoFn):
    BAG = BagStateSpec("bag", beam.coders.VarIntCoder())

    def process(self, element, bag=beam.DoFn.StateParam(BAG)):  # noqa: B008
        bag.add(1)
        yield len(list(bag.read()))


def test_user_state_missing_in_runner_is_reported_by_name(serve):
    p = new_pipeline()
    p | beam.Impulse() | beam.Map(lambda x: (x, x)) | "Keep" >> beam.ParDo(Stateful())
    host = TinyHost(p)
    server = serve(host)
    with pytest.raises(HarnessError, match="the stage runs without"):
        host.run(server.get_harness)


@pytest.mark.parametrize("size", [10, 2000])
def test_side_inputs_of_several_pages_are_read(serve, tmp_path: Path, size: int):
    """10,000 elements of 2,000 bytes are about 20 pages."""
    out = tmp_path / "out"
    p = new_pipeline()
    many = (
        p
        | beam.Create(["x"])
        | beam.FlatMap(lambda _: ((i % 3, f"{i:0{size}}") for i in range(10_000)))
    )
    pairs = many | beam.Map(lambda pair: pair)

    def check(_, everything, groups, path=str(out)):
        numbers = sorted(int(text) for _, text in everything)
        in_groups = {key: sorted(int(text) for text in groups[key]) for key in range(3)}
        Path(path).write_text(json.dumps([numbers, sorted(in_groups.items())]))

    (
        p
        | "One" >> beam.Create([1])
        | beam.Map(check, beam.pvalue.AsIter(many), beam.pvalue.AsMultiMap(pairs))
    )
    host = TinyHost(p)
    host.run(serve(host).get_harness)
    numbers, groups = json.loads(out.read_text())
    assert numbers == list(range(10_000))
    assert groups == [[key, list(range(key, 10_000, 3))] for key in range(3)]


def use(_, ones):
    return list(ones)


def use_or_give_up(_, ones):
    try:
        return list(ones)
    except Exception:
        return []


@pytest.mark.parametrize("user", [use, use_or_give_up])
def test_side_input_error_of_runner_fails_bundle_unchanged(serve, user):
    p = new_pipeline()
    side = p | beam.Create([1])
    p | beam.Impulse() | "Use" >> beam.Map(user, beam.pvalue.AsIter(side))
    host = TinyHost(p)
    (spec,) = [spec for spec in host.specs if "Use" in spec.name]

    class Gone:
        def read_iterable(self, transform_id: str, tag: str, window: bytes) -> bytes:
            raise OSError("the file is gone")

    stage = serve(host).get_harness(spec.environment_id).get_stage_harness(spec, Gone())
    with pytest.raises(OSError, match="the file is gone"):
        stage.process_bundle("b", host.inputs(spec), host.outputs(spec))


def test_bundle_on_closed_harness_raises_clear_error(serve):
    host, spec = one_stage(_then(beam.ParDo(Measures()), "Measure"))
    harness = serve(host).get_harness(spec.environment_id)
    stage = harness.get_stage_harness(spec, host.side_inputs(spec))
    stage.process_bundle("b", [elements(b"x")], {})
    harness.close()
    harness.close()
    with pytest.raises(HarnessError, match="closed"):
        stage.process_bundle("b", [elements(b"x")], {})
    with pytest.raises(HarnessError, match="closed"):
        harness.get_stage_harness(spec, host.side_inputs(spec))


def test_impulse_header_has_minimum_timestamp():
    assert struct.unpack(">Q", IMPULSE_HEADER[:8])[0] - (1 << 63) == -9_223_372_036_854_775
