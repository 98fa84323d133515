"""Tests of the staging conversation without a transport."""

from __future__ import annotations

import hashlib
from pathlib import Path

import attrs
import pytest

from beam_runner_jobservices.errors import InvalidRequest
from beam_runner_jobservices.staging import (
    Chunk,
    Dependency,
    Embedded,
    Fetchable,
    GetRequest,
    Resolved,
    ResolveRequest,
    Unresolved,
    stage,
)
from beam_runner_jobservices.store import ArtifactStore


@pytest.fixture
def store(tmp_path):
    opened = ArtifactStore(tmp_path)
    yield opened
    opened.close()


def dependency(source, payload=b"", role=b""):
    return Dependency("type", payload, "role", role, "name", source)


def converse(store, dependencies, answers):
    """Returns the requests of the server, and the staged artifacts."""
    steps = stage(dependencies, store, "job", "file", lambda: None)
    requests = []
    answer = None
    remaining = iter(answers)
    while True:
        try:
            request = steps.send(answer)
        except StopIteration as end:
            assert next(remaining, None) is None
            return requests, end.value
        if request is not None:
            requests.append(request)
        answer = next(remaining)


def test_file_arrives_in_chunks(store):
    item = dependency(Fetchable(hashlib.sha256(b"abc").hexdigest()))
    answers = [Chunk(b"a", False), Chunk(b"bc", False), Chunk(b"", True)]
    requests, staged = converse(store, [item], answers)
    assert requests == [GetRequest(item)]
    (artifact,) = staged[item]
    assert (artifact.type_urn, artifact.size, artifact.staged_name) == ("file", 3, "name")
    assert Path(artifact.path).read_bytes() == b"abc"


def test_last_chunk_with_data_is_stored(store):
    item = dependency(Fetchable(""))
    _, staged = converse(store, [item], [Chunk(b"abc", True)])
    assert staged[item][0].size == 3


def test_embedded_content_is_not_requested(store):
    item = dependency(Embedded(b"content"))
    requests, staged = converse(store, [item], [])
    assert requests == []
    assert Path(staged[item][0].path).read_bytes() == b"content"


def test_deferred_artifacts_are_resolved_first(store):
    item = dependency(Unresolved(), b"deferred")
    parts = (dependency(Fetchable(""), b"one"), dependency(Embedded(b"two"), b"two"))
    requests, staged = converse(store, [item], [Resolved(parts), Chunk(b"one", True)])
    assert requests == [ResolveRequest(item), GetRequest(parts[0])]
    assert [artifact.size for artifact in staged[item]] == [3, 3]


def test_unresolved_artifact_is_requested_unchanged(store):
    item = dependency(Unresolved(), b"worker")
    requests, _ = converse(store, [item], [Resolved((item,)), Chunk(b"binary", True)])
    assert requests == [ResolveRequest(item), GetRequest(item)]


def test_equal_dependencies_are_requested_once(store):
    item = dependency(Fetchable(""))
    requests, _ = converse(store, [item, item], [Chunk(b"abc", True)])
    assert requests == [GetRequest(item)]


def test_content_with_wrong_digest_is_refused(store):
    with pytest.raises(InvalidRequest, match="'name'.*sha256"):
        converse(store, [dependency(Fetchable("0" * 64))], [Chunk(b"abc", True)])
    store.release("job")
    assert not [path for path in store.path("0" * 64).parents[1].rglob("*") if path.is_file()]


def named(name, source=None):
    return attrs.evolve(dependency(source or Fetchable("")), staged_name=name)


@pytest.mark.parametrize("name", ["n" * 256, "\u00e9" * 128, f"folder/{'n' * 256}"])
def test_file_name_above_limit_is_refused_before_any_request(store, name):
    steps = stage([dependency(Fetchable("")), named(name)], store, "job", "file", lambda: None)
    with pytest.raises(
        InvalidRequest, match=r"the artifact '.{60}'\.\.\..* 256 bytes.* at most 255"
    ):
        steps.send(None)


@pytest.mark.parametrize("name", ["n" * 255, "\u00e9" * 127, "/".join(["n" * 200] * 3), ""])
def test_valid_file_name_is_accepted(store, name):
    _, staged = converse(store, [named(name)], [Chunk(b"abc", True)])
    assert staged[named(name)][0].staged_name == name


def test_replacement_name_above_limit_is_refused(store):
    with pytest.raises(InvalidRequest, match="has 300 bytes"):
        converse(store, [dependency(Unresolved())], [Resolved((named("n" * 300),))])


@pytest.mark.parametrize(
    ("source", "answer"),
    [(Fetchable(""), Resolved(())), (Unresolved(), Chunk(b"", True))],
)
def test_response_to_another_request_is_refused(store, source, answer):
    with pytest.raises(InvalidRequest, match="sent an unexpected message"):
        converse(store, [dependency(source)], [answer])
