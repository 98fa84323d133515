"""A small runner for tests, which runs bounded pipelines stage by stage on any harness. The runner
stores all data in memory, and supports only non-merging windows and the default trigger. Tests of a
harness need no more.
"""

from __future__ import annotations

import copy
import itertools
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping

import apache_beam as beam
import life
from apache_beam.internal.cloudpickle import cloudpickle
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.portability.api import beam_fn_api_pb2, beam_runner_api_pb2, endpoints_pb2
from apache_beam.runners.portability.fn_api_runner import translations
from beam_runner_model.bundles import BundleResult
from beam_runner_model.chunks import ElementChunk, GroupChunk, InputChunk, KeyedChunk, OutputChunk
from beam_runner_model.stages import (
    Environment,
    HarnessStage,
    InputEdge,
    InputKind,
    JobContext,
    OutputEdge,
    OutputKind,
)
from beam_runner_urns import side_inputs as access_patterns
from beam_runner_urns import transforms as urns
from phases import FUSING

from beam_runner_worker.log_records import LogRecord
from beam_runner_worker.ports import Harness

GLOBAL_MAX_MS = 9_223_371_950_454_775
MIN_MS = -9_223_372_036_854_775
SHIFT = 1 << 63
LAST_ON_TIME_PANE = b"\x0f"
IMPULSE_HEADER = (MIN_MS + SHIFT).to_bytes(8, "big") + b"\x00\x00\x00\x01" + LAST_ON_TIME_PANE


def elements(*values: bytes) -> ElementChunk:
    """Returns impulses with other content than usual."""
    data = b"".join(IMPULSE_HEADER + _encode_varint(len(value)) + value for value in values)
    return ElementChunk(len(values), data)


def _encode_varint(number: int) -> bytes:
    low = number & 0x7F
    return bytes([low]) if number < 0x80 else bytes([low | 0x80]) + _encode_varint(number >> 7)


class Logs:
    """A sink that stores log records."""

    def __init__(self) -> None:
        self.records: list[LogRecord] = []

    def log_records(self, records: Iterable[LogRecord]) -> None:
        self.records.extend(records)

    @property
    def messages(self) -> str:
        return "\n".join(record.message for record in self.records)


class Artifacts:
    """Artifacts in memory, by hash."""

    def __init__(self, files: Mapping[str, bytes] | None = None) -> None:
        self.files = dict(files or {})

    def read_artifact(self, sha256: str) -> Iterator[bytes]:
        data = self.files[sha256]
        for begin in range(0, len(data), 1 << 20):
            yield data[begin : begin + (1 << 20)]


def external(endpoint: str) -> Environment:
    """Returns an EXTERNAL environment."""
    payload = beam_runner_api_pb2.ExternalPayload(
        endpoint=endpoints_pb2.ApiServiceDescriptor(url=endpoint)
    )
    return Environment("beam:env:external:v1", payload.SerializeToString())


def create_job(
    environment: Environment, options_json: str = "{}", environments: Iterable[str] = ()
) -> JobContext:
    """Returns a job in which all environments are ``environment``."""
    names = [*environments] or ["env"]
    return JobContext("job-1", "a job", options_json, dict.fromkeys(names, environment))


class Rows:
    """Rows written to a keyed output. Also a SideInputReader for one side input."""

    def __init__(self) -> None:
        self.rows: list[tuple[bytes, bytes, bytes, int]] = []
        self.chunks: list[KeyedChunk] = []

    def write(self, chunk: OutputChunk) -> None:
        assert isinstance(chunk, KeyedChunk)
        self.chunks.append(chunk)
        key_begins = [0, *chunk.key_ends]
        value_begins = [0, *chunk.value_ends]
        for i in range(chunk.count):
            window = chunk.windows if isinstance(chunk.windows, bytes) else chunk.windows[i]
            time = MIN_MS if chunk.timestamps is None else chunk.timestamps[i]
            key = chunk.key_data[key_begins[i] : chunk.key_ends[i]]
            value = chunk.value_data[value_begins[i] : chunk.value_ends[i]]
            self.rows.append((key, value, window, time))

    def elements(self) -> Iterator[InputChunk]:
        for key, value, window, time in self.rows:
            header = (time + SHIFT).to_bytes(8, "big") + b"\x00\x00\x00\x01" + window
            yield ElementChunk(1, header + LAST_ON_TIME_PANE + key + value)

    def groups(self) -> Iterator[InputChunk]:
        groups: dict[tuple[bytes, bytes], list[bytes]] = defaultdict(list)
        for key, value, window, _ in self.rows:
            groups[key, window].append(value)
        ends = [
            int.from_bytes(window[:8], "big") - SHIFT - 1 if window else GLOBAL_MAX_MS
            for _, window in groups
        ]
        if groups:
            yield GroupChunk(
                keys=[key for key, _ in groups],
                windows=[window for _, window in groups],
                timestamps=ends,
                counts=[len(values) for values in groups.values()],
                values=[b"".join(values) for values in groups.values()],
                pane=LAST_ON_TIME_PANE,
            )


class Chunks:
    """Chunks written to an output of elements."""

    def __init__(self) -> None:
        self.chunks: list[ElementChunk] = []

    def write(self, chunk: OutputChunk) -> None:
        assert isinstance(chunk, ElementChunk)
        if chunk.ends is not None:
            assert len(chunk.ends) == chunk.count
            assert chunk.ends[-1] == len(chunk.data)
        self.chunks.append(chunk)

    def elements(self) -> Iterator[InputChunk]:
        yield from self.chunks


class SideInputs:
    """The side inputs of a stage, from the rows of the outputs."""

    def __init__(self, rows: Mapping[tuple[str, str], Rows]) -> None:
        self._rows = rows

    def get_version(self, transform_id: str, tag: str) -> int:
        return 0

    def read_iterable(self, transform_id: str, tag: str, window: bytes) -> bytes:
        rows = self._rows[transform_id, tag].rows
        return b"".join(value for _, value, where, _ in rows if where == window)

    def read_values(self, transform_id: str, tag: str, window: bytes, key: bytes) -> bytes:
        rows = self._rows[transform_id, tag].rows
        return b"".join(value for each, value, where, _ in rows if where == window and each == key)

    def read_keys(self, transform_id: str, tag: str, window: bytes) -> bytes:
        rows = self._rows[transform_id, tag].rows
        return b"".join(dict.fromkeys(key for key, _, where, _ in rows if where == window))

    def read_groups(self, transform_id: str, tag: str, window: bytes) -> bytes:
        groups: dict[bytes, list[bytes]] = defaultdict(list)
        for key, value, where, _ in self._rows[transform_id, tag].rows:
            if where == window:
                groups[key].append(value)
        return b"".join(
            b"".join((key, len(values).to_bytes(4), *values)) for key, values in groups.items()
        )


class TinyHost:
    """A runner of one pipeline.

    Attributes:
        specs: specifications of all stages in order, after planning.
        results: results of the first bundle of every stage, by stage name.
    """

    def __init__(self, pipeline: beam.Pipeline) -> None:
        proto = copy.deepcopy(pipeline.to_runner_api())
        self._context, self._stages = translations.create_and_optimize_stages(
            proto,
            phases=[
                translations.annotate_stateful_dofns_as_roots,
                *FUSING,
                translations.populate_data_channel_coders,
            ],
            known_runner_urns=frozenset({urns.FLATTEN, urns.GROUP_BY_KEY}),
        )
        self._components = self._context.components
        self._numbers = itertools.count()
        self.buffers: dict[bytes, Rows | Chunks] = {}
        self.results: dict[str, BundleResult] = {}
        self._side_input_buffers = self._find_side_inputs()
        self.specs = [self._create_spec(stage) for stage in self._stages]

    @property
    def environment_ids(self) -> list[str]:
        return list(self._components.environments)

    def _find_side_inputs(self) -> dict[bytes, str]:
        """Finds the access pattern of every buffer that is read as a side input."""
        found = {}
        for stage in self._stages:
            for transform in stage.transforms:
                for tag, pcollection in translations.side_inputs(transform).items():
                    payload = beam_runner_api_pb2.ParDoPayload.FromString(transform.spec.payload)
                    pattern = payload.side_inputs[tag].access_pattern.urn
                    found[translations.create_buffer_id(pcollection)] = pattern
        return found

    def _create_spec(self, stage: translations.Stage) -> HarnessStage:
        descriptor = beam_fn_api_pb2.ProcessBundleDescriptor(
            pcollections=self._components.pcollections,
            coders=self._components.coders,
            windowing_strategies=self._components.windowing_strategies,
            environments=self._components.environments,
        )
        source, sinks = None, []
        self._reads = getattr(self, "_reads", {})
        for transform in stage.transforms:
            descriptor.transforms[transform.unique_name].CopyFrom(transform)
            if transform.spec.urn not in (urns.DATA_SOURCE, urns.DATA_SINK):
                continue
            buffer = transform.spec.payload
            self._reads[transform.unique_name] = buffer
            (pcollection,) = (*transform.inputs.values(), *transform.outputs.values())
            descriptor.transforms[
                transform.unique_name
            ].spec.payload = beam_fn_api_pb2.RemoteGrpcPort(
                coder_id=self._context.data_channel_coders[pcollection]
            ).SerializeToString()
            if transform.spec.urn == urns.DATA_SOURCE:
                kind = InputKind.GROUPS if buffer.startswith(b"group") else InputKind.ELEMENTS
                source = InputEdge(transform.unique_name, kind)
            else:
                sinks.append(self._create_output(transform.unique_name, buffer))
        assert source is not None
        number = next(self._numbers)
        return HarnessStage(
            stage_id=f"stage-{number}",
            name=stage.name,
            environment_id=stage.environment or self.environment_ids[0],
            descriptor=descriptor.SerializeToString(),
            input=source,
            outputs=tuple(sinks),
        )

    def _create_output(self, transform_id: str, buffer: bytes) -> OutputEdge:
        if buffer.startswith(b"group"):
            return OutputEdge(transform_id, OutputKind.KEYED)
        pattern = self._side_input_buffers.get(buffer)
        if pattern is not None:
            whole = pattern == access_patterns.ITERABLE
            return OutputEdge(transform_id, OutputKind.KEYED, keyed_by_element=whole)
        return OutputEdge(transform_id, OutputKind.ELEMENTS)

    def side_inputs(self, spec: HarnessStage) -> SideInputs:
        """Returns the side inputs of a stage that are already computed."""
        descriptor = beam_fn_api_pb2.ProcessBundleDescriptor.FromString(spec.descriptor)
        rows = {}
        for transform_id, transform in descriptor.transforms.items():
            for tag, pcollection in translations.side_inputs(transform).items():
                buffer = self.buffers.setdefault(translations.create_buffer_id(pcollection), Rows())
                assert isinstance(buffer, Rows)
                rows[transform_id, tag] = buffer
        return SideInputs(rows)

    def inputs(self, spec: HarnessStage) -> list[InputChunk]:
        """Returns the main input of a stage."""
        buffer = self._reads[spec.input.transform_id]
        if buffer == translations.IMPULSE_BUFFER:
            return [elements(b"")]
        held = self.buffers.get(buffer)
        if held is None:
            return []
        if spec.input.kind is InputKind.GROUPS:
            assert isinstance(held, Rows)
            return list(held.groups())
        return list(held.elements())

    def outputs(self, spec: HarnessStage) -> dict[str, Rows | Chunks]:
        """Returns the ports of a stage's outputs."""
        return {
            edge.transform_id: self.buffers.setdefault(
                self._reads[edge.transform_id],
                Rows() if edge.kind is OutputKind.KEYED else Chunks(),
            )
            for edge in spec.outputs
        }

    def run_stage(self, spec: HarnessStage, harness: Harness) -> None:
        """Runs one bundle with all the input of a stage, and further bundles while elements are deferred."""
        stage = harness.get_stage_harness(spec, self.side_inputs(spec))
        inputs = self.inputs(spec)
        for number in itertools.count():
            result = stage.process_bundle(
                f"bundle-{spec.stage_id}-{number}", inputs, self.outputs(spec)
            )
            self.results.setdefault(spec.name, result)
            if not result.residuals:
                break
            inputs = [ElementChunk(1, each.element) for each in result.residuals]

    def run(self, harness_of: Callable[[str], Harness]) -> None:
        """Runs all stages. ``harness_of`` returns the harness of an environment."""
        for spec in self.specs:
            self.run_stage(spec, harness_of(spec.environment_id))


def pickle_by_value(module_name: str) -> None:
    """Pickles the classes of a test module by value, because SDK harnesses can't import the module."""
    cloudpickle.register_pickle_by_value(sys.modules[module_name])
    cloudpickle.register_pickle_by_value(life)


def new_pipeline(*options: str) -> beam.Pipeline:
    """Returns a pipeline that Beam itself never runs."""
    return beam.Pipeline(options=PipelineOptions(list(options)))
