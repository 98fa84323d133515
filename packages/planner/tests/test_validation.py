"""Tests that malformed pipelines are refused with the problem and its location."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import apache_beam as beam
import pytest
import samples
from beam_runner_urns import transforms as transform_urns
from stateful_fn import Stateful

from beam_runner_planner import _protos
from beam_runner_planner.errors import InvalidPipeline
from beam_runner_planner.translate import plan_job
from beam_runner_planner.validation import parse_and_check_pipeline


def everything(p: beam.Pipeline) -> None:
    pairs = p | beam.Create([("a", 1)]) | beam.Map(lambda x: x).with_output_types(tuple[str, int])
    pairs | "Group" >> beam.GroupByKey() | beam.Map(str)
    pairs | "Sum" >> beam.CombinePerKey(sum)
    pairs | "State" >> beam.ParDo(Stateful())
    (pairs, pairs) | "Both" >> beam.Flatten()


def named(proto: _protos.Pipeline, name: str, urn: str) -> _protos.PTransform:
    (found,) = (
        t
        for t in proto.components.transforms.values()
        if t.unique_name == name and t.spec.urn == urn
    )
    return found


def group(proto: _protos.Pipeline) -> _protos.PTransform:
    return named(proto, "Group", transform_urns.GROUP_BY_KEY)


def pcollection_of(transform: _protos.PTransform, proto: _protos.Pipeline) -> _protos.PCollection:
    (read,) = transform.inputs.values()
    return proto.components.pcollections[read]


def without_inputs(proto: _protos.Pipeline) -> None:
    group(proto).inputs.clear()


def two_outputs(proto: _protos.Pipeline) -> None:
    (other,) = named(proto, "Both", transform_urns.FLATTEN).outputs.values()
    group(proto).outputs["more"] = other


def no_keys(proto: _protos.Pipeline) -> None:
    coders = proto.components.coders
    coders["plain"].spec.urn = "beam:coder:bytes:v1"
    pcollection_of(group(proto), proto).coder_id = "plain"


def one_part(proto: _protos.Pipeline) -> None:
    coder = proto.components.coders[pcollection_of(group(proto), proto).coder_id]
    del coder.component_coder_ids[1:]


def bad_payload(proto: _protos.Pipeline) -> None:
    named(proto, "State", transform_urns.PAR_DO).spec.payload = b"\xff\xff"


def no_urn(proto: _protos.Pipeline) -> None:
    transform = group(proto)
    transform.spec.urn = ""
    del transform.subtransforms[:]


def circle(proto: _protos.Pipeline) -> None:
    both = named(proto, "Both", transform_urns.FLATTEN)
    (out,) = both.outputs.values()
    added = proto.components.transforms["back"]
    added.CopyFrom(both)
    added.unique_name = "Back"
    added.inputs.clear()
    added.inputs["in"] = out
    added.outputs[next(iter(added.outputs))] = "around"
    proto.components.pcollections["around"].CopyFrom(proto.components.pcollections[out])
    both.inputs["1"] = "around"
    proto.root_transform_ids.append("back")


def made_twice(proto: _protos.Pipeline) -> None:
    (out,) = group(proto).outputs.values()
    both = named(proto, "Both", transform_urns.FLATTEN)
    both.outputs[next(iter(both.outputs))] = out


def strategy(proto: _protos.Pipeline) -> Any:
    return next(iter(proto.components.windowing_strategies.values()))


def no_window_coder(proto: _protos.Pipeline) -> None:
    strategy(proto).window_coder_id = ""


def windows_of_no_size(proto: _protos.Pipeline) -> None:
    strategy(proto).window_fn.urn = "beam:window_fn:fixed_windows:v1"
    strategy(proto).window_fn.payload = b""


def trigger_without_parts(proto: _protos.Pipeline) -> None:
    strategy(proto).trigger.after_all.SetInParent()


def lateness(proto: _protos.Pipeline) -> None:
    strategy(proto).allowed_lateness = -1


def no_accumulator(proto: _protos.Pipeline) -> None:
    combine = named(proto, "Sum", transform_urns.COMBINE_PER_KEY)
    combine.spec.payload = _protos.CombinePayload(accumulator_coder_id="gone").SerializeToString()


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (without_inputs, r"'Group' of kind 'beam:transform:group_by_key:v1' has 0 main inputs"),
        (two_outputs, "'Group' of kind .* has 2 outputs; expected 1"),
        (no_keys, "'Group' needs keys and values, but its input .* 'beam:coder:bytes:v1'"),
        (one_part, "of kind 'beam:coder:kv:v1' has 1 component coders; expected 2"),
        (bad_payload, "'State' has a payload that doesn't match"),
        (no_urn, "'Group' has neither subtransforms nor a URN"),
        (circle, "'Back', 'Both' form a cycle"),
        (made_twice, "is the output of two transforms, .*'Group', 'Both'"),
        (no_window_coder, "the windowing strategy .* has no window coder"),
        (windows_of_no_size, "FixedWindows.size must be above 0 ms"),
        (trigger_without_parts, "AfterAll needs at least one subtrigger"),
        (lateness, "has a negative allowed lateness"),
        (no_accumulator, "'Sum' has the accumulator coder 'gone', which is missing"),
    ],
)
def test_invalid_pipeline_is_refused_with_reason(
    change: Callable[[_protos.Pipeline], None], text: str
) -> None:
    proto = samples.built(everything)
    change(proto)
    with pytest.raises(InvalidPipeline, match=text):
        plan_job(samples.job_of(proto))


def test_unparsable_pipeline_is_refused() -> None:
    with pytest.raises(InvalidPipeline, match="not a message of the Beam model"):
        parse_and_check_pipeline(b"\xff\xff\xff")


@pytest.mark.parametrize("build", samples.ALL, ids=lambda build: build.__name__)
def test_pipelines_of_beam_clients_are_valid(build: samples.Build) -> None:
    for flags in (samples.EMBEDDED, samples.EXTERNAL):
        data = samples.built(build, *flags).SerializeToString()
        assert parse_and_check_pipeline(data).SerializeToString(deterministic=True)


def test_expanded_splittable_dofn_remains_splittable() -> None:
    """A Python client that expands splittable DoFns also sends their side inputs through the reshuffle."""
    flags = (*samples.EMBEDDED, "--experiments=pre_optimize=expand_sdf")
    plan = samples.plan_of(samples.splittable_with_side_input, *flags)
    assert sum(stage.splittable for stage in plan.stages.values()) >= 1
