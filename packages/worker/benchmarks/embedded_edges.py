"""Measures what an element costs in the embedded harness against Beam's own data operations.

Run it as ``python benchmarks/embedded_edges.py [elements]``. Each stage is an identity Map, fed with
one blob and writing blobs, in one process; every figure is the best of several rounds that take
turns. The machine's noise goes into the nanoseconds; the ratio is what to look at.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable
from typing import Any

import apache_beam as beam
from apache_beam.coders import coder_impl, coders
from apache_beam.portability import common_urns
from apache_beam.runners.worker import bundle_processor, data_plane, statesampler
from apache_beam.runners.worker.sdk_worker import ThrowingStateHandler
from apache_beam.transforms import window
from apache_beam.utils.windowed_value import WindowedValue
from beam_runner_model.chunks import ElementChunk, GroupChunk, InputChunk
from beam_runner_model.stages import (
    HarnessStage,
    InputEdge,
    InputKind,
    JobContext,
    OutputEdge,
    OutputKind,
)

from beam_runner_worker._protos import beam_fn_api_pb2, beam_runner_api_pb2
from beam_runner_worker.embedded.harness import EmbeddedHarness

ROUNDS = 7


class Nowhere:
    """A port, log sink and artifact reader without a host."""

    written = 0

    def write(self, chunk: Any) -> None:
        self.written += chunk.count

    def log(self, records: Iterable[Any]) -> None:
        pass

    def read(self, sha256: str) -> Any:
        raise KeyError(sha256)


def descriptor_of(
    transform: beam.PTransform, coder: coders.Coder, input_coder: coders.Coder | None = None
) -> beam_fn_api_pb2.ProcessBundleDescriptor:
    """A stage of a source, the one ParDo that ``transform`` is, and a sink."""
    pipeline = beam.Pipeline()
    out = pipeline | beam.Impulse() | "Step" >> transform
    out.element_type = Any
    proto, context = pipeline.to_runner_api(return_context=True)
    (step,) = (
        t
        for t in proto.components.transforms.values()
        if t.spec.urn == common_urns.primitives.PAR_DO.urn
    )
    windows = coders.GlobalWindowCoder()
    ids = [
        context.coders.get_id(coders.WindowedValueCoder(c, windows))
        for c in (input_coder or coder, coder)
    ]
    components = context.to_runner_api()
    ports = [beam_fn_api_pb2.RemoteGrpcPort(coder_id=i).SerializeToString() for i in ids]
    (input_id,), (output_id,) = step.inputs.values(), step.outputs.values()
    pcollections = dict(components.pcollections)
    for pcollection_id, coder_id in ((input_id, ids[0]), (output_id, ids[1])):
        pcollections[pcollection_id].coder_id = coder_id

    def edge(urn: str, payload: bytes, **kwargs: Any) -> beam_runner_api_pb2.PTransform:
        spec = beam_runner_api_pb2.FunctionSpec(urn=urn, payload=payload)
        return beam_runner_api_pb2.PTransform(unique_name=urn, spec=spec, **kwargs)

    return beam_fn_api_pb2.ProcessBundleDescriptor(
        id="stage",
        transforms={
            "source": edge("beam:runner:source:v1", ports[0], outputs={"out": input_id}),
            "step": step,
            "sink": edge("beam:runner:sink:v1", ports[1], inputs={"in": output_id}),
        },
        pcollections=pcollections,
        coders=dict(components.coders),
        windowing_strategies=dict(components.windowing_strategies),
        environments=dict(components.environments),
    )


class StockChannel:
    """A data channel factory and channel that hands out streams which drop what they get."""

    def create_data_channel(self, port: Any) -> StockChannel:
        return self

    def output_stream(self, *_: Any) -> Any:
        return data_plane.SizeBasedBufferingClosableOutputStream(flush_callback=lambda data: None)


def stock(descriptor: beam_fn_api_pb2.ProcessBundleDescriptor) -> Callable[[bytes], None]:
    """Beam's operations, without the sampling thread, which would only blur the figures."""
    processor = bundle_processor.BundleProcessor(
        frozenset(), descriptor, ThrowingStateHandler(), StockChannel()
    )
    (source,) = (
        op for op in processor.ops.values() if isinstance(op, bundle_processor.DataInputOperation)
    )

    def run(blob: bytes) -> None:
        processor.reset()
        for op in processor.ops.values():
            if isinstance(op, bundle_processor.DataOutputOperation):
                op.set_output_stream(StockChannel().output_stream())
        statesampler.set_current_tracker(processor.state_sampler)
        for op in reversed(processor.ops.values()):
            op.start()
        source.process_encoded(blob)
        for op in processor.ops.values():
            op.finish()

    return run


def embedded(
    descriptor: beam_fn_api_pb2.ProcessBundleDescriptor, input_kind: InputKind, edge: OutputEdge
) -> Callable[[list[InputChunk]], None]:
    """The embedded harness on the same stage."""
    nowhere = Nowhere()
    harness = EmbeddedHarness(JobContext("job", "job", "{}", {}), nowhere, nowhere)
    source = InputEdge("source", input_kind)
    spec = HarnessStage("stage", "stage", "", descriptor.SerializeToString(), source, (edge,))
    stage = harness.stage(spec, None)

    def run(chunks: list[InputChunk]) -> None:
        stage.process_bundle("b", chunks, {"sink": nowhere})

    return run


def best(runs: dict[str, tuple[Callable[[Any], None], Any]], count: int) -> dict[str, float]:
    """The best nanoseconds per element of each; they take turns."""
    seconds = dict.fromkeys(runs, float("inf"))
    for _ in range(ROUNDS):
        for name, (run, argument) in runs.items():
            start = time.process_time()
            run(argument)
            seconds[name] = min(seconds[name], time.process_time() - start)
    return {name: spent / count * 1e9 for name, spent in seconds.items()}


def chunks_of(elements: list[WindowedValue], impl: Any) -> list[InputChunk]:
    """Element chunks of about a MiB."""
    chunks, stream, count = [], coder_impl.create_OutputStream(), 0
    for element in elements:
        impl.encode_to_stream(element, stream, True)
        count += 1
        if stream.size() >= 1 << 20:
            chunks.append(ElementChunk(count, stream.get()))
            stream, count = coder_impl.create_OutputStream(), 0
    return [*chunks, ElementChunk(count, stream.get())]


CASES: dict[str, tuple[coders.Coder, Callable[[int], Any]]] = {
    "bytes": (coders.BytesCoder(), lambda i: b"element %d" % i),
    "KV": (
        coders.TupleCoder((coders.StrUtf8Coder(), coders.VarIntCoder())),
        lambda i: (f"key {i % 1000}", i),
    ),
    "object": (coders.FastPrimitivesCoder(), lambda i: {"id": i, "name": f"n{i}", "tags": ["a"]}),
}


def element_cases(count: int) -> None:
    """Elements in, elements and keyed chunks out."""
    identity = beam.Map(lambda element: element)
    for name, (coder, value) in CASES.items():
        windowed = coders.WindowedValueCoder(coder, coders.GlobalWindowCoder())
        elements = [window.GlobalWindows.windowed_value(value(i)) for i in range(count)]
        chunks = chunks_of(elements, windowed.get_impl())
        blob = b"".join(chunk.data for chunk in chunks)
        descriptor = descriptor_of(identity, coder)
        runs: dict[str, Any] = {"stock": (stock(descriptor), blob)}
        edges = {
            "elements": OutputEdge("sink", OutputKind.ELEMENTS),
        }
        if name == "KV":
            edges["keyed"] = OutputEdge("sink", OutputKind.KEYED, timestamps=False)
            edges["keyed+times"] = OutputEdge("sink", OutputKind.KEYED)
        for label, edge in edges.items():
            runs[label] = (embedded(descriptor, InputKind.ELEMENTS, edge), chunks)
        show(name, best(runs, count))


def group_case(count: int) -> None:
    """Groups of ten small values in, elements out; figures are per group."""
    values = coders.IterableCoder(coders.VarIntCoder())
    input_coder = coders.TupleCoder((coders.StrUtf8Coder(), values))
    output_coder = coders.TupleCoder((coders.StrUtf8Coder(), coders.VarIntCoder()))
    descriptor = descriptor_of(beam.MapTuple(lambda k, vs: (k, sum(vs))), output_coder, input_coder)
    windowed = coders.WindowedValueCoder(input_coder, coders.GlobalWindowCoder())
    groups = [(f"key {i}", list(range(10))) for i in range(count)]
    blob = b"".join(
        chunk.data
        for chunk in chunks_of(
            [window.GlobalWindows.windowed_value(g) for g in groups], windowed.get_impl()
        )
    )
    key_impl = coders.StrUtf8Coder().get_impl()
    chunk = GroupChunk(
        keys=[key_impl.encode_nested(key) for key, _ in groups],
        windows=b"",
        timestamps=[window.GlobalWindow().max_timestamp().micros // 1000] * count,
        counts=[10] * count,
        values=[bytes(range(10))] * count,
        pane=b"\x0f",
    )
    edge = OutputEdge("sink", OutputKind.ELEMENTS)
    runs = {
        "stock": (stock(descriptor), blob),
        "elements": (embedded(descriptor, InputKind.GROUPS, edge), [chunk]),
    }
    show("groups", best(runs, count))


def show(name: str, figures: dict[str, float]) -> None:
    """One line: nanoseconds per element, and how many times faster than stock."""
    base = figures["stock"]
    parts = (f"{label} {ns:.0f} ns ({base / ns:.2f}x)" for label, ns in figures.items())
    print(f"{name:8}", ", ".join(parts))


if __name__ == "__main__":
    size = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
    element_cases(size)
    group_case(size // 4)
