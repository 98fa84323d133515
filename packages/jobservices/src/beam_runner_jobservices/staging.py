"""Server side of artifact staging (the upload of a job's files), independent of gRPC.

The Job API reverses retrieval. The client opens a stream, sends its staging token, and then answers
the server's requests to resolve and to get artifacts
(`ArtifactStagingService.ReverseArtifactRetrievalService`). `stage_artifacts` is a generator that
yields the requests. Its caller sends the client's answers into the generator.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping

import attrs
from beam_runner_model.jobs import StagedArtifact

from beam_runner_jobservices.errors import InvalidRequest
from beam_runner_jobservices.store import ArtifactStore, StoredFile

NAME_BYTES = 255
"""The maximum length of a file name in most file systems, in bytes of UTF-8."""
_SHOWN = 60


@attrs.frozen
class EmbeddedArtifact:
    """An artifact whose content is part of the pipeline."""

    data: bytes = attrs.field(repr=False)


@attrs.frozen
class FetchableArtifact:
    """An artifact whose content the client can send; `sha256` is the client's hash of it, or empty."""

    sha256: str


@attrs.frozen
class UnresolvedArtifact:
    """An artifact that the client must first resolve (deferred artifacts, packages of a repository)."""


@attrs.frozen
class ArtifactDependency:
    """An artifact as the client describes it. The server fetches equal dependencies once.

    `source` follows from `type_urn` and `type_payload`, so comparisons ignore it.
    """

    type_urn: str
    type_payload: bytes = attrs.field(repr=False)
    role_urn: str
    role_payload: bytes = attrs.field(repr=False)
    staged_name: str
    source: EmbeddedArtifact | FetchableArtifact | UnresolvedArtifact = attrs.field(
        eq=False, repr=False
    )

    def __str__(self) -> str:
        return f"{self.staged_name!r} ({self.type_urn})" if self.staged_name else self.type_urn


@attrs.frozen
class ResolveRequest:
    """A request to the client to resolve `dependency`."""

    dependency: ArtifactDependency


@attrs.frozen
class ContentRequest:
    """A request to the client for the content of `dependency`, in chunks."""

    dependency: ArtifactDependency


@attrs.frozen
class ResolveAnswer:
    """The client's answer to a `ResolveRequest`."""

    replacements: tuple[ArtifactDependency, ...]


@attrs.frozen
class ContentChunk:
    """A part of the client's answer to a `ContentRequest`."""

    data: bytes
    is_last: bool


Request = ResolveRequest | ContentRequest
Answer = ResolveAnswer | ContentChunk
Staged = Mapping[ArtifactDependency, tuple[StagedArtifact, ...]]
Steps = Generator[Request | None, Answer | None, Staged]
_Part = Generator[Request | None, Answer | None, StagedArtifact]


def stage_artifacts(
    dependencies: Iterable[ArtifactDependency],
    store: ArtifactStore,
    owner: str,
    file_type: str,
    progress: Callable[[], None],
) -> Steps:
    """Copies the artifacts of `dependencies` from the client into `store`, for the job `owner`.

    The generator yields the next request to the client, or None if the last answer was only a part
    of the content. Its caller sends the client's next answer into the generator each time. The
    generator returns the artifacts of each dependency, of type `file_type`, and calls `progress`
    after each artifact.

    Raises:
        InvalidRequest: the client's answer doesn't fit the request, its content differs from the
            hash, or the name of an artifact is too long for a file.
    """
    dependencies = tuple(dependencies)
    for dependency in dependencies:
        _check_file_name(dependency)
    staged: dict[ArtifactDependency, tuple[StagedArtifact, ...]] = {}
    for dependency in dependencies:
        if dependency in staged:
            continue
        parts: tuple[ArtifactDependency, ...] = (dependency,)
        if isinstance(dependency.source, UnresolvedArtifact):
            answer = yield ResolveRequest(dependency)
            if not isinstance(answer, ResolveAnswer):
                raise InvalidRequest(
                    "the client sent an unexpected message; expected the resolved"
                    f" artifact {dependency}"
                )
            parts = answer.replacements
        artifacts = []
        for part in parts:
            artifacts.append((yield from _stage_artifact(part, store, owner, file_type)))
            progress()
        staged[dependency] = tuple(artifacts)
    return staged


def _check_file_name(dependency: ArtifactDependency) -> None:
    """Raises an error if no worker can write a file with this name."""
    name = dependency.staged_name
    longest = max(len(part.encode()) for part in name.split("/"))
    if longest > NAME_BYTES:
        raise InvalidRequest(
            f"Can't stage the artifact {name[:_SHOWN]!r}...: its name has {longest}"
            f" bytes, and a file name has at most {NAME_BYTES}; rename the file, and"
            " submit the job again"
        )


def _stage_artifact(
    dependency: ArtifactDependency, store: ArtifactStore, owner: str, file_type: str
) -> _Part:
    _check_file_name(dependency)
    if isinstance(dependency.source, EmbeddedArtifact):
        return _make_staged_artifact(
            dependency, store.add_file(owner, dependency.source.data), file_type
        )
    with store.open_incoming_file(owner) as file:
        request: Request | None = ContentRequest(dependency)
        while True:
            answer = yield request
            request = None
            if not isinstance(answer, ContentChunk):
                raise InvalidRequest(
                    f"the client sent an unexpected message; expected the artifact {dependency}"
                )
            file.write(answer.data)
            if answer.is_last:
                break
        source = dependency.source
        if isinstance(source, FetchableArtifact) and source.sha256 and source.sha256 != file.sha256:
            raise InvalidRequest(
                f"the artifact {dependency} should have sha256 {source.sha256}, but the"
                f" received file has {file.sha256}; the file may have changed during the"
                " submission: submit the job again"
            )
        return _make_staged_artifact(dependency, file.commit(), file_type)


def _make_staged_artifact(
    dependency: ArtifactDependency, stored: StoredFile, file_type: str
) -> StagedArtifact:
    return StagedArtifact(
        type_urn=file_type,
        role_urn=dependency.role_urn,
        role_payload=dependency.role_payload,
        staged_name=dependency.staged_name,
        sha256=stored.sha256,
        size=stored.size,
        path=str(stored.path),
    )
