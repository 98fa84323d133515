"""Tests of the conversion of pipeline protos into records, and of artifacts back into protos."""

from __future__ import annotations

import json
import math

import pytest
from beam_runner_model.jobs import StagedArtifact

from beam_runner_jobservices._protos import beam_job_api_pb2 as job_api
from beam_runner_jobservices._protos import beam_runner_api_pb2 as runner_api
from beam_runner_jobservices.errors import InvalidRequest
from beam_runner_jobservices.staging import EmbeddedArtifact, FetchableArtifact, UnresolvedArtifact
from beam_runner_jobservices.wire.pipelines import (
    decode_prepare_request,
    read_pipeline_graph,
    replace_dependencies,
)

from ..fakes import file_artifact, pipeline_proto


def request(pipeline, **options):
    message = job_api.PrepareJobRequest(pipeline=pipeline, job_name="job")
    message.pipeline_options.update(options)
    return message


def embedded(data):
    return runner_api.ArtifactInformation(
        type_urn="beam:artifact:type:embedded:v1",
        type_payload=runner_api.EmbeddedFilePayload(data=data).SerializeToString(),
    )


def artifact(name):
    return StagedArtifact(
        "beam:artifact:type:file:v1", "role", b"payload", name, "ab", 1, f"/s/{name}"
    )


def anyof(*environments):
    return runner_api.Environment(
        urn="beam:env:anyof:v1",
        payload=runner_api.AnyOfEnvironmentPayload(environments=environments).SerializeToString(),
    )


def test_pipeline_options_proto_is_decoded_to_json():
    options = {"beam:option:name:v1": "text", "n": 3, "deep": {"list": [1.5, True, None]}}
    decoded = decode_prepare_request(request(pipeline_proto(), **options))
    assert decoded.options == options
    assert json.loads(decoded.options_json) == options


def test_pipeline_options_that_json_cannot_represent_are_refused():
    with pytest.raises(InvalidRequest, match="options"):
        decode_prepare_request(request(pipeline_proto(), bad=math.nan))


def test_pipeline_option_with_unterminated_name_is_refused():
    named = request(pipeline_proto())
    named.job_name = "x" * 20_001
    with pytest.raises(InvalidRequest, match="name has 20001 characters; the maximum is 20000"):
        decode_prepare_request(named)


def test_request_without_pipeline_is_refused():
    with pytest.raises(InvalidRequest, match="no components"):
        decode_prepare_request(job_api.PrepareJobRequest())


def test_pipeline_references_include_coders_and_side_inputs_in_payloads():
    payload = runner_api.ParDoPayload(restriction_coder_id="restriction")
    payload.side_inputs["side"].access_pattern.urn = "beam:side_input:multimap:v1"
    payload.state_specs["bag"].bag_spec.element_coder_id = "element"
    payload.state_specs["map"].map_spec.key_coder_id = "key"
    payload.state_specs["map"].map_spec.value_coder_id = "value"
    payload.timer_family_specs["timer"].timer_family_coder_id = "timer"
    pipeline = pipeline_proto()
    pipeline.components.transforms["do"].spec.urn = "beam:transform:pardo:v1"
    pipeline.components.transforms["do"].spec.payload = payload.SerializeToString()
    node = read_pipeline_graph(pipeline).transforms["do"]
    assert set(node.payload_coder_ids) == {"restriction", "element", "key", "value", "timer"}
    assert node.side_input_tags == ("side",)


def test_invalid_transform_payload_is_refused_with_transform_name():
    pipeline = pipeline_proto()
    transform = pipeline.components.transforms["impulse"]
    transform.spec.urn = "beam:transform:pardo:v1"
    transform.spec.payload = b"\xff\xff\xff"
    with pytest.raises(InvalidRequest, match="'Create/Impulse'.*pardo"):
        read_pipeline_graph(pipeline)


def test_environment_dependencies_are_found_and_replaced_in_all_alternatives(tmp_path):
    file = file_artifact(tmp_path / "f", "../../etc/passwd", sha256="ab")
    plain = embedded(b"data")
    other = runner_api.ArtifactInformation(type_urn="beam:artifact:type:deferred:v1")
    nested = anyof(runner_api.Environment(urn="inner", dependencies=[plain, other]))
    outer = anyof(runner_api.Environment(urn="first", dependencies=[file]), nested)
    pipeline = pipeline_proto()
    pipeline.components.environments["any"].CopyFrom(outer)
    pipeline.components.environments["python"].dependencies.append(plain)

    decoded = decode_prepare_request(request(pipeline))
    assert [item.source for item in decoded.dependencies["any"]] == [
        FetchableArtifact("ab"),
        EmbeddedArtifact(b"data"),
        UnresolvedArtifact(),
    ]
    first, second, third = decoded.dependencies["any"]
    assert first.staged_name == "../../etc/passwd"
    assert decoded.dependencies["python"] == (second,)

    staged = {first: (artifact("a"),), second: (artifact("b"), artifact("c")), third: ()}
    rewritten = runner_api.Pipeline.FromString(replace_dependencies(decoded.pipeline, staged))

    def paths(environment):
        return [
            runner_api.ArtifactFilePayload.FromString(item.type_payload).path
            for item in environment.dependencies
        ]

    environments = rewritten.components.environments
    assert paths(environments["python"]) == ["/s/b", "/s/c"]
    payload = runner_api.AnyOfEnvironmentPayload.FromString(environments["any"].payload)
    alternative, deeper = payload.environments
    assert paths(alternative) == ["/s/a"]
    innermost = runner_api.AnyOfEnvironmentPayload.FromString(deeper.payload).environments[0]
    assert innermost.urn == "inner"
    assert paths(innermost) == ["/s/b", "/s/c"]


def test_endlessly_nested_environments_are_refused():
    environment = runner_api.Environment(urn="inner")
    for _ in range(50):
        environment = anyof(environment)
    pipeline = pipeline_proto()
    pipeline.components.environments["deep"].CopyFrom(environment)
    with pytest.raises(InvalidRequest, match="'deep' has too many levels"):
        decode_prepare_request(request(pipeline))


def test_unreadable_environment_alternative_is_refused_with_environment_name():
    pipeline = pipeline_proto()
    environment = pipeline.components.environments["bad"]
    environment.urn = "beam:env:anyof:v1"
    environment.payload = b"\xff\xff\xff"
    with pytest.raises(InvalidRequest, match="environment 'bad'"):
        decode_prepare_request(request(pipeline))
