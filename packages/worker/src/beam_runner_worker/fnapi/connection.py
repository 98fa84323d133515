"""Server side of the connection to one SDK harness: outgoing messages, running bundles and expected
responses.

Different threads serve the SDK's streams (control, data, state, logging), and share this object.
Every wait in the object ends when the SDK is lost or released.

    waiting --control stream opens--> connected --a stream breaks--> lost
    waiting, connected --begin_shutdown--> closing --release--> (streams end)
"""

from __future__ import annotations

import itertools
import queue
import secrets
import threading
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError

from beam_runner_worker._protos import beam_fn_api_pb2
from beam_runner_worker.errors import BundleError, HarnessError
from beam_runner_worker.fnapi.bundle import ReceivedData, SdkBundle
from beam_runner_worker.fnapi.bundle_state import BundleStateStores
from beam_runner_worker.missing_modules import describe_missing_module

_LAST_LINES = 20

_instruction_numbers = itertools.count(1)
_TOKEN_BYTES = 16


class InstructionRefused(HarnessError):
    """Error for an instruction that an SDK answered with an error."""


class SdkConnection:
    """Server side of the connection to one SDK harness.

    Args:
        worker_id: the SDK's name on every stream. The name must be hard to guess.
        environment: the environment's id, for error messages.
        in_a_pool: whether the SDK is a worker of a pool, for advice in error messages.
    """

    def __init__(self, worker_id: str, environment: str, *, in_a_pool: bool = False) -> None:
        self.explain: Callable[[], str | None] = lambda: None
        """Function that returns the reason after the SDK has exited; None if the reason is unknown."""
        self.log_hint = ""
        """Hint for error messages about where to find more information about the SDK."""
        self.worker_id = worker_id
        self.environment = environment
        self.in_a_pool = in_a_pool
        self.instructions: queue.SimpleQueue[beam_fn_api_pb2.InstructionRequest | None] = (
            queue.SimpleQueue()
        )
        self.outgoing: queue.SimpleQueue[tuple[beam_fn_api_pb2.Elements, SdkBundle] | None] = (
            queue.SimpleQueue()
        )
        self.artifact_error: Exception | None = None
        """Error of a staged file that can't be read; the cause of errors while the SDK starts."""
        self.last_lines: deque[str] = deque(maxlen=_LAST_LINES)
        self.peer = ""
        self.user_agent = ""
        """User agent of the SDK's gRPC library, which shows the SDK's language."""
        self._changed = threading.Condition()
        self._connected = False
        self._closing = False
        self._lost: str | None = None
        self._streams: set[str] = set()
        self._shuts_down = False
        self._has_worked = False
        self._bundles: dict[str, SdkBundle] = {}
        self._answers: dict[str, Future[beam_fn_api_pb2.InstructionResponse]] = {}

    # Methods that the threads of the SDK's gRPC streams call.

    def register_stream(self, name: str, peer: str, user_agent: str = "") -> bool:
        """Registers an opened stream. Returns False if the SDK already has a stream with this name, or
        is lost or released.
        """
        with self._changed:
            if name in self._streams or self._closing or self._lost is not None:
                return False
            self._streams.add(name)
            if name == "control":
                self._connected = True
                self.peer = peer
                self.user_agent = user_agent
            self._changed.notify_all()
            return True

    def unregister_stream(self, name: str) -> None:
        """Removes an ended stream, and marks the SDK as lost unless the connection is closing."""
        with self._changed:
            self._streams.discard(name)
            self._changed.notify_all()
            expected = self._closing
        if not expected and self._lost is None:
            why = self.explain()
            self.mark_lost(f"the SDK closed its {name} stream" + (f": {why}" if why else ""))

    def record_shutdown(self) -> None:
        """Records that the SDK has ended its data stream or its log stream, which is the last
        action of an SDK.

        The Java SDK in a pool's process never ends its data stream.
        """
        with self._changed:
            self._shuts_down = True
            self._changed.notify_all()

    def dispatch_response(self, response: beam_fn_api_pb2.InstructionResponse) -> None:
        """Passes a response to the bundle or the thread that waits for this response."""
        with self._changed:
            bundle = self._bundles.get(response.instruction_id)
            self._has_worked |= bundle is not None
            if bundle is not None and bundle.abandoned:
                del self._bundles[response.instruction_id]
            answer = self._answers.pop(response.instruction_id, None)
        if bundle is not None:
            bundle.record_response(response)
        elif answer is not None:
            answer.set_result(response)

    def dispatch_elements(self, elements: beam_fn_api_pb2.Elements) -> None:
        """Passes received data and timers to the bundles to which they belong. Drops data of
        finished bundles.
        """
        for each in elements.data:
            bundle = self._bundles.get(each.instruction_id)
            if bundle is not None:
                bundle.store_received_data(
                    ReceivedData(each.transform_id, None, each.data, each.is_last)
                )
        for each in elements.timers:
            bundle = self._bundles.get(each.instruction_id)
            if bundle is not None:
                family = each.timer_family_id
                bundle.store_received_data(
                    ReceivedData(each.transform_id, family, each.timers, each.is_last)
                )

    def mark_lost(self, reason: str) -> None:
        """Marks the SDK as lost, so that all waits for the SDK fail."""
        with self._changed:
            if self._lost is None:
                self._lost = f"{reason}; {self.describe_sdk()}"
            lost = self._lost
            bundles, answers = list(self._bundles.values()), list(self._answers.values())
            self._bundles.clear()
            self._answers.clear()
            self._changed.notify_all()
        missing = None if self._has_worked else self.describe_missing_module()
        for bundle in bundles:
            if missing is not None:
                # Fail the bundle permanently, because another SDK harness would lack the same
                # module.
                bundle.fail_bundle(
                    BundleError(f"the environment {self.environment}", missing, lost)
                )
            bundle.mark_lost(lost)
        for answer in answers:
            answer.set_exception(HarnessError(lost))
        self.release_streams()

    # Methods that run bundles in the SDK and send instructions to it.

    @property
    def is_usable(self) -> bool:
        """Whether the SDK can run bundles now, or when it has connected: the SDK is neither lost
        nor closing.
        """
        return self._lost is None and not self._closing

    @property
    def is_connected(self) -> bool:
        """Whether the SDK's control stream is open."""
        return self._connected

    def describe_sdk(self) -> str:
        """Returns the environment and the SDK's last log lines, for error messages."""
        text = f"environment {self.environment!r}"
        if self.last_lines:
            text += ", its last log lines:\n  " + "\n  ".join(self.last_lines)
        else:
            text += ", which logged nothing"
        return f"{text}; {self.log_hint}" if self.log_hint else text

    def describe_missing_module(self) -> str | None:
        """Returns advice about a missing Python module if the last log lines name a missing module; otherwise None."""
        return describe_missing_module(self.last_lines, in_a_pool=self.in_a_pool)

    def wait_until_connected(self, vain: Callable[[], str | None]) -> None:
        """Waits until the SDK has opened its control stream.

        Args:
            vain: called every 100 ms. The function returns the reason to give up the wait, or None
                to continue.

        Raises:
            HarnessError: The SDK is lost, or ``vain`` returned a reason.
        """
        with self._changed:
            while self.is_usable and not self._connected:
                reason = vain()
                if reason is not None:
                    text = f"{reason}; {self.describe_sdk()}"
                    raise HarnessError(text) from self.artifact_error
                self._changed.wait(0.1)
            if not self.is_usable:
                text = self._lost or "the harness was closed"
                raise HarnessError(text) from self.artifact_error

    def open_bundle(
        self,
        bundle_id: str,
        descriptor_id: str,
        state: BundleStateStores,
        tokens: Iterable[beam_fn_api_pb2.ProcessBundleRequest.CacheToken] = (),
    ) -> SdkBundle:
        """Requests that the SDK processes a bundle. After this call, the caller may send the data of
        the bundle. The SDK may keep data across bundles while its token stays the same.

        Raises:
            HarnessError: the SDK is lost.
        """
        # The instruction id must be hard to guess, because old SDKs send no worker id on their
        # state stream.
        token = secrets.token_hex(_TOKEN_BYTES)
        bundle = SdkBundle(f"{bundle_id}#{next(_instruction_numbers)}-{token}", state)
        with self._changed:
            if self._lost is not None or self._closing:
                raise HarnessError(self._lost or "the harness is closed")
            self._bundles[bundle.instruction_id] = bundle
        self.instructions.put(
            beam_fn_api_pb2.InstructionRequest(
                instruction_id=bundle.instruction_id,
                process_bundle=beam_fn_api_pb2.ProcessBundleRequest(
                    process_bundle_descriptor_id=descriptor_id, cache_tokens=tokens
                ),
            )
        )
        return bundle

    def send_elements(self, bundle: SdkBundle, data: beam_fn_api_pb2.Elements, count: int) -> None:
        """Queues a message with ``count`` elements of a bundle for the data stream; see :meth:`SdkBundle.has_capacity`."""
        bundle.record_queued_message(count)
        self.outgoing.put((data, bundle))

    def close_bundle(self, bundle: SdkBundle) -> None:
        """Removes a bundle. If the SDK hasn't responded, the data of the bundle is dropped, and the
        bundle is removed when the response arrives.
        """
        with self._changed:
            if bundle.response is not None:
                self._bundles.pop(bundle.instruction_id, None)
                return
        bundle.discard_data()

    def find_bundle(self, instruction_id: str) -> SdkBundle | None:
        """Returns the running bundle with an instruction id; None if no such bundle is running."""
        return self._bundles.get(instruction_id)

    def send_request(
        self, request: beam_fn_api_pb2.InstructionRequest
    ) -> Future[beam_fn_api_pb2.InstructionResponse]:
        """Sends an instruction that doesn't start a bundle, and returns a future of the response.

        Args:
            request: a request without an instruction id, which this method adds.

        Returns:
            A future of the response, which may contain an error of the SDK. The future raises
            HarnessError if the SDK is lost.

        Raises:
            HarnessError: The SDK is already lost.
        """
        answer: Future[beam_fn_api_pb2.InstructionResponse] = Future()
        request.instruction_id = f"ask#{next(_instruction_numbers)}"
        with self._changed:
            if self._lost is not None or self._closing:
                raise HarnessError(self._lost or "the harness is closed")
            self._answers[request.instruction_id] = answer
        self.instructions.put(request)
        return answer

    def register_descriptor(self, descriptor: beam_fn_api_pb2.ProcessBundleDescriptor) -> None:
        """Sends a stage's descriptor to the SDK in advance. An SDK that ignores this message requests
        the descriptor later.
        """
        self.instructions.put(
            beam_fn_api_pb2.InstructionRequest(
                instruction_id=f"register#{next(_instruction_numbers)}",
                register=beam_fn_api_pb2.RegisterRequest(process_bundle_descriptor=[descriptor]),
            )
        )

    def send_and_wait(
        self, request: beam_fn_api_pb2.InstructionRequest, limit: float
    ) -> beam_fn_api_pb2.InstructionResponse:
        """Sends an instruction that doesn't start a bundle, and waits for the response.

        Args:
            request: a request without an instruction id.
            limit: the time limit in seconds.

        Raises:
            InstructionRefused: the SDK answers with an error.
            HarnessError: No response arrived in time, or the SDK is lost.
        """
        answer = self.send_request(request)
        kind = request.WhichOneof("request")
        try:
            response = answer.result(limit)
        except FutureTimeoutError:
            with self._changed:
                self._answers.pop(request.instruction_id, None)
            raise HarnessError(
                f"the SDK did not respond to {kind} within {limit:g} seconds; {self.describe_sdk()}"
            ) from None
        if response.error:
            raise InstructionRefused(f"the SDK rejected {kind}: {response.error}")
        return response

    # Methods that close the connection.

    def begin_shutdown(self) -> bool:
        """Ends the control stream, so that the SDK tears down its DoFns and exits. Running bundles
        fail.

        Returns:
            Whether bundles were running.
        """
        with self._changed:
            self._closing = True
            bundles, answers = list(self._bundles.values()), list(self._answers.values())
            self._bundles.clear()
            self._answers.clear()
            self._changed.notify_all()
        for bundle in bundles:
            bundle.mark_lost("the harness was closed while the bundle ran")
        for answer in answers:
            answer.set_exception(HarnessError("the harness was closed"))
        self.instructions.put(None)
        return bool(bundles)

    def wait_until_streams_ended(self, limit: float) -> bool:
        """Waits at most ``limit`` seconds until all streams of the SDK have ended."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._streams, limit)

    def wait_until_data_stream_ended(self, limit: float) -> bool:
        """Waits at most ``limit`` seconds until the SDK has begun to shut down, which the end of its
        data or log shows.
        """
        with self._changed:
            return self._changed.wait_for(
                lambda: self._shuts_down or "data" not in self._streams, limit
            )

    def release_streams(self) -> None:
        """Ends the control and data streams on the server side."""
        self.instructions.put(None)
        self.outgoing.put(None)
