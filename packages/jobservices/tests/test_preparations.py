"""Tests of prepared jobs that wait to be run."""

from __future__ import annotations

import tracemalloc

import pytest
from google.protobuf import struct_pb2

from beam_runner_jobservices._protos import beam_job_api_pb2 as job_api
from beam_runner_jobservices.errors import InvalidRequest, LimitExceeded, NotFound, NotReady
from beam_runner_jobservices.limits import ServerLimits
from beam_runner_jobservices.preparations import ClientConnection, PreparationRegistry
from beam_runner_jobservices.store import ArtifactStore
from beam_runner_jobservices.wire.pipelines import decode_prepare_request

from .fakes import Clock, file_artifact, pipeline_proto

PEER = ClientConnection.from_peer_name("ipv4:127.0.0.1:4711")


def request(*artifacts):
    pipeline = pipeline_proto()
    pipeline.components.environments["python"].dependencies.extend(artifacts)
    return decode_prepare_request(job_api.PrepareJobRequest(pipeline=pipeline))


@pytest.fixture
def store(tmp_path):
    opened = ArtifactStore(tmp_path)
    yield opened
    opened.close()


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def preparations(store, clock):
    return PreparationRegistry(store, ServerLimits(preparation_ttl=100.0, preparations=3), clock)


def test_preparation_tokens_are_unique_and_unguessable(preparations):
    first, second = (
        preparations.add_preparation(request(), PEER),
        preparations.add_preparation(request(), PEER),
    )
    assert first.staging_token != second.staging_token
    assert len(first.staging_token) >= 40
    assert first.preparation_id not in first.staging_token
    assert preparations.find_preparation_by_token(first.staging_token) is first
    with pytest.raises(NotFound):
        preparations.find_preparation_by_token(first.preparation_id)
    with pytest.raises(NotFound):
        preparations.find_preparation_by_token("")


def test_malformed_pipeline_is_not_prepared():
    pipeline = pipeline_proto()
    pipeline.root_transform_ids[:] = []
    with pytest.raises(InvalidRequest):
        decode_prepare_request(job_api.PrepareJobRequest(pipeline=pipeline))


def test_preparation_without_its_artifacts_cannot_be_run(preparations, store):
    preparation = preparations.add_preparation(request(file_artifact("/f", "main.jar")), PEER)
    with pytest.raises(NotReady, match=r"'python'.*'main.jar'"):
        preparations.take_preparation(preparation.preparation_id)
    preparations.set_staged_artifacts(
        preparation, "owner", dict.fromkeys(preparation.list_dependencies(), ())
    )
    assert preparations.take_preparation(preparation.preparation_id) is preparation
    with pytest.raises(NotFound):
        preparations.take_preparation(preparation.preparation_id)


def test_second_staging_of_prepared_job_replaces_first(preparations, store):
    preparation = preparations.add_preparation(request(), PEER)
    stored = store.add_file("first", b"content")
    preparations.set_staged_artifacts(preparation, "first", {})
    preparations.set_staged_artifacts(preparation, "second", {})
    assert not stored.path.exists()
    preparations.take_preparation(preparation.preparation_id)
    with pytest.raises(NotFound):
        preparations.set_staged_artifacts(preparation, "third", {})


def test_unused_preparations_expire_with_their_artifacts(preparations, store, clock):
    old, used = (
        preparations.add_preparation(request(), PEER),
        preparations.add_preparation(request(), PEER),
    )
    stored = store.add_file("owner", b"content")
    preparations.set_staged_artifacts(old, "owner", {})
    clock.now += 60
    preparations.renew_preparation(used)
    assert preparations.remove_expired() == 0
    clock.now += 60
    assert preparations.remove_expired() == 1
    assert not stored.path.exists()
    with pytest.raises(NotFound, match="100 s"):
        preparations.take_preparation(old.preparation_id)
    with pytest.raises(NotFound):
        preparations.find_preparation_by_token(old.staging_token)
    assert preparations.take_preparation(used.preparation_id) is used


def test_client_above_preparation_limit_loses_its_oldest_preparation(preparations, store, clock):
    patient = preparations.add_preparation(request(), PEER)
    flood = []
    for number in range(20):
        clock.now += 1
        flood.append(
            preparations.add_preparation(
                request(), ClientConnection.from_peer_name(f"ipv4:10.0.0.7:{number % 2}")
            )
        )
    other = preparations.add_preparation(
        request(), ClientConnection.from_peer_name("ipv4:10.0.0.8:1")
    )
    assert preparations.take_preparation(patient.preparation_id) is patient
    assert preparations.take_preparation(other.preparation_id) is other
    assert preparations.take_preparation(flood[-1].preparation_id) is flood[-1]
    for preparation in flood[:-1]:
        with pytest.raises(LimitExceeded, match="the server discarded the prepared job"):
            preparations.take_preparation(preparation.preparation_id)
        with pytest.raises(LimitExceeded, match="Prepare the job again"):
            preparations.find_preparation_by_token(preparation.staging_token)
        with pytest.raises(LimitExceeded, match="discarded the prepared job"):
            preparations.set_staged_artifacts(preparation, "owner", {})


def test_host_above_preparation_limit_loses_preparations_of_connection_with_most(preparations):
    quiet = preparations.add_preparation(
        request(), ClientConnection.from_peer_name("ipv6:%5B::1%5D:1")
    )
    flood = [
        preparations.add_preparation(request(), ClientConnection.from_peer_name("ipv6:%5B::1%5D:2"))
        for _ in range(9)
    ]
    assert preparations.take_preparation(quiet.preparation_id) is quiet
    assert preparations.take_preparation(flood[-1].preparation_id) is flood[-1]


def test_expired_preparation_leaves_no_artifacts(preparations, store):
    first = preparations.add_preparation(request(), PEER)
    stored = store.add_file("owner", b"content")
    preparations.set_staged_artifacts(first, "owner", {})
    for _ in range(3):
        preparations.add_preparation(request(), PEER)
    assert not stored.path.exists()


def test_waiting_preparations_are_compressed():
    pipeline = pipeline_proto()
    options = struct_pb2.Struct()
    options.update({"x" * 100_000: 1})
    pipeline.components.transforms["large"].unique_name = "y" * 10_000
    message = job_api.PrepareJobRequest(pipeline=pipeline, pipeline_options=options)
    tracemalloc.start()
    waiting = [decode_prepare_request(message) for _ in range(20)]
    taken, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert taken < 20 * 10_000
    assert sum(one.held for one in waiting) < taken
    assert {one.size > 400_000 for one in waiting} == {True}
    # Map fields of a message have no order.
    assert all(type(pipeline).FromString(one.pipeline) == pipeline for one in waiting)
    assert all(one.options == {"x" * 100_000: 1} for one in waiting)


def test_total_size_of_preparations_is_limited(store, clock):
    size, held = request().size, request().held
    assert size > held > 100
    fit = 3 * size // held
    preparations = PreparationRegistry(store, ServerLimits(preparation_bytes=3 * size), clock)
    added = [preparations.add_preparation(request(), PEER) for _ in range(fit + 2)]
    for preparation in added[:2]:
        with pytest.raises(LimitExceeded):
            preparations.take_preparation(preparation.preparation_id)
    for preparation in added[2:]:
        preparations.take_preparation(preparation.preparation_id)
    small = PreparationRegistry(store, ServerLimits(preparation_bytes=size - 1), clock)
    with pytest.raises(LimitExceeded, match=f"need {size} bytes of this server's memory"):
        small.add_preparation(request(), PEER)
