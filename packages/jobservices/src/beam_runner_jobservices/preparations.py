"""Prepared jobs: jobs between the client's Prepare and Run calls. They expire if the client doesn't
call Run.

If the prepared jobs exceed the limits, the server accepts a new job anyway, and drops the oldest
prepared jobs of the client with the most prepared jobs. So a client that prepares too many jobs
can't block other clients.
"""

from __future__ import annotations

import secrets
import threading
from collections import Counter, deque
from collections.abc import Callable, Mapping
from typing import Any

import attrs
from beam_runner_model.jobs import StagedArtifact

from beam_runner_jobservices.errors import LimitExceeded, NotFound, NotReady
from beam_runner_jobservices.limits import ServerLimits
from beam_runner_jobservices.staging import ArtifactDependency, Staged
from beam_runner_jobservices.store import ArtifactStore
from beam_runner_jobservices.wire.pipelines import PrepareRequest

_GIVEN_UP_REMEMBERED = 10_000


@attrs.frozen
class ClientConnection:
    """Client that prepared a job, identified by the client's host and connection."""

    host: str
    connection: str

    @classmethod
    def from_peer_name(cls, name: str) -> ClientConnection:
        """Returns the connection for a peer name of gRPC, such as `ipv4:10.0.0.7:41000`."""
        return cls(name.rpartition(":")[0], name)


@attrs.define(eq=False)
class Preparation:
    """Prepared job. `owner` is the name of the job's artifacts in the artifact store."""

    preparation_id: str
    staging_token: str = attrs.field(repr=False)
    request: PrepareRequest = attrs.field(repr=False)
    last_use: float
    peer: ClientConnection
    staged: Staged = attrs.field(factory=dict, repr=False)
    owner: str = ""

    def list_dependencies(self) -> tuple[ArtifactDependency, ...]:
        """Returns all dependencies of all environments, without duplicates."""
        every = self.request.dependencies.values()
        return tuple(dict.fromkeys(item for items in every for item in items))

    def list_artifacts(self) -> Mapping[str, tuple[StagedArtifact, ...]]:
        """Returns the staged artifacts by environment id, without duplicates.

        Raises:
            NotReady: artifacts are missing; the text names the environment and some of them.
        """
        found = {}
        for environment_id, items in self.request.dependencies.items():
            missing = [str(item) for item in items if item not in self.staged]
            if missing:
                raise NotReady(
                    f"environment {environment_id!r} has {len(missing)} artifacts that"
                    f" aren't staged, such as {', '.join(missing[:3])}; stage them"
                    " before Run"
                )
            artifacts = (artifact for item in items for artifact in self.staged[item])
            found[environment_id] = tuple(dict.fromkeys(artifacts))
        return found


class PreparationRegistry:
    """The prepared jobs of a server. Thread-safe."""

    def __init__(
        self, store: ArtifactStore, limits: ServerLimits, clock: Callable[[], float]
    ) -> None:
        self._store = store
        self._limits = limits
        self._clock = clock
        self._lock = threading.Lock()
        self._by_id: dict[str, Preparation] = {}
        self._by_token: dict[str, Preparation] = {}
        self._bytes = 0
        self._given_up: deque[str] = deque(maxlen=2 * _GIVEN_UP_REMEMBERED)

    def add_preparation(self, request: PrepareRequest, peer: ClientConnection) -> Preparation:
        """Adds a prepared job. Returns the preparation id and the staging token of the job.

        Raises:
            LimitExceeded: the job alone exceeds the limit for all preparations.
        """
        if request.size > self._limits.preparation_bytes:
            raise LimitExceeded(
                f"the pipeline and its options need {request.size} bytes of this"
                f" server's memory; the maximum is {self._limits.preparation_bytes};"
                " stage large data as files"
            )
        preparation = Preparation(
            preparation_id=f"preparation-{secrets.token_hex(8)}",
            staging_token=secrets.token_urlsafe(32),
            request=request,
            last_use=self._clock(),
            peer=peer,
        )
        given_up = []
        with self._lock:
            self._by_id[preparation.preparation_id] = preparation
            self._by_token[preparation.staging_token] = preparation
            self._bytes += request.held
            while self._exceeds_limits():
                given_up.append(self._discard_preparation())
        for one in given_up:
            self._store.release_files(one.owner)
        return preparation

    def _exceeds_limits(self) -> bool:
        return (
            len(self._by_id) > self._limits.preparations
            or self._bytes > self._limits.preparation_bytes
        )

    def _discard_preparation(self) -> Preparation:
        """Removes the least recently used preparation of the busiest connection of the busiest host."""
        share = self._limits.preparation_bytes / self._limits.preparations
        hosts: Counter[str] = Counter()
        connections: Counter[ClientConnection] = Counter()
        for preparation in self._by_id.values():
            weight = int(share + preparation.request.held)
            hosts[preparation.peer.host] += weight
            connections[preparation.peer] += weight
        (host, _), *_ = hosts.most_common(1)
        most = max((peer for peer in connections if peer.host == host), key=connections.__getitem__)
        theirs = (one for one in self._by_id.values() if one.peer == most)
        oldest = min(theirs, key=lambda one: one.last_use)
        self._remove_preparation(oldest)
        self._given_up.extend((oldest.preparation_id, oldest.staging_token))
        return oldest

    def _check_not_discarded(self, name: str) -> None:
        if name in self._given_up:
            raise LimitExceeded(
                "the server discarded the prepared job, because this client prepared"
                f" too many jobs; at most {self._limits.preparations} of"
                f" {self._limits.preparation_bytes} bytes in total can wait. Prepare the"
                " job again, and run it before other jobs"
            )

    def find_preparation_by_token(self, staging_token: str) -> Preparation:
        """Returns the preparation of a staging token.

        Raises:
            NotFound: the token is unknown, or its job has been run or has expired.
            LimitExceeded: the job was dropped for other jobs.
        """
        with self._lock:
            preparation = self._by_token.get(staging_token)
            if preparation is None:
                self._check_not_discarded(staging_token)
        if preparation is None:
            raise NotFound("no prepared job has this staging token")
        return preparation

    def renew_preparation(self, preparation: Preparation) -> None:
        """Records that a client uses the preparation, so that the preparation doesn't expire yet."""
        preparation.last_use = self._clock()

    def set_staged_artifacts(self, preparation: Preparation, owner: str, staged: Staged) -> None:
        """Records the staged files of the job's dependencies. `owner` is their owner in the
        artifact store.

        If a client stages again, the new files replace the previous files.

        Raises:
            NotFound: the prepared job was run or expired during the staging.
            LimitExceeded: the server dropped the prepared job to accept other jobs.
        """
        with self._lock:
            if preparation.preparation_id not in self._by_id:
                self._check_not_discarded(preparation.preparation_id)
                raise NotFound("the job was run or discarded during the staging of its artifacts")
            replaced = preparation.owner
            preparation.owner = owner
            preparation.staged = staged
            preparation.last_use = self._clock()
        self._store.release_files(replaced)

    def find_options(self, preparation_id: str) -> Mapping[str, Any]:
        """Returns the pipeline options of a prepared job; none if the preparation is unknown."""
        with self._lock:
            preparation = self._by_id.get(preparation_id)
            return {} if preparation is None else preparation.request.options

    def take_preparation(self, preparation_id: str) -> Preparation:
        """Removes and returns a prepared job that will run now. Its artifacts stay in the store.

        Raises:
            NotFound: the preparation is unknown or has expired.
            LimitExceeded: the preparation was dropped for other jobs.
            NotReady: artifacts are missing; the preparation stays.
        """
        with self._lock:
            preparation = self._by_id.get(preparation_id)
            if preparation is None:
                self._check_not_discarded(preparation_id)
                raise NotFound(
                    f"no prepared job {preparation_id!r}; the server discards prepared"
                    f" jobs that aren't run within {self._limits.preparation_ttl:.0f} s"
                )
            preparation.list_artifacts()
            self._remove_preparation(preparation)
        return preparation

    def remove_expired(self) -> int:
        """Removes the expired preparations and their artifacts. Returns the number of removed
        preparations.
        """
        latest = self._clock() - self._limits.preparation_ttl
        with self._lock:
            expired = [item for item in self._by_id.values() if item.last_use < latest]
            for preparation in expired:
                self._remove_preparation(preparation)
        for preparation in expired:
            self._store.release_files(preparation.owner)
        return len(expired)

    def _remove_preparation(self, preparation: Preparation) -> None:
        del self._by_id[preparation.preparation_id]
        del self._by_token[preparation.staging_token]
        self._bytes -= preparation.request.held
