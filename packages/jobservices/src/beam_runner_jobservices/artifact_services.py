"""gRPC services for artifact staging (by clients) and artifact retrieval (by SDK harnesses)."""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

import attrs
import grpc

from beam_runner_jobservices._protos import RetrievalServicer, StagingServicer
from beam_runner_jobservices.decoding import get_decoded_request
from beam_runner_jobservices.error_statuses import (
    convert_errors_to_status,
    convert_stream_errors_to_status,
)
from beam_runner_jobservices.errors import InvalidRequest, NotFound
from beam_runner_jobservices.preparations import Preparation, PreparationRegistry
from beam_runner_jobservices.staging import (
    EmbeddedArtifact,
    FetchableArtifact,
    Steps,
    stage_artifacts,
)
from beam_runner_jobservices.store import ArtifactStore
from beam_runner_jobservices.wire import artifacts as wire

_CHUNK = 2 << 20
"""The chunk size in bytes. gRPC clients accept messages of up to 4 MiB by default."""


@attrs.define(eq=False)
class _StagingSession:
    """An open staging stream, and the time (monotonic, in seconds) of the last message from its client."""

    context: grpc.ServicerContext
    last_use: float


class StagingService(StagingServicer):
    """The `ArtifactStagingService`, which requests the artifacts of prepared jobs from clients."""

    def __init__(
        self, preparations: PreparationRegistry, store: ArtifactStore, idle_limit: float
    ) -> None:
        self._preparations = preparations
        self._store = store
        self._idle_limit = idle_limit
        self._lock = threading.Lock()
        self._sessions: set[_StagingSession] = set()

    @convert_stream_errors_to_status
    def ReverseArtifactRetrievalService(
        self, answers: Iterator[Any], context: grpc.ServicerContext
    ) -> Iterator[Any]:
        with self._track_session(context) as session:
            first = _read_answer(answers)
            preparation = self._preparations.find_preparation_by_token(first.staging_token)
            owner = f"{preparation.preparation_id}/{secrets.token_hex(4)}"
            try:
                yield from self._request_artifacts(session, preparation, owner, answers)
            except BaseException:
                self._store.release_files(owner)
                raise

    def _request_artifacts(
        self, session: _StagingSession, preparation: Preparation, owner: str, answers: Iterator[Any]
    ) -> Iterator[Any]:
        steps: Steps = stage_artifacts(
            preparation.list_dependencies(),
            self._store,
            owner,
            wire.FILE_TYPE,
            lambda: self._preparations.renew_preparation(preparation),
        )
        with closing(steps):
            answer = None
            while True:
                try:
                    request = steps.send(answer)
                except StopIteration as end:
                    self._preparations.set_staged_artifacts(preparation, owner, end.value)
                    return
                if request is not None:
                    yield wire.encode_staging_request(request)
                answer = wire.decode_staging_answer(_read_answer(answers))
                session.last_use = time.monotonic()

    @contextmanager
    def _track_session(self, context: grpc.ServicerContext) -> Iterator[_StagingSession]:
        session = _StagingSession(context, time.monotonic())
        with self._lock:
            self._sessions.add(session)
        try:
            yield session
        finally:
            with self._lock:
                self._sessions.discard(session)

    def cancel_idle_sessions(self) -> None:
        """Ends the staging streams of clients that have sent no message for longer than the limit."""
        latest = time.monotonic() - self._idle_limit
        with self._lock:
            idle = [session for session in self._sessions if session.last_use < latest]
        for session in idle:
            session.context.cancel()


def _read_answer(answers: Iterator[Any]) -> Any:
    try:
        return get_decoded_request(next(answers))
    except StopIteration:
        raise InvalidRequest(
            "the client closed the staging stream before it had sent all artifacts"
        ) from None


class RetrievalService(RetrievalServicer):
    """The `ArtifactRetrievalService`, which sends artifacts of the store to SDK harnesses."""

    def __init__(self, store: ArtifactStore) -> None:
        self._store = store

    @convert_errors_to_status
    def ResolveArtifacts(self, request: Any, context: grpc.ServicerContext) -> Any:
        return wire.encode_resolve_response(
            wire.decode_dependency(item) for item in request.artifacts
        )

    @convert_stream_errors_to_status
    def GetArtifact(self, request: Any, context: grpc.ServicerContext) -> Iterator[Any]:
        item = wire.decode_dependency(request.artifact)
        if isinstance(item.source, EmbeddedArtifact):
            data = item.source.data
            for start in range(0, len(data), _CHUNK):
                yield wire.encode_artifact_response(data[start : start + _CHUNK])
            return
        sha256 = item.source.sha256 if isinstance(item.source, FetchableArtifact) else ""
        if not sha256:
            raise NotFound(
                f"can't look up the artifact {item}: the request doesn't contain its sha256"
            )
        with self._store.open_file(sha256) as file:
            while chunk := file.read(_CHUNK):
                yield wire.encode_artifact_response(chunk)
