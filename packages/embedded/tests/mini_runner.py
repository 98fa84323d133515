"""A small complete runner for tests: stages from Beam's translations, and dictionaries instead of
Spark.

Stages come from real pipelines and run in sequence through a harness. The data between stages is
the harness's own chunks, and a plain dictionary builds groups.
"""

from __future__ import annotations

import collections
import copy
import json
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import apache_beam as beam
import attrs
from apache_beam.coders import coder_impl
from apache_beam.portability import common_urns
from apache_beam.runners import pipeline_context
from apache_beam.runners.pipeline_utils import group_by_key_input_visitor
from apache_beam.runners.portability.fn_api_runner import translations
from apache_beam.runners.worker import bundle_processor
from apache_beam.utils.windowed_value import WindowedValue
from beam_runner_model.bundles import BundleResult
from beam_runner_model.chunks import ElementChunk, InputChunk, OutputChunk
from beam_runner_model.stages import (
    HarnessStage,
    InputEdge,
    InputKind,
    JobContext,
    OutputEdge,
    OutputKind,
)
from beam_runner_worker.log_records import LogRecord
from chunks import decode_elements, group_rows
from phases import FUSING

from beam_runner_embedded._protos import beam_fn_api_pb2, beam_runner_api_pb2
from beam_runner_embedded.harness import EmbeddedHarness

IMPULSE = b"\x7f\xdf;dZ\x1c\xac\t\x00\x00\x00\x01\x0f\x00"


class Logs:
    """A log sink that stores every record."""

    def __init__(self) -> None:
        self.records: list[LogRecord] = []

    def log_records(self, records: Iterable[LogRecord]) -> None:
        self.records.extend(records)


class EmptyArtifacts:
    """An artifact source without staged files."""

    def read_artifact(self, sha256: str) -> Iterator[bytes]:
        raise KeyError(sha256)


class Port:
    """A port that stores every chunk."""

    def __init__(self) -> None:
        self.chunks: list[OutputChunk] = []

    def write(self, chunk: OutputChunk) -> None:
        self.chunks.append(chunk)


def job(**options: Any) -> JobContext:
    return JobContext("job-1", "test", json.dumps(options), {})


@attrs.define
class PlannedStage:
    """A stage with the buffers that its edges read and write."""

    spec: HarnessStage
    input_buffer: bytes
    output_buffers: dict[str, bytes]
    side_inputs: dict[tuple[str, str], tuple[str, str]]
    """Mapping from (transform, tag) to (PCollection, access pattern)."""


class Plan:
    """The stages of a pipeline, in an executable order."""

    def __init__(
        self,
        pipeline: beam.Pipeline,
        phases: Iterable[Callable[..., Any]] = FUSING,
    ) -> None:
        # The client of every runner does this before it submits a pipeline.
        pipeline.visit(group_by_key_input_visitor(deterministic_key_coders=True))
        proto = pipeline.to_runner_api()
        known = frozenset(
            [common_urns.primitives.FLATTEN.urn, common_urns.primitives.GROUP_BY_KEY.urn]
        )
        context, stages = translations.create_and_optimize_stages(
            copy.deepcopy(proto), phases=phases, known_runner_urns=known
        )
        self.components = context.components
        self._view_buffers: dict[bytes, tuple[str, str]] = {}
        for stage in stages:
            for pcollection, pattern in _find_side_inputs(stage.transforms).values():
                self._view_buffers[translations.create_buffer_id(pcollection)] = (
                    pcollection,
                    pattern,
                )
        self.stages = [self._plan_stage(index, stage) for index, stage in enumerate(stages)]

    def windowed_coder(self, pcollection_id: str) -> Any:
        self._windowed_coder_id(pcollection_id)
        return pipeline_context.PipelineContext(self.components).coders.get_by_id(
            f"windowed_{pcollection_id}"
        )

    def _windowed_coder_id(self, pcollection_id: str) -> str:
        pcollection = self.components.pcollections[pcollection_id]
        strategy = self.components.windowing_strategies[pcollection.windowing_strategy_id]
        coder_id = f"windowed_{pcollection_id}"
        coder = self.components.coders[coder_id]
        coder.spec.urn = common_urns.coders.WINDOWED_VALUE.urn
        coder.component_coder_ids[:] = [pcollection.coder_id, strategy.window_coder_id]
        return coder_id

    def _plan_stage(self, index: int, stage: translations.Stage) -> PlannedStage:
        transforms, outputs, output_buffers = {}, [], {}
        for proto in stage.transforms:
            transform = beam_runner_api_pb2.PTransform()
            transform.CopyFrom(proto)
            transform_id = transform.unique_name
            if transform.spec.urn == bundle_processor.DATA_INPUT_URN:
                input_id, input_buffer = transform_id, bytes(transform.spec.payload)
                transform_id = input_id = f"read/{transform_id}"
                (pcollection_id,) = transform.outputs.values()
                transform.spec.payload = self._parse_port(pcollection_id)
            elif transform.spec.urn == bundle_processor.DATA_OUTPUT_URN:
                buffer = bytes(transform.spec.payload)
                transform_id = f"write/{transform_id}"
                (pcollection_id,) = transform.inputs.values()
                transform.spec.payload = self._parse_port(pcollection_id)
                outputs.append(self._create_output_edge(transform_id, buffer))
                output_buffers[transform_id] = buffer
            transforms[transform_id] = transform
        grouped = input_buffer.startswith(b"group:")
        descriptor = beam_fn_api_pb2.ProcessBundleDescriptor(
            id=f"stage-{index}",
            transforms=transforms,
            pcollections=dict(self.components.pcollections),
            coders=dict(self.components.coders),
            windowing_strategies=dict(self.components.windowing_strategies),
            environments=dict(self.components.environments),
        )
        spec = HarnessStage(
            stage_id=f"stage-{index}",
            name=stage.name,
            environment_id="",
            descriptor=descriptor.SerializeToString(),
            input=InputEdge(input_id, InputKind.GROUPS if grouped else InputKind.ELEMENTS),
            outputs=tuple(outputs),
        )
        return PlannedStage(spec, input_buffer, output_buffers, _find_side_inputs(stage.transforms))

    def _create_output_edge(self, transform_id: str, buffer: bytes) -> OutputEdge:
        if buffer.startswith(b"group:"):
            return OutputEdge(transform_id, OutputKind.KEYED)
        return OutputEdge(transform_id, OutputKind.ELEMENTS)

    def _parse_port(self, pcollection_id: str) -> bytes:
        coder_id = self._windowed_coder_id(pcollection_id)
        return beam_fn_api_pb2.RemoteGrpcPort(coder_id=coder_id).SerializeToString()


def _find_side_inputs(
    transforms: Iterable[beam_runner_api_pb2.PTransform],
) -> dict[tuple[str, str], tuple[str, str]]:
    found = {}
    for transform in transforms:
        if transform.spec.urn in translations.PAR_DO_URNS:
            payload = beam_runner_api_pb2.ParDoPayload.FromString(transform.spec.payload)
            for tag, side in payload.side_inputs.items():
                found[transform.unique_name, tag] = (
                    transform.inputs[tag],
                    side.access_pattern.urn,
                )
    return found


class MiniRunner:
    """A runner of a pipeline's stages in sequence through one harness.

    Args:
        pipeline: bounded pipeline without state and timers.
        logs: sink of log records.
        chunks_per_bundle: number of chunks per bundle.
        options: pipeline options.
    """

    def __init__(
        self,
        pipeline: beam.Pipeline,
        logs: Logs | None = None,
        chunks_per_bundle: int = 1_000_000,
        **options: Any,
    ) -> None:
        self.plan = Plan(pipeline)
        self.logs = logs or Logs()
        self.harness = EmbeddedHarness(
            job(**options), EmptyArtifacts(), self.logs, captures_prints=True
        )
        self.results: list[tuple[PlannedStage, BundleResult]] = []
        self.buffers: dict[bytes, list[OutputChunk]] = collections.defaultdict(list)
        self._chunks_per_bundle = chunks_per_bundle

    def run(self) -> MiniRunner:
        try:
            for stage in self.plan.stages:
                self.run_stage(stage)
        finally:
            self.harness.close()
        return self

    def run_stage(self, stage: PlannedStage) -> None:
        chunks = list(self.input_chunks(stage))
        harness = self.harness.get_stage_harness(stage.spec, Views(self, stage))
        ports = {name: Port() for name in stage.output_buffers}
        for start in range(0, max(1, len(chunks)), self._chunks_per_bundle):
            bundle = chunks[start : start + self._chunks_per_bundle]
            while True:
                result = harness.process_bundle(f"b{start}", bundle, ports)
                self.results.append((stage, result))
                if not result.residuals:
                    break
                time.sleep(max(residual.delay_ms for residual in result.residuals) / 1000)
                bundle = [ElementChunk(1, residual.element) for residual in result.residuals]
        for name, buffer in stage.output_buffers.items():
            self.buffers[buffer].extend(ports[name].chunks)

    def input_chunks(self, stage: PlannedStage) -> Iterator[InputChunk]:
        if stage.input_buffer == translations.IMPULSE_BUFFER:
            yield ElementChunk(1, IMPULSE)
        elif stage.spec.input.kind is InputKind.GROUPS:
            yield group_rows(self.buffers[stage.input_buffer], *self._find_windowing(stage))
        else:
            yield from self.buffers[stage.input_buffer]

    def elements(self, pcollection_id: str) -> list[WindowedValue]:
        """Returns the elements of a materialized PCollection, decoded by Beam's coder."""
        impl = self.plan.windowed_coder(pcollection_id).get_impl()
        return [
            element
            for chunk in self.buffers[translations.create_buffer_id(pcollection_id)]
            for element in decode_elements(impl, chunk)
        ]

    def counters(self) -> dict[str, int]:
        """Returns user counters by name, over all bundles."""
        sums: dict[str, int] = collections.defaultdict(int)
        for _, result in self.results:
            for info in result.metrics:
                if info.urn == "beam:metric:user:sum_int64:v1":
                    stream = coder_impl.create_InputStream(info.payload)
                    sums[dict(info.labels)["NAME"]] += stream.read_var_int64()
        return dict(sums)

    def _find_windowing(self, stage: PlannedStage) -> tuple[Any, bool]:
        """Returns the window coder of a stage's input, and whether its windows are sessions."""
        descriptor = beam_fn_api_pb2.ProcessBundleDescriptor.FromString(stage.spec.descriptor)
        (pcollection_id,) = descriptor.transforms[stage.spec.input.transform_id].outputs.values()
        strategy = descriptor.windowing_strategies[
            descriptor.pcollections[pcollection_id].windowing_strategy_id
        ]
        merges = strategy.merge_status == beam_runner_api_pb2.MergeStatus.NEEDS_MERGE
        return self.plan.windowed_coder(pcollection_id).window_coder, merges


class Views:
    """A reader of side inputs from the mini runner's buffers."""

    def __init__(self, runner: MiniRunner, stage: PlannedStage) -> None:
        self._runner = runner
        self._stage = stage
        self.calls: collections.Counter[str] = collections.Counter()

    def get_version(self, transform_id: str, tag: str) -> int:
        return 1

    def _read_rows(self, transform_id: str, tag: str, wanted: bytes) -> Iterator[tuple[Any, Any]]:
        pcollection_id, _ = self._stage.side_inputs[transform_id, tag]
        coder = self._runner.plan.windowed_coder(pcollection_id)
        window_impl = coder.window_coder.get_impl()
        for element in self._runner.elements(pcollection_id):
            for window_ in element.windows:
                if window_impl.encode_nested(window_) == wanted:
                    yield coder.wrapped_value_coder, element.value

    def read_iterable(self, transform_id: str, tag: str, window: bytes) -> bytes:
        self.calls["iterable"] += 1
        return b"".join(
            coder.get_impl().encode_nested(value)
            for coder, value in self._read_rows(transform_id, tag, window)
        )

    def _group_values(self, transform_id: str, tag: str, window: bytes) -> dict[bytes, list[bytes]]:
        groups: dict[bytes, list[bytes]] = {}
        for coder, (key, value) in self._read_rows(transform_id, tag, window):
            encoded = coder.key_coder().get_impl().encode_nested(key)
            groups.setdefault(encoded, []).append(
                coder.value_coder().get_impl().encode_nested(value)
            )
        return groups

    def read_values(self, transform_id: str, tag: str, window: bytes, key: bytes) -> bytes:
        self.calls["values"] += 1
        return b"".join(self._group_values(transform_id, tag, window).get(key, []))

    def read_keys(self, transform_id: str, tag: str, window: bytes) -> bytes:
        self.calls["keys"] += 1
        return b"".join(sorted(self._group_values(transform_id, tag, window)))

    def read_groups(self, transform_id: str, tag: str, window: bytes) -> bytes:
        self.calls["groups"] += 1
        return b"".join(
            b"".join((key, len(values).to_bytes(4), *values))
            for key, values in self._group_values(transform_id, tag, window).items()
        )


def run(pipeline: beam.Pipeline, **kwargs: Any) -> MiniRunner:
    """Runs the pipeline, and checks that every ``assert_that`` in it has run."""
    runner = MiniRunner(pipeline, **kwargs).run()
    asserted = 0
    for stage, result in runner.results:
        counts = {
            dict(info.labels)["PCOLLECTION"]: int.from_bytes(info.payload)
            for info in result.metrics
            if info.urn == "beam:metric:element_count:v1"
        }
        for transform in find_transform_ids(stage.spec.descriptor):
            if transform.unique_name.endswith("/Match"):
                (seen,) = transform.inputs.values()
                assert counts[seen] == 1
                asserted += 1
    assert asserted
    return runner


def find_transform_ids(descriptor: bytes) -> Iterable[Any]:
    from beam_runner_embedded._protos import beam_fn_api_pb2

    return beam_fn_api_pb2.ProcessBundleDescriptor.FromString(descriptor).transforms.values()
