"""Stands where Beam expects its state handler: leads to the host's side inputs and user state."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from typing import Any, NoReturn, Protocol

from apache_beam.coders import coder_impl
from apache_beam.runners.worker.sdk_worker import CachingStateHandler
from beam_runner_model.chunks import Timer
from beam_runner_model.value_pieces import ValuePieces

from beam_runner_worker.embedded.host_errors import HostErrors, WatchedState, watched_pieces
from beam_runner_worker.errors import HarnessError
from beam_runner_worker.ports import SideInputReader, UserState


class Views(Protocol):
    """What an operation has read of a side input."""

    def is_current(self) -> bool:
        """Whether that is what there is to read."""


class Cells(Protocol):
    """The state of a stateful transform, as far as user code has seen or changed it."""

    def to_user_timer(self, timer: Timer) -> Any:
        """A timer that is due, as Beam's operation takes it."""

    def flush(self) -> None:
        """Writes to the host what has changed."""


class StateHandler(CachingStateHandler):
    """Carries the host's ports to the operations, and refuses what Beam's own classes would ask.

    Side inputs and user state are read by classes of this package, so nothing but an error can
    bring Beam to ask for either.

    Args:
        reader: the stage's side inputs.
        stage_name: for messages.
        changing: whether side inputs may change from one bundle to the next.

    Attributes:
        changing: as given.
        errors: what the reader and the state of bundles have raised, whoever has caught it.
        views: of every side input of the stage.
        cells: of every stateful transform by its id.
    """

    def __init__(self, reader: SideInputReader, stage_name: str, *, changing: bool = False) -> None:
        self.changing = changing
        self.errors = HostErrors()
        self.views: list[Views] = []
        self.cells: dict[str, Cells] = {}
        self._reader = reader
        self._stage_name = stage_name
        self._user_state: WatchedState | None = None

    @property
    def user_state(self) -> UserState:
        """The state of the running bundle.

        Raises:
            HarnessError: the host gave none with it.
        """
        if self._user_state is None:
            with self.errors:
                raise HarnessError(
                    f"Stage {self._stage_name} was given no state for its stateful DoFn"
                )
        return self._user_state

    def show(self, user_state: UserState | None) -> None:
        """Leads to this state from now on."""
        self._user_state = None if user_state is None else WatchedState(user_state, self.errors)

    def version(self, transform_id: str, tag: str) -> int:
        """As :meth:`SideInputReader.version`."""
        with self.errors:
            return self._reader.version(transform_id, tag)

    def iterable(self, transform_id: str, tag: str, window: bytes) -> bytes | ValuePieces:
        """As :meth:`SideInputReader.iterable`."""
        with self.errors:
            return self._watched(self._reader.iterable(transform_id, tag, window))

    def values(self, transform_id: str, tag: str, window: bytes, key: bytes) -> bytes | ValuePieces:
        """As :meth:`SideInputReader.values`."""
        with self.errors:
            return self._watched(self._reader.values(transform_id, tag, window, key))

    def _watched(self, values: bytes | ValuePieces) -> bytes | ValuePieces:
        return values if isinstance(values, bytes) else watched_pieces(values, self.errors)

    def blocking_get(self, state_key: Any, coder: coder_impl.CoderImpl) -> NoReturn:
        """Refuses.

        Raises:
            HarnessError: always; it names the kind of state.
        """
        self._refuse(state_key)

    def extend(self, state_key: Any, coder: Any, elements: Iterable[Any]) -> NoReturn:
        """Refuses, as :meth:`blocking_get`."""
        self._refuse(state_key)

    def clear(self, state_key: Any) -> NoReturn:
        """Refuses, as :meth:`blocking_get`."""
        self._refuse(state_key)

    def _refuse(self, state_key: Any) -> NoReturn:
        kind = state_key.WhichOneof("type")
        asked = getattr(state_key, kind) if kind else state_key
        with self.errors:
            raise HarnessError(
                f"{getattr(asked, 'transform_id', '') or self._stage_name} asked for state of the "
                f"kind {kind}, which the embedded harness does not serve"
            )

    @contextlib.contextmanager
    def process_instruction_id(self, bundle_id: str, cache_tokens: Iterable[Any]) -> Iterator[None]:
        """Nothing depends on the bundle."""
        yield

    def done(self) -> None:
        """Nothing is open."""
