"""Splits of running bundles in an SDK, and conversion of residuals."""

from __future__ import annotations

import threading
from collections.abc import Callable, Container, Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError

from beam_runner_model.bundles import BundleSplit, ResidualElement

from beam_runner_worker._protos import beam_fn_api_pb2
from beam_runner_worker.errors import HarnessError
from beam_runner_worker.fnapi.bundle import SdkBundle
from beam_runner_worker.fnapi.connection import SdkConnection
from beam_runner_worker.fnapi.descriptors import SdkStagePlan

_SPLIT_SECONDS = 5.0


def convert_residual(
    delayed: beam_fn_api_pb2.DelayedBundleApplication, heads: Container[str]
) -> ResidualElement:
    """Converts the unprocessed part of an element to input of a later bundle.

    Args:
        delayed: the SDK's message; delays are rounded up and watermarks down to milliseconds.
        heads: the transforms that read the stage's input.

    Raises:
        HarnessError: The transform doesn't read the stage's input, so a later bundle can't resume
            the element.
    """
    application = delayed.application
    if application.transform_id not in heads:
        raise HarnessError(
            f"the SDK deferred input of {application.transform_id!r}, which doesn't"
            " read the input of its stage; the input can't be resumed"
        )
    delay = delayed.requested_time_delay
    watermarks = [
        time.seconds * 1000 + time.nanos // 1_000_000
        for time in application.output_watermarks.values()
    ]
    return ResidualElement(
        element=application.element,
        delay_ms=max(0, delay.seconds * 1000 - (-delay.nanos // 1_000_000)),
        watermark=min(watermarks, default=None),
    )


def convert_split_response(
    response: beam_fn_api_pb2.ProcessBundleSplitResponse,
    plan: SdkStagePlan,
    end: int,
    points: Container[int] = (),
) -> BundleSplit | None:
    """Converts an SDK's response to a split request.

    Args:
        response: the SDK's response.
        end: index after the last element that the split could remove from the bundle.
        points: the allowed split points. If the collection is empty, any point is allowed.

    Returns:
        The split; None if it removed neither a part of an element nor an element before ``end``.

    Raises:
        HarnessError: The SDK doesn't report the position of the split, or the position isn't
            allowed.
    """
    source = plan.spec.input.transform_id
    # The Java SDK names no transform, because a stage reads only one channel.
    channels = (each for each in response.channel_splits if each.transform_id in (source, ""))
    channel = next(channels, None)
    if channel is None:
        if response.residual_roots or response.channel_splits:
            raise HarnessError(
                f"the SDK split a bundle of the stage {plan.spec.title!r} without a split point"
            )
        return None
    if not response.residual_roots and channel.first_residual_element >= end:
        return None
    if points and (response.residual_roots or channel.first_residual_element not in points):
        raise HarnessError(
            f"the SDK split a bundle of the stage {plan.spec.title!r} at a point that the runner doesn't allow"
        )
    return BundleSplit(
        last_primary=channel.last_primary_element,
        first_residual=channel.first_residual_element,
        primaries=tuple(root.element for root in response.primary_roots),
        residuals=tuple(convert_residual(root, plan.heads) for root in response.residual_roots),
    )


class BundleSplitter:
    """Splitter of one running bundle; thread-safe.

    The SDK can't undo a split, so no split may be lost. Only one split request is pending at a
    time. If a response arrives after its call has returned, the next call returns the split. If the
    SDK split a bundle and the runner never got the split, the bundle fails at its end.

        idle --split--> asked --answer--> idle
        idle, asked --close--> closed

    Args:
        warn: function that shows a warning to the user; called at most once.
    """

    def __init__(
        self,
        plan: SdkStagePlan,
        connection: SdkConnection,
        bundle: SdkBundle,
        warn: Callable[[str], None],
    ) -> None:
        self._plan = plan
        self._connection = connection
        self._bundle = bundle
        self._warn = warn
        self._lock = threading.Lock()
        self._closed = False
        self._warned = False
        self._answer: Future[beam_fn_api_pb2.InstructionResponse] | None = None
        self._end = 0
        self._points: Sequence[int] = ()

    def split(self, keep: float, elements: int, points: Sequence[int] = ()) -> BundleSplit | None:
        """Splits the bundle; see :meth:`beam_runner_worker.ports.StageHarness.split`. Takes at most 5
        s.

        Raises:
            HarnessError: The SDK is lost, or violated the protocol. Then the bundle fails, too.
        """
        with self._lock:
            if self._closed or self._bundle.response is not None:
                return None
            if self._answer is None:
                self._end = elements if self._bundle.stop is None else self._bundle.stop
                self._points = points
                self._answer = self._connection.send_request(self._create_request(keep, elements))
            return self._wait_for_answer()

    def close(self) -> None:
        """Prevents further splits after the end of the bundle, and waits for a pending split.

        Raises:
            HarnessError: The SDK split the bundle, and the runner never got the split.
        """
        with self._lock:
            self._closed = True
            if self._answer is not None and (
                self._wait_for_answer() is not None or self._answer is not None
            ):
                raise HarnessError(
                    "the SDK did not respond to the split request for a bundle of the"
                    f" stage {self._plan.spec.title!r} within {_SPLIT_SECONDS:g}"
                    " seconds, so the unprocessed part of the bundle is unknown"
                )

    def _create_request(self, keep: float, elements: int) -> beam_fn_api_pb2.InstructionRequest:
        desired = beam_fn_api_pb2.ProcessBundleSplitRequest.DesiredSplit(
            fraction_of_remainder=keep,
            # Send at least 1, because the Go SDK interprets 0 as an unknown number.
            estimated_input_elements=max(1, elements),
            allowed_split_points=self._points,
        )
        return beam_fn_api_pb2.InstructionRequest(
            process_bundle_split=beam_fn_api_pb2.ProcessBundleSplitRequest(
                instruction_id=self._bundle.instruction_id,
                desired_splits={self._plan.spec.input.transform_id: desired},
            )
        )

    def _wait_for_answer(self) -> BundleSplit | None:
        """Waits for the response to the pending split request. If the response doesn't arrive in
        time, the request stays pending.
        """
        assert self._answer is not None
        try:
            response = self._answer.result(_SPLIT_SECONDS)
        except FutureTimeoutError:
            return None
        self._answer = None
        if response.error:
            self._warn_of_refusal(response.error)
            return None
        try:
            split = convert_split_response(
                response.process_bundle_split, self._plan, self._end, self._points
            )
        except HarnessError as error:
            self._bundle.mark_lost(str(error))
            raise
        if split is not None:
            self._bundle.record_split_position(split.first_residual)
        return split

    def _warn_of_refusal(self, error: str) -> None:
        """Warns that the SDK rejected a split. Doesn't warn if the bundle has ended, because SDKs
        reject such a split, too.
        """
        if self._bundle.response is None and not self._warned:
            self._warned = True
            self._warn(f"Can't split a bundle of the stage {self._plan.spec.title!r}: {error}")
