"""Prepared jobs: waiting for their artifacts and for Run, and forgotten if neither comes."""

from __future__ import annotations

import secrets
import threading
from collections.abc import Callable, Mapping

import attrs

from .errors import NotFound, NotReady, TooMany
from .graph import check
from .limits import Limits
from .records import Artifact
from .staging import Dependency, Staged
from .store import ArtifactStore
from .wire.pipelines import PrepareRequest


@attrs.define(eq=False)
class Preparation:
    """A prepared job. `owner` is the name under which its artifacts are held in the store."""

    preparation_id: str
    staging_token: str = attrs.field(repr=False)
    request: PrepareRequest = attrs.field(repr=False)
    last_use: float
    staged: Staged = attrs.field(factory=dict, repr=False)
    owner: str = ""

    def needed(self) -> tuple[Dependency, ...]:
        """All dependencies of all environments, each once."""
        every = self.request.dependencies.values()
        return tuple(dict.fromkeys(item for items in every for item in items))

    def artifacts(self) -> Mapping[str, tuple[Artifact, ...]]:
        """The staged artifacts per environment id, each once.

        Raises:
            NotReady: some have not been staged; names the environment and a few of them.
        """
        found = {}
        for environment_id, items in self.request.dependencies.items():
            missing = [str(item) for item in items if item not in self.staged]
            if missing:
                raise NotReady(
                    f"environment {environment_id!r} has {len(missing)} artifacts that were not"
                    f" staged, such as {', '.join(missing[:3])}; stage them before Run"
                )
            artifacts = (artifact for item in items for artifact in self.staged[item])
            found[environment_id] = tuple(dict.fromkeys(artifacts))
        return found


class Preparations:
    """The prepared jobs of a server. Thread-safe."""

    def __init__(self, store: ArtifactStore, limits: Limits, clock: Callable[[], float]) -> None:
        self._store = store
        self._limits = limits
        self._clock = clock
        self._lock = threading.Lock()
        self._by_id: dict[str, Preparation] = {}
        self._by_token: dict[str, Preparation] = {}

    def add(self, request: PrepareRequest) -> Preparation:
        """Check the pipeline and give it a preparation id and a staging token of its own.

        Raises:
            InvalidRequest: the pipeline is malformed.
            TooMany: too many prepared jobs wait to be run.
        """
        check(request.graph)
        preparation = Preparation(
            preparation_id=f"preparation-{secrets.token_hex(8)}",
            staging_token=secrets.token_urlsafe(32),
            request=request,
            last_use=self._clock(),
        )
        with self._lock:
            if len(self._by_id) >= self._limits.preparations:
                raise TooMany(
                    f"{len(self._by_id)} prepared jobs wait to be run, and more are not allowed;"
                    f" run them, or wait until they expire"
                )
            self._by_id[preparation.preparation_id] = preparation
            self._by_token[preparation.staging_token] = preparation
        return preparation

    def with_token(self, staging_token: str) -> Preparation:
        """The preparation whose artifacts are staged with this token.

        Raises:
            NotFound: no such token, or its job has been run or forgotten.
        """
        with self._lock:
            preparation = self._by_token.get(staging_token)
        if preparation is None:
            raise NotFound("no prepared job awaits artifacts with this staging token")
        return preparation

    def touch(self, preparation: Preparation) -> None:
        """Say that the preparation is in use, so that it does not expire yet."""
        preparation.last_use = self._clock()

    def set_staged(self, preparation: Preparation, owner: str, staged: Staged) -> None:
        """Record what has become of the dependencies; `owner` holds the files from now on.

        Staging again replaces what was staged before.

        Raises:
            NotFound: the preparation has been run or forgotten meanwhile.
        """
        with self._lock:
            if preparation.preparation_id not in self._by_id:
                raise NotFound("the job was run or forgotten while its artifacts were staged")
            replaced = preparation.owner
            preparation.owner = owner
            preparation.staged = staged
            preparation.last_use = self._clock()
        self._store.release(replaced)

    def take(self, preparation_id: str) -> Preparation:
        """Remove and return the preparation, to run it. Its artifacts stay with its owner.

        Raises:
            NotFound: no such preparation, or it has expired.
            NotReady: artifacts are missing; the preparation stays.
        """
        with self._lock:
            preparation = self._by_id.get(preparation_id)
            if preparation is None:
                raise NotFound(
                    f"no prepared job {preparation_id!r}; jobs that are not run within"
                    f" {self._limits.preparation_ttl:.0f} s are forgotten"
                )
            preparation.artifacts()
            self._remove(preparation)
        return preparation

    def expire(self) -> int:
        """Forget the preparations that nobody used for too long, and their artifacts; how many."""
        latest = self._clock() - self._limits.preparation_ttl
        with self._lock:
            expired = [item for item in self._by_id.values() if item.last_use < latest]
            for preparation in expired:
                self._remove(preparation)
        for preparation in expired:
            self._store.release(preparation.owner)
        return len(expired)

    def _remove(self, preparation: Preparation) -> None:
        del self._by_id[preparation.preparation_id]
        del self._by_token[preparation.staging_token]
