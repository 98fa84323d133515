"""State requests of one bundle, which are answered one at a time.

If the runner can't answer a request, the bundle fails with the runner's error, regardless of the
SDK. The reason is that user code isn't at fault, and that an SDK may ignore the answers to appends
and clears. An unsupported request for a side input fails in the user code that reads it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator

from beam_runner_model.chunks import InputChunk, StageTimer

from beam_runner_worker._protos import beam_fn_api_pb2
from beam_runner_worker.errors import BundleError, HarnessError, TimerRefused
from beam_runner_worker.fnapi.large_groups import LargeGroups
from beam_runner_worker.fnapi.side_inputs import SideInputPages, UnsupportedStateRequest
from beam_runner_worker.fnapi.state_coders import StateCoders
from beam_runner_worker.fnapi.user_state import UserStateCells, is_user_state_key
from beam_runner_worker.ports import UserState


class BundleStateStores:
    """Data that an SDK reads and writes over the state channel in one bundle: side inputs, large
    groups and user state.

    Args:
        state: the runner's state; None for a stage without state.
        coders: the coders of the stage's user state.

    Attributes:
        groups: large groups whose values the SDK reads as state.
    """

    def __init__(
        self, side_inputs: SideInputPages, state: UserState | None, coders: StateCoders
    ) -> None:
        self._side_inputs = side_inputs
        self._state = state
        self._cells = None if state is None else UserStateCells(state, coders)
        self.groups = LargeGroups()
        self._turn = threading.Lock()

    @property
    def has_user_state(self) -> bool:
        """Whether the runner has passed user state for the bundle."""
        return self._state is not None

    def answer_request(
        self, request: beam_fn_api_pb2.StateRequest, fail: Callable[[Exception], None]
    ) -> beam_fn_api_pb2.StateResponse:
        """Answers a state request of the SDK; never raises an exception.

        Args:
            request: a read, an append or a clear.
            fail: called with the error if the bundle must fail, before the SDK gets its answer.
        """
        try:
            with self._turn:
                return self._serve_request(request)
        except (
            Exception
        ) as error:  # The runner may raise any exception, but the SDK must always get an answer.
            unsupported = isinstance(error, UnsupportedStateRequest)
            reason = str(error) if unsupported else f"{type(error).__name__}: {error}"
            if not unsupported:
                fail(error)
            elif is_user_state_key(request.state_key):
                fail(HarnessError(reason))
            if not (unsupported or is_user_state_key(request.state_key)):
                reason = f"Can't read {_describe_state_key(request.state_key)}: {reason}"
            return beam_fn_api_pb2.StateResponse(id=request.id, error=reason)

    def _serve_request(
        self, request: beam_fn_api_pb2.StateRequest
    ) -> beam_fn_api_pb2.StateResponse:
        key, kind = request.state_key, request.WhichOneof("request")
        response = beam_fn_api_pb2.StateResponse(id=request.id)
        if is_user_state_key(key):
            cells = self._require_cells(key)
            if kind == "get":
                data, token = cells.read_page(key, request.get.continuation_token)
                response.get.data, response.get.continuation_token = data, token
            elif kind == "append":
                cells.append_elements(key, request.append.data)
                response.append.SetInParent()
            else:
                cells.clear_cell(key)
                response.clear.SetInParent()
        elif kind == "get":
            begin = request.get.continuation_token
            if key.WhichOneof("type") == "runner":
                data, token = self.groups.read_page(key.runner.key, begin)
            else:
                data, token = self._side_inputs.read_page(key, begin)
            response.get.data, response.get.continuation_token = data, token
        else:
            raise UnsupportedStateRequest(
                f"a request to {kind} {key.WhichOneof('type')} is not supported"
            )
        return response

    def _require_cells(self, key: beam_fn_api_pb2.StateKey) -> UserStateCells:
        if self._cells is None:
            raise UnsupportedStateRequest(
                f"the stage runs without user state, so {key.WhichOneof('type')} doesn't exist"
            )
        return self._cells

    def set_timer(self, timer: StageTimer) -> None:
        """Sets or clears a timer in the runner's state.

        Raises:
            HarnessError: The runner has passed no user state.
            BundleError: User code must not set this timer.
        """
        if self._state is None:
            raise HarnessError(
                f"the SDK set a timer of the transform {timer.transform_id!r}, but the"
                " stage runs without user state"
            )
        try:
            with self._turn:
                self._state.set_timer(timer)
        except TimerRefused as error:
            raise BundleError(timer.transform_id, f"TimerRefused: {error}", trace="") from None

    def read_chunks_between_requests(self, inputs: Iterable[InputChunk]) -> Iterator[InputChunk]:
        """Yields the input chunks of the bundle, and reads each chunk only while no state request is
        being answered.

        The runner reads its state to find due timers while it produces input, so both must not run
        at the same time.
        """
        rest = iter(inputs)
        while True:
            with self._turn:
                chunk = next(rest, None)
            if chunk is None:
                return
            yield chunk


def _describe_state_key(key: beam_fn_api_pb2.StateKey) -> str:
    return "the values of a group" if key.WhichOneof("type") == "runner" else "a side input"
