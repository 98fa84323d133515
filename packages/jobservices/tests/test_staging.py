"""The staging conversation, without a transport."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from beam_runner_jobservices import InvalidRequest
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
    """The requests that were made, and what was staged."""
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


def test_a_file_comes_in_chunks(store):
    item = dependency(Fetchable(hashlib.sha256(b"abc").hexdigest()))
    answers = [Chunk(b"a", False), Chunk(b"bc", False), Chunk(b"", True)]
    requests, staged = converse(store, [item], answers)
    assert requests == [GetRequest(item)]
    (artifact,) = staged[item]
    assert (artifact.type_urn, artifact.size, artifact.staged_name) == ("file", 3, "name")
    assert Path(artifact.path).read_bytes() == b"abc"


def test_the_last_chunk_may_carry_data(store):
    item = dependency(Fetchable(""))
    _, staged = converse(store, [item], [Chunk(b"abc", True)])
    assert staged[item][0].size == 3


def test_embedded_content_is_not_asked_for(store):
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


def test_what_the_client_cannot_resolve_is_asked_for_as_it_is(store):
    item = dependency(Unresolved(), b"worker")
    requests, _ = converse(store, [item], [Resolved((item,)), Chunk(b"binary", True)])
    assert requests == [ResolveRequest(item), GetRequest(item)]


def test_equal_dependencies_are_asked_for_once(store):
    item = dependency(Fetchable(""))
    requests, _ = converse(store, [item, item], [Chunk(b"abc", True)])
    assert requests == [GetRequest(item)]


def test_content_that_is_not_what_was_announced_is_refused(store):
    with pytest.raises(InvalidRequest, match="'name'.*sha256"):
        converse(store, [dependency(Fetchable("0" * 64))], [Chunk(b"abc", True)])
    store.release("job")
    assert not [path for path in store.path("0" * 64).parents[1].rglob("*") if path.is_file()]


@pytest.mark.parametrize(
    ("source", "answer"),
    [(Fetchable(""), Resolved(())), (Unresolved(), Chunk(b"", True))],
)
def test_an_answer_to_another_question_is_refused(store, source, answer):
    with pytest.raises(InvalidRequest, match="sent something else"):
        converse(store, [dependency(source)], [answer])
