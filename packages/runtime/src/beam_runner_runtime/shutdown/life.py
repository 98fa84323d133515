"""The present state of one process or job, changed by the table of transitions alone."""

from __future__ import annotations

import enum
import logging
import os
import threading
from typing import Generic, TypeVar

from beam_runner_runtime.shutdown.causes import Cause
from beam_runner_runtime.shutdown.transitions import TRANSITIONS

VARIABLE = "BEAM_RUNNER_CHECK_SHUTDOWN"
"""If this variable is set in the environment of a server, a transition that the table lacks raises an error."""

_AFTER = {(row.before, row.cause): row.after for row in TRANSITIONS}
_LOGGER = logging.getLogger(__name__)
Kind = TypeVar("Kind", bound=enum.Enum)


class UnexpectedTransition(AssertionError):
    """The table has no transition for a state and a cause; this is a defect of the runner."""


class Life(Generic[Kind]):
    """A state that changes by the table. Thread-safe.

    Args:
        state: the first state.
        name: the process or job.
    """

    def __init__(self, state: Kind, name: str) -> None:
        self._state = state
        self.name = name
        self._lock = threading.Lock()

    @property
    def state(self) -> Kind:
        """The present state."""
        return self._state

    def take(self, cause: Cause) -> Kind:
        """Changes the state because of ``cause``.

        Without a transition the state stays, and the log has an error.

        Returns:
            The state before.

        Raises:
            IllegalTransition: If the table has no transition, and the environment has `VARIABLE`.
        """
        with self._lock:
            before = self._state
            after = _AFTER.get((before, cause))
            if after is not None:
                self._state = after  # type: ignore[assignment]
        if after is None:
            text = f"{self.name} is {before.name} and can't take {cause.name}: this is a defect of the runner"
            if os.environ.get(VARIABLE):
                raise UnexpectedTransition(text)
            _LOGGER.error("%s", text, stack_info=True)
        return before
