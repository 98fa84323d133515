"""A stage's next bundle, opened in the SDK before its input is there.

An SDK decodes a stage's functions and connects them when a bundle is opened, which takes it
milliseconds. While it does, the runner works in what the stage before has put out.
"""

from __future__ import annotations

import threading

from beam_runner_worker.fnapi.bundle import RunningBundle
from beam_runner_worker.fnapi.bundle_state import BundleState
from beam_runner_worker.fnapi.connection import SdkConnection
from beam_runner_worker.fnapi.descriptors import StagePlan
from beam_runner_worker.fnapi.transfer import end_of_input

_END_SECONDS = 1.0


class BundleAhead:
    """At most one bundle of a stage. All methods may be called from any thread."""

    def __init__(self, plan: StagePlan) -> None:
        self._plan = plan
        self._lock = threading.Lock()
        self._open: tuple[SdkConnection, RunningBundle] | None = None

    def open(self, connection: SdkConnection, state: BundleState) -> None:
        """Opens it with this state, unless one is open.

        Raises:
            HarnessError: the SDK is lost.
        """
        stage_id = self._plan.spec.stage_id
        with self._lock:
            if self._open is not None and self._open[0] is connection:
                return
            self._open = connection, connection.open_bundle(f"{stage_id}-ahead", stage_id, state)

    def take(self, connection: SdkConnection, state: BundleState) -> RunningBundle | None:
        """The open one, whose state this is from now on; None if there is none in that SDK."""
        with self._lock:
            ahead, self._open = self._open, None
        if ahead is None or ahead[0] is not connection:
            return None
        bundle = ahead[1]
        bundle.state = state
        return bundle

    def give_up(self) -> None:
        """Ends it without input, if there is one, and waits for that, for at most a second."""
        with self._lock:
            ahead, self._open = self._open, None
        if ahead is not None:
            connection, bundle = ahead
            connection.send(bundle, end_of_input(self._plan, bundle), 0)
            bundle.wait_response(_END_SECONDS)
            connection.close_bundle(bundle)
