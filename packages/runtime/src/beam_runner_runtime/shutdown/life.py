"""State machine of one process or job, whose transitions are in a table."""

from __future__ import annotations

import enum
import logging
import os
import threading
from typing import Generic, TypeVar

from beam_runner_runtime.shutdown.causes import Cause
from beam_runner_runtime.shutdown.transitions import TRANSITIONS

VARIABLE = "BEAM_RUNNER_CHECK_SHUTDOWN"
"""Environment variable of a server. If it's set, a transition that isn't in the table raises an error; tests set it."""

_AFTER = {(row.before, row.cause): row.after for row in TRANSITIONS}
_LOGGER = logging.getLogger(__name__)
Kind = TypeVar("Kind", bound=enum.Enum)


class UnexpectedTransition(AssertionError):
    """Raised for a state change that isn't in the transition table, which is a defect of the runner."""


class StateMachine(Generic[Kind]):
    """Current state of one process or job, which changes only as the transition table permits.
    Thread-safe.

    Args:
        state: initial state.
        name: name of the process or job.
    """

    def __init__(self, state: Kind, name: str) -> None:
        self._state = state
        self.name = name
        self._lock = threading.Lock()

    @property
    def state(self) -> Kind:
        """Current state."""
        return self._state

    def apply_cause(self, cause: Cause) -> Kind:
        """Changes the state as the transition table says for ``cause``, and returns the previous
        state.

        Without a transition the state doesn't change, and the log gets an error.

        Raises:
            UnexpectedTransition: The table has no transition, and the environment contains
                `VARIABLE`.
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
