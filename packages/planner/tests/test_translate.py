"""Tests that plans are sound: each stage reads the format that the previous stage writes, and every
buffer has a use.
"""

from __future__ import annotations

from typing import Any

import apache_beam as beam
import attrs
import pytest
import samples
import table_samples
from beam_runner_model.buffers import BufferKind
from beam_runner_model.stages import InputKind, OutputKind
from beam_runner_model.timestamp_combiners import TimestampCombiner
from beam_runner_model.triggers import DefaultTrigger
from beam_runner_model.window_fns import FixedWindows, Sessions
from beam_runner_urns import coders as coder_urns
from beam_runner_urns import transforms as transform_urns

from beam_runner_planner import _protos
from beam_runner_planner.plan import JobPlan, StagePlan
from beam_runner_planner.translate import plan_job

GO = "beam:version:sdk_base:go:apache/beam_go_sdk:"

both_ways = pytest.mark.parametrize(
    "flags", [samples.EMBEDDED, samples.EXTERNAL], ids=["embedded", "external"]
)
every_sample = pytest.mark.parametrize("build", samples.ALL, ids=lambda build: build.__name__)


def layout(coder_id: str, descriptor: Any) -> Any:
    """Returns a coder as nested tuples, comparable between descriptors."""
    coder = descriptor.coders[coder_id]
    parts = tuple(layout(part, descriptor) for part in coder.component_coder_ids)
    return coder.spec.urn, coder.spec.payload, parts


def edge_layout(stage: StagePlan, transform_id: str) -> Any:
    """Returns the layout of the windowed values on an edge."""
    descriptor = _protos.ProcessBundleDescriptor.FromString(stage.spec.descriptor)
    port = _protos.RemoteGrpcPort.FromString(descriptor.transforms[transform_id].spec.payload)
    urn, _, (element, window) = layout(port.coder_id, descriptor)
    assert urn == coder_urns.WINDOWED_VALUE
    return element, window


def grouped(element: Any) -> Any:
    """Returns the layout of the group for the layout of its key-value pairs."""
    urn, payload, (key, value) = element
    return urn, payload, (key, (coder_urns.ITERABLE, b"", (value,)))


def written(plan: JobPlan, buffer_id: str) -> set[Any]:
    return {
        edge_layout(stage, transform_id)
        for stage in samples.writers(plan, buffer_id)
        for transform_id, target in stage.outputs.items()
        if target == buffer_id
    }


@both_ways
@every_sample
def test_buffer_writers_and_readers_use_same_encoding(
    build: samples.Build, flags: tuple[str, ...]
) -> None:
    plan = samples.plan_of(build, *flags)
    for stage in plan.stages.values():
        if stage.input_buffer is None:
            continue
        element, window = edge_layout(stage, stage.spec.input.transform_id)
        for wrote, wrote_window in written(plan, stage.input_buffer):
            assert wrote_window == window
            if plan.buffers[stage.input_buffer].kind is BufferKind.GROUPED:
                assert grouped(wrote) == element
            else:
                assert wrote == element


@both_ways
@every_sample
def test_side_inputs_are_written_for_readers(build: samples.Build, flags: tuple[str, ...]) -> None:
    """SDKs decode side inputs with the coder of the PCollection."""
    plan = samples.plan_of(build, *flags)
    for stage in plan.stages.values():
        descriptor = _protos.ProcessBundleDescriptor.FromString(stage.spec.descriptor)
        for use in stage.side_inputs:
            pcollection = descriptor.transforms[use.transform_id].inputs[use.tag]
            read = layout(descriptor.pcollections[pcollection].coder_id, descriptor)
            assert {element for element, _ in written(plan, use.buffer_id)} <= {read}


@both_ways
@every_sample
def test_planned_stages_are_complete_and_ordered(
    build: samples.Build, flags: tuple[str, ...]
) -> None:
    plan = samples.plan_of(build, *flags)
    read = {s.input_buffer for s in plan.stages.values() if s.input_buffer}
    read |= {use.buffer_id for s in plan.stages.values() for use in s.side_inputs}
    assert read == set(plan.buffers)
    assert {b for s in plan.stages.values() for b in s.outputs.values()} <= read
    done: set[str] = set()
    for stage in plan.stages.values():
        before = [use.buffer_id for use in stage.side_inputs]
        if stage.input_buffer is not None:
            before.append(stage.input_buffer)
        for buffer_id in before:
            assert {writer.stage_id for writer in samples.writers(plan, buffer_id)} <= done
        done.add(stage.stage_id)


def every_edge_layout(plan: JobPlan) -> list[Any]:
    """Returns the layouts of all edges of the stages, in order."""
    return [
        edge_layout(stage, edge)
        for stage in plan.stages.values()
        for edge in (stage.spec.input.transform_id, *stage.outputs)
    ]


@pytest.mark.parametrize(
    "build",
    [samples.updating_side_input, samples.scripted_stateful, samples.scripted_sums],
    ids=lambda build: build.__name__,
)
def test_element_encodings_of_streams_do_not_depend_on_environments(build: samples.Build) -> None:
    """An update can move a stream to other environments, with its state (ADR 0050)."""
    embedded, external = (
        samples.plan_of(build, *flags) for flags in (samples.EMBEDDED, samples.EXTERNAL)
    )
    assert embedded.streaming and not embedded.needs_sdks and external.needs_sdks
    assert every_edge_layout(embedded) == every_edge_layout(external)


def test_element_encodings_of_embedded_batch_pipelines_have_no_length_prefixes() -> None:
    layouts = every_edge_layout(samples.plan_of(samples.stateful))
    assert coder_urns.LENGTH_PREFIX not in str(layouts)


def kinds(plan: JobPlan) -> list[str]:
    return sorted(buffer.kind.value for buffer in plan.buffers.values())


def test_pipeline_with_only_a_map_becomes_one_stage() -> None:
    # Create doesn't reshuffle so few elements, but it is still a splittable source.
    plan = samples.plan_of(samples.map_only)
    assert BufferKind.GROUPED not in {buffer.kind for buffer in plan.buffers.values()}


def test_empty_pipeline_becomes_empty_plan() -> None:
    plan = samples.plan_of(samples.without_a_source)
    assert not plan.stages and not plan.buffers


def test_group_by_key_output_is_read_as_groups() -> None:
    plan = samples.plan_of(samples.group)
    assert kinds(plan).count("grouped") == 1
    (reader,) = (s for s in plan.stages.values() if s.spec.input.kind is InputKind.GROUPS)
    assert plan.buffers[str(reader.input_buffer)].kind is BufferKind.GROUPED


def test_step_read_by_two_groupings_becomes_one_stage_with_two_outputs() -> None:
    plan = samples.plan_of(samples.fan_out)
    assert kinds(plan).count("grouped") == 2
    (forking,) = (s for s in plan.stages.values() if len(s.outputs) == 2)
    assert {plan.buffers[b].kind for b in forking.outputs.values()} == {BufferKind.GROUPED}


def test_combine_per_key_is_lifted() -> None:
    plan = samples.plan_of(samples.combine)
    urns = [
        {
            t.spec.urn
            for t in _protos.ProcessBundleDescriptor.FromString(
                stage.spec.descriptor
            ).transforms.values()
        }
        for stage in plan.stages.values()
    ]
    assert any("beam:transform:combine_per_key_precombine:v1" in found for found in urns)
    assert any("beam:transform:combine_per_key_extract_outputs:v1" in found for found in urns)


def test_flatten_before_group_needs_no_stage() -> None:
    plan = samples.plan_of(samples.flatten_then_group)
    (buffer,) = (b for b in plan.buffers.values() if b.kind is BufferKind.GROUPED)
    assert len(samples.writers(plan, buffer.buffer_id)) == 2
    assert BufferKind.STORED not in {b.kind for b in plan.buffers.values()}


def test_flatten_without_inputs_reads_buffer_without_writer() -> None:
    plan = samples.plan_of(samples.flatten_of_nothing)
    (stage,) = plan.stages.values()
    assert stage.input_buffer is not None
    assert samples.writers(plan, stage.input_buffer) == []


def test_side_inputs_are_stored_by_window_or_key() -> None:
    plan = samples.plan_of(samples.side_inputs)
    # Python reads every kind of side input except a multimap as an iterable.
    assert kinds(plan).count("side_iterable") == 2 and kinds(plan).count("side_multimap") == 1
    for stage in plan.stages.values():
        for use in stage.side_inputs:
            assert samples.writers(plan, use.buffer_id)
    edges = {
        (plan.buffers[stage.outputs[edge.transform_id]].kind, edge.keyed_by_element)
        for stage in plan.stages.values()
        for edge in stage.spec.outputs
        if edge.kind is OutputKind.KEYED
    }
    assert (BufferKind.SIDE_ITERABLE, True) in edges
    assert (BufferKind.SIDE_MULTIMAP, False) in edges


def test_grouped_buffers_have_windowing_strategies() -> None:
    plan = samples.plan_of(samples.windowed_groups)
    strategies = {
        type(b.strategy.window_fn): b.strategy for b in plan.buffers.values() if b.strategy
    }
    assert set(strategies) == {FixedWindows, Sessions}
    assert strategies[Sessions].needs_merge and not strategies[FixedWindows].needs_merge
    assert strategies[FixedWindows].window_fn == FixedWindows(10_000, 0)
    assert strategies[Sessions].timestamp_combiner is TimestampCombiner.END_OF_WINDOW


@both_ways
def test_keys_and_values_of_external_harnesses_have_length_prefixes(flags: tuple[str, ...]) -> None:
    plan = samples.plan_of(samples.group, *flags)
    (buffer,) = (b.buffer_id for b in plan.buffers.values() if b.kind is BufferKind.GROUPED)
    ((_, _, parts), _) = written(plan, buffer).pop()
    prefixed = [urn == coder_urns.LENGTH_PREFIX for urn, _, _ in parts]
    assert prefixed == [flags is samples.EXTERNAL] * 2


def group_of_known_coders(p: beam.Pipeline) -> None:
    pairs = p | beam.Create([(b"a", 1)]).with_output_types(tuple[bytes, int])
    pairs | beam.GroupByKey() | beam.Map(str)


@pytest.mark.parametrize(("version", "heeded"), [("2.64.0", False), ("2.77.0", True)])
def test_known_coders_get_no_additional_length_prefix(version: str, heeded: bool) -> None:
    proto = samples.proto_of(group_of_known_coders, *samples.EXTERNAL)
    for environment in proto.components.environments.values():
        environment.capabilities.append(f"{GO}{version}")
    plan = plan_job(samples.job_of(proto))
    (buffer,) = (b.buffer_id for b in plan.buffers.values() if b.kind is BufferKind.GROUPED)
    ((_, _, parts), _) = written(plan, buffer).pop()
    assert [urn == coder_urns.LENGTH_PREFIX for urn, _, _ in parts] == [heeded] * 2


@both_ways
def test_stages_run_in_environment_of_their_transforms(flags: tuple[str, ...]) -> None:
    plan = samples.plan_of(samples.group, *flags)
    assert {s.embedded for s in plan.stages.values()} == {flags is samples.EMBEDDED}


@every_sample
def test_stage_edges_request_timestamps_only_if_required(build: samples.Build) -> None:
    plan = samples.plan_of(build)
    for stage in plan.stages.values():
        for edge in stage.spec.outputs:
            buffer = plan.buffers[stage.outputs[edge.transform_id]]
            if edge.kind is not OutputKind.KEYED:
                assert edge.min_timestamp is plan.streaming
            elif buffer.kind is BufferKind.GROUPED:
                assert edge.timestamps is (plan.streaming or not buffer.bulk)
            elif buffer.kind is BufferKind.KEYED:
                assert edge.timestamps
            else:
                assert edge.timestamps is plan.streaming


@pytest.mark.parametrize(
    ("build", "streaming"),
    [
        (samples.group, False),
        (samples.triggered_groups, False),
        (samples.periodic, True),
        (samples.scripted, True),
        (samples.a_script_nobody_reads, True),
    ],
)
def test_plan_is_streaming_for_unbounded_input(build: samples.Build, streaming: bool) -> None:
    assert samples.plan_of(build).streaming is streaming


def periodic_beside_a_script(p: beam.Pipeline) -> None:
    samples.periodic(p)
    p | "script" >> samples.TestStream().add_elements([1]).advance_watermark_to_infinity()


@pytest.mark.parametrize(
    ("build", "endless"),
    [
        (samples.group, False),
        (samples.periodic, True),
        (table_samples.stream, True),
        (samples.scripted, False),
        (periodic_beside_a_script, False),
    ],
)
def test_plan_with_unbounded_source_other_than_test_stream_is_endless(
    build: samples.Build, endless: bool
) -> None:
    assert samples.plan_of(build).is_endless is endless


@pytest.mark.parametrize(
    ("build", "bulk"),
    [
        (samples.group_twice, {True}),
        (samples.windowed_groups, {True}),
        (samples.triggered_groups, {False}),
        (samples.scripted_groups, {False}),
        (samples.periodic, {False}),
    ],
)
def test_bounded_input_is_grouped_in_bulk(build: samples.Build, bulk: set[bool]) -> None:
    plan = samples.plan_of(build)
    assert {b.bulk for b in plan.buffers.values() if b.kind is BufferKind.GROUPED} == bulk


@pytest.mark.parametrize(
    ("combiner", "lifted"), [("OUTPUT_AT_EARLIEST", False), ("OUTPUT_AT_LATEST", True)]
)
def test_earliest_combiner_combines_late_elements_separately(combiner: str, lifted: bool) -> None:
    def build(p: Any) -> None:
        samples.scripted_sums(p, getattr(samples.TimestampCombiner, combiner))

    proto = samples.proto_of(build)
    plan = plan_job(samples.job_of(proto))
    urns = {
        transform.spec.urn
        for stage in plan.stages.values()
        for transform in _protos.ProcessBundleDescriptor.FromString(
            stage.spec.descriptor
        ).transforms.values()
    }
    assert (transform_urns.COMBINE_PER_KEY_PRECOMBINE in urns) is lifted
    (grouped,) = (b for b in plan.buffers.values() if b.kind is BufferKind.GROUPED)
    assert grouped.strategy is not None and grouped.strategy.trigger == DefaultTrigger()


def test_stages_are_named_after_their_transforms() -> None:
    plan = samples.plan_of(samples.map_only)
    names = " + ".join(stage.spec.name for stage in plan.stages.values())
    assert names.endswith("Map(str) + Map(len)")
    assert "ref_" not in names


@every_sample
def test_planned_buffers_have_windowing_strategies(build: samples.Build) -> None:
    plan = samples.plan_of(build)
    assert all(buffer.strategy is not None for buffer in plan.buffers.values())


@pytest.mark.parametrize("build", [samples.splittable, samples.splittable_with_side_input])
@both_ways
def test_restrictions_are_processed_at_head_of_stage(
    build: samples.Build, flags: tuple[str, ...]
) -> None:
    plan = samples.plan_of(build, *flags)
    heads = [stage for stage in plan.stages.values() if stage.splittable]
    assert heads
    for stage in plan.stages.values():
        descriptor = _protos.ProcessBundleDescriptor.FromString(stage.spec.descriptor)
        (source,) = descriptor.transforms[stage.spec.input.transform_id].outputs.values()
        processing = [
            transform
            for transform in descriptor.transforms.values()
            if transform.spec.urn == transform_urns.PROCESS_SIZED_ELEMENTS_AND_RESTRICTIONS
        ]
        assert len(processing) == stage.splittable
        assert all(source in transform.inputs.values() for transform in processing)


@pytest.mark.parametrize(
    ("build", "flags", "takes_turns"),
    [
        (samples.group, samples.EXTERNAL, True),
        (samples.group, samples.EMBEDDED, False),
        (samples.stateful, samples.EXTERNAL, False),
    ],
)
def test_loopback_plan_shares_one_interpreter_unless_user_code_waits_for_state(
    build: samples.Build, flags: tuple[str, ...], takes_turns: bool
) -> None:
    job = samples.job_of(samples.proto_of(build, *flags))
    loopback = attrs.evolve(job, options_json='{"beam:option:environment_type:v1": "LOOPBACK"}')
    assert plan_job(loopback).shares_one_interpreter is takes_turns
    assert not plan_job(job).shares_one_interpreter
