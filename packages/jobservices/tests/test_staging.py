"""Tests of the staging conversation without a transport."""

from __future__ import annotations

import hashlib
from pathlib import Path

import attrs
import pytest

from beam_runner_jobservices.errors import InvalidRequest
from beam_runner_jobservices.staging import (
    ArtifactDependency,
    ContentChunk,
    ContentRequest,
    EmbeddedArtifact,
    FetchableArtifact,
    ResolveAnswer,
    ResolveRequest,
    UnresolvedArtifact,
    stage_artifacts,
)
from beam_runner_jobservices.store import ArtifactStore


@pytest.fixture
def store(tmp_path):
    opened = ArtifactStore(tmp_path)
    yield opened
    opened.close()


def dependency(source, payload=b"", role=b""):
    return ArtifactDependency("type", payload, "role", role, "name", source)


def converse(store, dependencies, answers):
    """Returns the requests of the server, and the staged artifacts."""
    steps = stage_artifacts(dependencies, store, "job", "file", lambda: None)
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


def test_staged_file_is_assembled_from_chunks(store):
    item = dependency(FetchableArtifact(hashlib.sha256(b"abc").hexdigest()))
    answers = [ContentChunk(b"a", False), ContentChunk(b"bc", False), ContentChunk(b"", True)]
    requests, staged = converse(store, [item], answers)
    assert requests == [ContentRequest(item)]
    (artifact,) = staged[item]
    assert (artifact.type_urn, artifact.size, artifact.staged_name) == ("file", 3, "name")
    assert Path(artifact.path).read_bytes() == b"abc"


def test_staged_file_includes_data_of_last_chunk(store):
    item = dependency(FetchableArtifact(""))
    _, staged = converse(store, [item], [ContentChunk(b"abc", True)])
    assert staged[item][0].size == 3


def test_staging_does_not_request_embedded_content(store):
    item = dependency(EmbeddedArtifact(b"content"))
    requests, staged = converse(store, [item], [])
    assert requests == []
    assert Path(staged[item][0].path).read_bytes() == b"content"


def test_staging_resolves_deferred_artifacts_first(store):
    item = dependency(UnresolvedArtifact(), b"deferred")
    parts = (
        dependency(FetchableArtifact(""), b"one"),
        dependency(EmbeddedArtifact(b"two"), b"two"),
    )
    requests, staged = converse(store, [item], [ResolveAnswer(parts), ContentChunk(b"one", True)])
    assert requests == [ResolveRequest(item), ContentRequest(parts[0])]
    assert [artifact.size for artifact in staged[item]] == [3, 3]


def test_staging_requests_unresolved_artifact_unchanged(store):
    item = dependency(UnresolvedArtifact(), b"worker")
    requests, _ = converse(store, [item], [ResolveAnswer((item,)), ContentChunk(b"binary", True)])
    assert requests == [ResolveRequest(item), ContentRequest(item)]


def test_staging_requests_equal_dependencies_once(store):
    item = dependency(FetchableArtifact(""))
    requests, _ = converse(store, [item, item], [ContentChunk(b"abc", True)])
    assert requests == [ContentRequest(item)]


def test_staged_content_with_wrong_digest_is_refused(store):
    with pytest.raises(InvalidRequest, match="'name'.*sha256"):
        converse(store, [dependency(FetchableArtifact("0" * 64))], [ContentChunk(b"abc", True)])
    store.release_files("job")
    assert not [path for path in store.get_path("0" * 64).parents[1].rglob("*") if path.is_file()]


def named(name, source=None):
    return attrs.evolve(dependency(source or FetchableArtifact("")), staged_name=name)


@pytest.mark.parametrize("name", ["n" * 256, "\u00e9" * 128, f"folder/{'n' * 256}"])
def test_staged_file_name_above_limit_is_refused_before_any_request(store, name):
    steps = stage_artifacts(
        [dependency(FetchableArtifact("")), named(name)], store, "job", "file", lambda: None
    )
    with pytest.raises(
        InvalidRequest, match=r"the artifact '.{60}'\.\.\..* 256 bytes.* at most 255"
    ):
        steps.send(None)


@pytest.mark.parametrize("name", ["n" * 255, "\u00e9" * 127, "/".join(["n" * 200] * 3), ""])
def test_valid_staged_file_name_is_accepted(store, name):
    _, staged = converse(store, [named(name)], [ContentChunk(b"abc", True)])
    assert staged[named(name)][0].staged_name == name


def test_resolved_artifact_with_file_name_above_limit_is_refused(store):
    with pytest.raises(InvalidRequest, match="has 300 bytes"):
        converse(store, [dependency(UnresolvedArtifact())], [ResolveAnswer((named("n" * 300),))])


@pytest.mark.parametrize(
    ("source", "answer"),
    [(FetchableArtifact(""), ResolveAnswer(())), (UnresolvedArtifact(), ContentChunk(b"", True))],
)
def test_staging_response_to_another_request_is_refused(store, source, answer):
    with pytest.raises(InvalidRequest, match="sent an unexpected message"):
        converse(store, [dependency(source)], [answer])
