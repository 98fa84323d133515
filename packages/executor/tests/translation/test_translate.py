"""Plans are sound: what a stage writes is what the next one reads, and sections are cut where data must stay."""

from __future__ import annotations

from typing import Any

import pytest
import samples
from beam_runner_engine.values.timestamp_combiners import TimestampCombiner
from beam_runner_engine.values.window_fns import FixedWindows, Sessions
from beam_runner_urns import coders as coder_urns
from beam_runner_worker.records import InputKind, OutputKind

from beam_spark_executor import _protos
from beam_spark_executor.plan import BufferKind, JobPlan, StagePlan
from beam_spark_executor.translation.sections import MAX_SHUFFLES

both_ways = pytest.mark.parametrize(
    "flags", [samples.EMBEDDED, samples.EXTERNAL], ids=["embedded", "external"]
)
every_sample = pytest.mark.parametrize("build", samples.ALL, ids=lambda build: build.__name__)


def layout(coder_id: str, descriptor: Any) -> Any:
    """A coder as nested tuples, comparable between descriptors."""
    coder = descriptor.coders[coder_id]
    parts = tuple(layout(part, descriptor) for part in coder.component_coder_ids)
    return coder.spec.urn, coder.spec.payload, parts


def edge_layout(stage: StagePlan, transform_id: str) -> Any:
    """The layout of the windowed values on an edge."""
    descriptor = _protos.ProcessBundleDescriptor.FromString(stage.spec.descriptor)
    port = _protos.RemoteGrpcPort.FromString(descriptor.transforms[transform_id].spec.payload)
    urn, _, (element, window) = layout(port.coder_id, descriptor)
    assert urn == coder_urns.WINDOWED_VALUE
    return element, window


def grouped(element: Any) -> Any:
    """The layout of the group of which a key-value pair becomes a part."""
    urn, payload, (key, value) = element
    return urn, payload, (key, (coder_urns.ITERABLE, b"", (value,)))


def written(plan: JobPlan, buffer_id: str) -> set[Any]:
    return {
        edge_layout(stage, transform_id)
        for stage in plan.writers(buffer_id)
        for transform_id, target in stage.outputs.items()
        if target == buffer_id
    }


@both_ways
@every_sample
def test_what_is_written_is_what_is_read(build: samples.Build, flags: tuple[str, ...]) -> None:
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
def test_stages_and_sections_are_in_order_and_complete(
    build: samples.Build, flags: tuple[str, ...]
) -> None:
    plan = samples.plan_of(build, *flags)
    read = {s.input_buffer for s in plan.stages.values() if s.input_buffer}
    read |= {use.buffer_id for s in plan.stages.values() for use in s.side_inputs}
    assert read == set(plan.buffers)
    assert {b for s in plan.stages.values() for b in s.outputs.values()} <= read
    members = [stage for section in plan.sections.values() for stage in section.stages]
    assert sorted(members) == sorted(plan.stages)
    done: set[str] = set()
    for section in plan.sections.values():
        assert section.needs <= done
        assert section.stages[-1] == section.section_id
        done.add(section.section_id)


@both_ways
@every_sample
def test_all_but_the_last_stage_of_a_section_flow_into_one_shuffle(
    build: samples.Build, flags: tuple[str, ...]
) -> None:
    plan = samples.plan_of(build, *flags)
    for section in plan.sections.values():
        inside = set(section.stages)
        for stage_id in section.stages[:-1]:
            (target,) = plan.stages[stage_id].outputs.values()
            assert plan.buffers[target].kind.is_shuffle
            readers = {s.stage_id for s in plan.stages.values() if s.input_buffer == target}
            assert len(readers) == 1 and readers <= inside


def kinds(plan: JobPlan) -> list[str]:
    return sorted(buffer.kind.value for buffer in plan.buffers.values())


def test_a_map_is_one_stage() -> None:
    # Create reshuffles nothing for so few elements; it is a splittable source nevertheless.
    plan = samples.plan_of(samples.map_only)
    assert BufferKind.GROUPED not in {buffer.kind for buffer in plan.buffers.values()}
    assert len(plan.sections) == 1


def test_an_empty_pipeline_is_an_empty_plan() -> None:
    plan = samples.plan_of(samples.without_a_source)
    assert not plan.stages and not plan.sections


def test_a_group_is_one_section() -> None:
    plan = samples.plan_of(samples.group)
    assert kinds(plan).count("grouped") == 1
    assert len(plan.sections) == 1
    (reader,) = (s for s in plan.stages.values() if s.spec.input.kind is InputKind.GROUPS)
    assert plan.buffers[str(reader.input_buffer)].kind is BufferKind.GROUPED


def test_a_fan_out_ends_a_section() -> None:
    plan = samples.plan_of(samples.fan_out)
    assert kinds(plan).count("grouped") == 2
    (forking,) = (s for s in plan.stages.values() if len(s.outputs) == 2)
    assert forking.stage_id in plan.sections
    readers = [s for s in plan.sections.values() if forking.stage_id in s.needs]
    assert len(readers) == 2


def test_combiners_are_lifted() -> None:
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


def test_a_flatten_before_a_group_is_no_stage() -> None:
    plan = samples.plan_of(samples.flatten_then_group)
    (buffer,) = (b for b in plan.buffers.values() if b.kind is BufferKind.GROUPED)
    assert len(plan.writers(buffer.buffer_id)) == 2
    assert BufferKind.STORED not in {b.kind for b in plan.buffers.values()}
    assert len(plan.sections) == 1


def test_a_flatten_of_nothing_reads_what_nobody_writes() -> None:
    plan = samples.plan_of(samples.flatten_of_nothing)
    (stage,) = plan.stages.values()
    assert stage.input_buffer is not None
    assert plan.writers(stage.input_buffer) == ()


def test_side_inputs_are_stored_by_window_or_key() -> None:
    plan = samples.plan_of(samples.side_inputs)
    # Python reads every kind of side input as an iterable unless it is a multimap.
    assert kinds(plan).count("side_iterable") == 2 and kinds(plan).count("side_multimap") == 1
    for stage in plan.stages.values():
        section = next(s for s in plan.sections.values() if stage.stage_id in s.stages)
        for use in stage.side_inputs:
            writers = {s.stage_id for s in plan.writers(use.buffer_id)}
            assert writers and writers <= section.needs
    edges = {
        (plan.buffers[stage.outputs[edge.transform_id]].kind, edge.keyed_by_element)
        for stage in plan.stages.values()
        for edge in stage.spec.outputs
        if edge.kind is OutputKind.KEYED
    }
    assert (BufferKind.SIDE_ITERABLE, True) in edges
    assert (BufferKind.SIDE_MULTIMAP, False) in edges


def test_a_section_has_so_many_shuffles_and_no_more() -> None:
    plan = samples.plan_of(samples.chain)
    shuffles = []
    for section in plan.sections.values():
        streamed = [plan.stages[s] for s in section.stages[:-1]]
        shuffles.append(len(streamed))
    assert max(shuffles) == MAX_SHUFFLES
    assert len(plan.sections) >= 12 / MAX_SHUFFLES


def test_strategies_of_groups() -> None:
    plan = samples.plan_of(samples.windowed_groups)
    strategies = {
        type(b.strategy.window_fn): b.strategy for b in plan.buffers.values() if b.strategy
    }
    assert set(strategies) == {FixedWindows, Sessions}
    assert strategies[Sessions].merges and not strategies[FixedWindows].merges
    assert strategies[FixedWindows].window_fn == FixedWindows(10_000, 0)
    assert strategies[Sessions].timestamp_combiner is TimestampCombiner.END_OF_WINDOW


@both_ways
def test_keys_and_values_of_harnesses_outside_have_lengths(flags: tuple[str, ...]) -> None:
    plan = samples.plan_of(samples.group, *flags)
    (buffer,) = (b.buffer_id for b in plan.buffers.values() if b.kind is BufferKind.GROUPED)
    ((_, _, parts), _) = written(plan, buffer).pop()
    prefixed = [urn == coder_urns.LENGTH_PREFIX for urn, _, _ in parts]
    assert prefixed == [flags is samples.EXTERNAL] * 2


@both_ways
def test_where_stages_run(flags: tuple[str, ...]) -> None:
    plan = samples.plan_of(samples.group, *flags)
    assert {s.embedded for s in plan.stages.values()} == {flags is samples.EMBEDDED}
