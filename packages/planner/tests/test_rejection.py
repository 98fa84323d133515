"""Tests that each unsupported feature is refused by its name and the transform that uses it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import apache_beam as beam
import pytest
import samples
from apache_beam import pvalue
from apache_beam.coders import StrUtf8Coder
from apache_beam.testing import test_stream
from apache_beam.transforms.window import NonMergingWindowFn
from beam_runner_urns import coders as coder_urns
from stateful_fn import Stateful

from beam_runner_planner import _protos
from beam_runner_planner.errors import UnsupportedPipeline
from beam_runner_planner.translate import plan_job


class Finalizing(beam.DoFn):
    def process(self, element: Any, f: Any = beam.DoFn.BundleFinalizerParam) -> Iterator[Any]:
        yield element


def pairs(p: beam.Pipeline) -> beam.PCollection:
    return p | "Pairs" >> beam.Create([("k", 1)])


def pardo(fn: beam.DoFn) -> samples.Build:
    return lambda p: pairs(p) | "Here" >> beam.ParDo(fn)


class _OwnCoder(NonMergingWindowFn):
    def assign(self, assign_context: Any) -> list[Any]:
        return []

    def get_window_coder(self) -> Any:
        return StrUtf8Coder()


def own_windows(p: beam.Pipeline) -> beam.PCollection:
    return pairs(p) | beam.WindowInto(_OwnCoder())


def reading_own_windows(p: beam.Pipeline) -> beam.PCollection:
    sides = pvalue.AsIter(own_windows(p))
    return p | beam.Create([1]) | "Here" >> beam.Map(lambda x, y: x, sides)


IN_OTHER_SDKS: dict[str, tuple[samples.Build, str]] = {
    "state": (
        lambda p: own_windows(p) | "Here" >> beam.ParDo(Stateful()),
        r"state and timers with the window coder .*'Here",
    ),
    "side input": (reading_own_windows, r"side inputs with the window coder .*'Here"),
}


@pytest.mark.parametrize("name", IN_OTHER_SDKS)
def test_custom_merging_windows_of_other_sdks_are_rejected(name: str) -> None:
    build, reason = IN_OTHER_SDKS[name]
    proto = samples.proto_of(build, *samples.EXTERNAL)
    plan_job(samples.job_of(proto))
    for environment in proto.components.environments.values():
        del environment.capabilities[:]
    with pytest.raises(UnsupportedPipeline, match=reason):
        plan_job(samples.job_of(proto))


def with_payload(change: Callable[[_protos.ParDoPayload], None]) -> _protos.Pipeline:
    """Returns a pipeline with a ParDo that requires a feature which Python can't express."""
    proto = samples.proto_of(lambda p: pairs(p) | "Here" >> beam.ParDo(beam.DoFn()))
    for transform in proto.components.transforms.values():
        if transform.unique_name == "Here" and transform.spec.payload:
            payload = _protos.ParDoPayload.FromString(transform.spec.payload)
            change(payload)
            transform.spec.payload = payload.SerializeToString()
            (main,) = transform.inputs.values()
            transform.inputs.update(dict.fromkeys(payload.side_inputs, main))
    for coder_id in ("element", "restriction"):
        proto.components.coders[coder_id].spec.urn = coder_urns.BYTES
    return proto


def test_state_in_splittable_dofn_is_rejected() -> None:
    def change(payload: _protos.ParDoPayload) -> None:
        payload.restriction_coder_id = "restriction"
        payload.state_specs["count"].bag_spec.element_coder_id = "element"

    with pytest.raises(UnsupportedPipeline, match=r"in a splittable DoFn \(in 'Here'\)"):
        plan_job(samples.job_of(with_payload(change)))


def test_side_inputs_with_unknown_access_pattern_are_rejected() -> None:
    def change(payload: _protos.ParDoPayload) -> None:
        payload.side_inputs["side"].access_pattern.urn = "beam:side_input:odd:v1"

    with pytest.raises(
        UnsupportedPipeline, match=r"'beam:side_input:odd:v1' of 'side' \(in 'Here'"
    ):
        plan_job(samples.job_of(with_payload(change)))


def test_transforms_without_environment_are_rejected() -> None:
    proto = samples.proto_of(samples.group)
    for transform in proto.components.transforms.values():
        if transform.spec.urn == "beam:transform:group_by_key:v1":
            transform.spec.urn = "beam:transform:odd:v1"
    with pytest.raises(UnsupportedPipeline, match=r"'beam:transform:odd:v1' \(in 'GroupByKey'\)"):
        plan_job(samples.job_of(proto))


def test_transforms_unknown_to_sdk_are_rejected() -> None:
    proto = samples.built(samples.map_only)
    for transform in proto.components.transforms.values():
        if transform.spec.urn == "beam:transform:pardo:v1":
            transform.spec.urn = "beam:transform:odd:v1"
    with pytest.raises(UnsupportedPipeline, match=r"'beam:transform:odd:v1' \(in 'Create"):
        plan_job(samples.job_of(proto))


def test_unknown_transforms_without_effect_are_accepted() -> None:
    proto = samples.built(samples.map_only)
    idle = proto.components.transforms["idle"]
    idle.unique_name, idle.spec.urn = "Idle", "beam:transform:generic_composite:v1"
    idle.environment_id = next(iter(proto.components.environments))
    proto.root_transform_ids.append("idle")
    assert plan_job(samples.job_of(proto)).stages


def test_coders_unknown_to_sdk_are_rejected() -> None:
    proto = samples.built(samples.group)
    for coder in proto.components.coders.values():
        if coder.spec.urn == "beam:coder:varint:v1":
            coder.spec.urn = "beam:coder:odd:v1"
    with pytest.raises(UnsupportedPipeline, match=r"the coder 'beam:coder:odd:v1' \(in '"):
        plan_job(samples.job_of(proto))
    for environment in proto.components.environments.values():
        environment.capabilities.append("beam:coder:odd:v1")
    assert plan_job(samples.job_of(proto)).stages


def test_coders_registered_by_client_program_are_accepted() -> None:
    """A LOOPBACK program has its own coders and transforms, which its capabilities don't list."""
    for prefix, odd in (("beam:coder:varint", "coders"), ("beam:transform:pardo", "transforms")):
        proto = samples.built(samples.group, *samples.EXTERNAL)
        for one in getattr(proto.components, odd).values():
            if one.spec.urn == f"{prefix}:v1":
                one.spec.urn = "tests:odd:v1"
        assert plan_job(samples.job_of(proto)).stages


def test_unknown_requirement_without_transform_is_rejected() -> None:
    proto = samples.proto_of(samples.map_only)
    proto.requirements.append("beam:requirement:odd:v1")
    with pytest.raises(UnsupportedPipeline, match="beam:requirement:odd:v1"):
        plan_job(samples.job_of(proto))


def test_rejection_counts_transforms_that_use_feature() -> None:
    def build(p: beam.Pipeline) -> None:
        elements = pairs(p)
        for n in range(3):
            elements | f"Here {n}" >> beam.GroupByKey()

    proto = samples.proto_of(build)
    for strategy in proto.components.windowing_strategies.values():
        strategy.accumulation_mode = _protos.AccumulationMode.RETRACTING
    with pytest.raises(UnsupportedPipeline, match=r"'Here 0.* and 2 more"):
        plan_job(samples.job_of(proto))


@pytest.mark.parametrize("name", ["finalization", "streaming"])
def test_supported_features_are_accepted(name: str) -> None:
    requirements = {
        "finalization": "beam:requirement:pardo:finalization:v1",
        "streaming": "beam:requirement:pardo:splittable_dofn:v1",
    }
    build = pardo(Finalizing()) if name == "finalization" else samples.periodic
    proto = samples.proto_of(build)
    assert requirements[name] in proto.requirements
    plan_job(samples.job_of(proto))


def test_retractions_are_rejected() -> None:
    proto = samples.proto_of(samples.group)
    for strategy in proto.components.windowing_strategies.values():
        strategy.accumulation_mode = _protos.AccumulationMode.RETRACTING
    with pytest.raises(UnsupportedPipeline, match=r"retractions \(in 'GroupByKey'\)"):
        plan_job(samples.job_of(proto))


def test_unbounded_read_sources_are_rejected() -> None:
    proto = samples.proto_of(samples.scripted)
    for transform in proto.components.transforms.values():
        if transform.spec.urn == "beam:transform:teststream:v1":
            transform.spec.urn = "beam:transform:read:v1"
            transform.spec.payload = _protos.ReadPayload(
                is_bounded=_protos.IsBounded.UNBOUNDED
            ).SerializeToString()
    with pytest.raises(UnsupportedPipeline, match=r"unbounded source .*'beam:transform:read:v1'"):
        plan_job(samples.job_of(proto))


def with_script(change: Callable[[_protos.TestStreamPayload], None]) -> _protos.Pipeline:
    """Returns a pipeline with a TestStream that Python wouldn't build."""

    def build(p: beam.Pipeline) -> None:
        p | "Here" >> test_stream.TestStream().advance_watermark_to(5).advance_processing_time(1)

    proto = samples.proto_of(build)
    for transform in proto.components.transforms.values():
        if transform.spec.urn == "beam:transform:teststream:v1":
            payload = _protos.TestStreamPayload.FromString(transform.spec.payload)
            change(payload)
            transform.spec.payload = payload.SerializeToString()
            transform.outputs["other"] = next(iter(transform.outputs.values()))
    return proto


def _without_coder(payload: _protos.TestStreamPayload) -> None:
    payload.coder_id = "none"


def _of_another_output(payload: _protos.TestStreamPayload) -> None:
    payload.events[0].watermark_event.tag = "unknown"


def _backwards(payload: _protos.TestStreamPayload) -> None:
    payload.events.add().watermark_event.tag = "None"


def _younger(payload: _protos.TestStreamPayload) -> None:
    payload.events[1].processing_time_event.advance_duration = -1


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (_without_coder, r"whose coder 'none' is missing"),
        (_of_another_output, r"events for the unknown output 'unknown'"),
        (_backwards, r"moves its watermark back"),
        (_younger, r"moves processing time back"),
    ],
)
def test_invalid_test_streams_are_rejected(
    change: Callable[[_protos.TestStreamPayload], None], reason: str
) -> None:
    with pytest.raises(UnsupportedPipeline, match=rf"TestStream .*{reason}.* \(in 'Here'\)"):
        plan_job(samples.job_of(with_script(change)))
