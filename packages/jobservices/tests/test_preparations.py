"""Prepared jobs that wait."""

from __future__ import annotations

import pytest

from beam_runner_jobservices import InvalidRequest, Limits, NotFound, NotReady, TooMany
from beam_runner_jobservices._protos import beam_job_api_pb2 as job_api
from beam_runner_jobservices.preparations import Preparations
from beam_runner_jobservices.store import ArtifactStore
from beam_runner_jobservices.wire.pipelines import prepare_request

from .fakes import Clock, file_artifact, pipeline_proto


def request(*artifacts):
    pipeline = pipeline_proto()
    pipeline.components.environments["python"].dependencies.extend(artifacts)
    return prepare_request(job_api.PrepareJobRequest(pipeline=pipeline))


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
    return Preparations(store, Limits(preparation_ttl=100.0, preparations=3), clock)


def test_tokens_are_of_one_preparation_and_cannot_be_guessed(preparations):
    first, second = preparations.add(request()), preparations.add(request())
    assert first.staging_token != second.staging_token
    assert len(first.staging_token) >= 40
    assert first.preparation_id not in first.staging_token
    assert preparations.with_token(first.staging_token) is first
    with pytest.raises(NotFound):
        preparations.with_token(first.preparation_id)
    with pytest.raises(NotFound):
        preparations.with_token("")


def test_a_malformed_pipeline_is_not_prepared(preparations):
    pipeline = pipeline_proto()
    pipeline.root_transform_ids[:] = []
    with pytest.raises(InvalidRequest):
        preparations.add(prepare_request(job_api.PrepareJobRequest(pipeline=pipeline)))


def test_without_its_artifacts_a_job_cannot_be_taken(preparations, store):
    preparation = preparations.add(request(file_artifact("/f", "main.jar")))
    with pytest.raises(NotReady, match=r"'python'.*'main.jar'"):
        preparations.take(preparation.preparation_id)
    preparations.set_staged(preparation, "owner", dict.fromkeys(preparation.needed(), ()))
    assert preparations.take(preparation.preparation_id) is preparation
    with pytest.raises(NotFound):
        preparations.take(preparation.preparation_id)


def test_staging_again_replaces_what_was_staged(preparations, store):
    preparation = preparations.add(request())
    stored = store.add("first", b"content")
    preparations.set_staged(preparation, "first", {})
    preparations.set_staged(preparation, "second", {})
    assert not stored.path.exists()
    preparations.take(preparation.preparation_id)
    with pytest.raises(NotFound):
        preparations.set_staged(preparation, "third", {})


def test_unused_preparations_expire_with_their_artifacts(preparations, store, clock):
    old, used = preparations.add(request()), preparations.add(request())
    stored = store.add("owner", b"content")
    preparations.set_staged(old, "owner", {})
    clock.now += 60
    preparations.touch(used)
    assert preparations.expire() == 0
    clock.now += 60
    assert preparations.expire() == 1
    assert not stored.path.exists()
    with pytest.raises(NotFound, match="100 s"):
        preparations.take(old.preparation_id)
    with pytest.raises(NotFound):
        preparations.with_token(old.staging_token)
    assert preparations.take(used.preparation_id) is used


def test_there_is_a_limit(preparations, clock):
    for _ in range(3):
        preparations.add(request())
    with pytest.raises(TooMany, match="3 prepared jobs"):
        preparations.add(request())
    clock.now += 101
    preparations.expire()
    preparations.add(request())
