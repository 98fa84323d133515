"""Tests that deferred elements of an SDK have the encoding of their edge."""

from __future__ import annotations

import apache_beam as beam
import attrs
import desk as desk_module
import pytest
from apache_beam.portability.api import beam_fn_api_pb2
from apache_beam.transforms import window
from beam_runner_model.chunks import ElementChunk
from beam_runner_model.stages import HarnessStage
from beam_runner_urns import coders as urns
from desk import CountNumbers, Desk
from last_stage import LastStage
from named_windows import NamedWindows
from tiny_host import TinyHost, new_pipeline, pickle_by_value

from beam_runner_worker.fnapi.descriptors import plan_stage

pytestmark = pytest.mark.timeout(120)
pickle_by_value(__name__)
pickle_by_value(desk_module.__name__)


def in_named_windows(desk: Desk) -> beam.Pipeline:
    """Builds counts to 3 and to 50, each in two windows."""
    p = new_pipeline()
    numbers = p | beam.Impulse() | beam.FlatMap(lambda _: [3, 50])
    numbers = numbers | beam.Map(lambda n: window.TimestampedValue(n, 45))
    numbers | beam.WindowInto(NamedWindows(30)) | "Count" >> beam.ParDo(CountNumbers(desk))
    return p


def without_prefixes(spec: HarnessStage) -> HarnessStage:
    """Returns the stage with an input whose coder has no length prefixes, as in some pipelines."""
    descriptor = beam_fn_api_pb2.ProcessBundleDescriptor.FromString(spec.descriptor)
    (pcollection_id,) = descriptor.transforms[spec.input.transform_id].outputs.values()
    pcollection = descriptor.pcollections[pcollection_id]

    def stripped(coder_id: str) -> str:
        coder = descriptor.coders[coder_id]
        if coder.spec.urn == urns.LENGTH_PREFIX:
            return coder.component_coder_ids[0]
        added = descriptor.coders[coder_id + "/stripped"]
        added.spec.CopyFrom(coder.spec)
        added.component_coder_ids.extend(map(stripped, coder.component_coder_ids))
        return coder_id + "/stripped"

    before = pcollection.coder_id
    pcollection.coder_id = stripped(before)
    assert urns.LENGTH_PREFIX in {each.spec.urn for each in descriptor.coders.values()}
    return attrs.evolve(spec, descriptor=descriptor.SerializeToString())


def test_residuals_use_coder_of_edge(serve, tmp_path):
    desk = Desk(tmp_path).hold("50:10")
    last = LastStage(in_named_windows(desk), serve)
    spec = attrs.evolve(without_prefixes(last.spec), stage_id="stripped")
    last.stage = last.server.get_harness(spec.environment_id).get_stage_harness(
        spec, last.host.side_inputs(spec)
    )
    bundle = last.run(last.inputs)
    desk.wait_for("50:10")
    split = last.stage.split(0.0, 2)
    desk.release_place()
    bundle.result()
    assert len(split.residuals) == 1
    # The elements survive the round trip: the splitter of the edge finds the end of each element.
    given = last.elements(split)
    joined = b"".join(bytes(each.data) for each in given)
    for number in range(len(given)):
        last.run([ElementChunk(len(given), joined, first=number, last=number + 1)]).result()
    expected = [f"{n}:{i}" for n in (3, 50) for i in range(n)]
    assert desk.notes() == expected


def test_input_with_restrictions_uses_coder_of_edge():
    p = new_pipeline()
    p | beam.Impulse() | beam.Map(lambda x: x) | beam.Reshuffle() | beam.Map(len)
    for spec in TinyHost(p).specs:
        before = beam_fn_api_pb2.ProcessBundleDescriptor.FromString(spec.descriptor)
        plan = plan_stage(spec, "somewhere")
        assert plan.descriptor.pcollections == before.pcollections
        assert plan.descriptor.windowing_strategies == before.windowing_strategies
        assert len(plan.heads) == 1
