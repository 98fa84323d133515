"""Replacement for Beam's state handler, which gives operations access to the side inputs and user
state of the runner.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from typing import Any, NoReturn, Protocol

from apache_beam.coders import coder_impl
from apache_beam.runners.worker.sdk_worker import CachingStateHandler
from beam_runner_model.chunks import StageTimer
from beam_runner_model.value_pieces import ValuePieces
from beam_runner_worker.errors import HarnessError
from beam_runner_worker.ports import SideInputReader, UserState

from beam_runner_embedded.host_errors import (
    ErrorRecordingState,
    HostErrorRecorder,
    record_piece_errors,
)


class SideInputCache(Protocol):
    """Cache of the data of a side input."""

    def is_current(self) -> bool:
        """Returns whether the cached data still equals the side input's data."""


class UserStateCache(Protocol):
    """Cache of the state cells of a stateful transform, which user code has read or changed."""

    def convert_due_timer(self, timer: StageTimer) -> Any:
        """Converts a due timer to the form that Beam's operation processes."""

    def flush(self) -> None:
        """Writes the changes to the runner."""


class StateHandler(CachingStateHandler):
    """Access of operations to state and side inputs of the runner. State requests of Beam's own
    classes raise an error.

    Classes of this package read side inputs and user state. So a request of Beam's own classes
    shows a defect.

    Args:
        reader: reads the stage's side inputs.
        changing: whether side inputs may change from one bundle to the next.

    Attributes:
        changing: whether side inputs may change from one bundle to the next.
        errors: recorder of the exceptions that the reader and the user state raised, even if user
            code caught them.
        views: caches of all side inputs of the stage.
        cells: caches of state cells, by the id of the stateful transform.
    """

    def __init__(self, reader: SideInputReader, stage_name: str, *, changing: bool = False) -> None:
        self.changing = changing
        self.errors = HostErrorRecorder()
        self.views: list[SideInputCache] = []
        self.cells: dict[str, UserStateCache] = {}
        self._reader = reader
        self._stage_name = stage_name
        self._user_state: ErrorRecordingState | None = None

    @property
    def user_state(self) -> UserState:
        """User state of the running bundle.

        Raises:
            HarnessError: The runner has passed no user state for the bundle.
        """
        if self._user_state is None:
            with self.errors:
                raise HarnessError(f"Stage {self._stage_name} has no state for its stateful DoFn")
        return self._user_state

    def set_user_state(self, user_state: UserState | None) -> None:
        """Sets the user state of the next bundle; None for a bundle without state."""
        self._user_state = (
            None if user_state is None else ErrorRecordingState(user_state, self.errors)
        )

    def get_version(self, transform_id: str, tag: str) -> int:
        """Returns the version of a side input; see :meth:`SideInputReader.get_version`."""
        with self.errors:
            return self._reader.get_version(transform_id, tag)

    def read_iterable(self, transform_id: str, tag: str, window: bytes) -> bytes | ValuePieces:
        """Returns the elements of a side input in a window; see :meth:`SideInputReader.read_iterable`."""
        with self.errors:
            return self._record_read_errors(self._reader.read_iterable(transform_id, tag, window))

    def read_values(
        self, transform_id: str, tag: str, window: bytes, key: bytes
    ) -> bytes | ValuePieces:
        """Returns the values of a key of a side input; see :meth:`SideInputReader.read_values`."""
        with self.errors:
            return self._record_read_errors(
                self._reader.read_values(transform_id, tag, window, key)
            )

    def _record_read_errors(self, values: bytes | ValuePieces) -> bytes | ValuePieces:
        return values if isinstance(values, bytes) else record_piece_errors(values, self.errors)

    def blocking_get(self, state_key: Any, coder: coder_impl.CoderImpl) -> NoReturn:
        """Raises an error, because classes of this package read all state.

        Raises:
            HarnessError: Always; the message names the kind of state.
        """
        self._raise_unsupported_request(state_key)

    def extend(self, state_key: Any, coder: Any, elements: Iterable[Any]) -> NoReturn:
        """Raises an error, as :meth:`blocking_get` does."""
        self._raise_unsupported_request(state_key)

    def clear(self, state_key: Any) -> NoReturn:
        """Raises an error, as :meth:`blocking_get` does."""
        self._raise_unsupported_request(state_key)

    def _raise_unsupported_request(self, state_key: Any) -> NoReturn:
        kind = state_key.WhichOneof("type")
        asked = getattr(state_key, kind) if kind else state_key
        with self.errors:
            raise HarnessError(
                f"{getattr(asked, 'transform_id', '') or self._stage_name} requested"
                f" state of the kind {kind}, which the embedded harness doesn't support"
            )

    @contextlib.contextmanager
    def process_instruction_id(self, bundle_id: str, cache_tokens: Iterable[Any]) -> Iterator[None]:
        """Does nothing, because the handler holds no state of a bundle."""
        yield

    def done(self) -> None:
        """Does nothing, because the handler holds no open resource."""
