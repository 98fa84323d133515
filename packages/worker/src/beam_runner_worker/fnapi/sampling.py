"""Requests for the sampled elements of an SDK harness."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from beam_runner_model.bundles import MonitoringInfo

from beam_runner_worker._protos import beam_fn_api_pb2
from beam_runner_worker.errors import HarnessError
from beam_runner_worker.samples import create_sample_infos

_SECONDS_BETWEEN = 1.0
Ask = Callable[[beam_fn_api_pb2.InstructionRequest], beam_fn_api_pb2.InstructionResponse]


class SdkSamples:
    """Reader of the sampled elements of one SDK harness.

    Args:
        ask: function that sends an instruction to the SDK and returns its response; may raise
            HarnessError.
        wanted: whether samples are enabled.
    """

    def __init__(self, ask: Ask, *, wanted: bool) -> None:
        self._ask = ask
        self._wanted = wanted
        self._next = 0.0
        self._lock = threading.Lock()

    def request_samples(self) -> tuple[MonitoringInfo, ...]:
        """Requests and returns the new samples; returns no samples within 1 s after the last request.

        After an error, for example because the SDK doesn't support samples, no further requests are
        sent.
        """
        with self._lock:
            now = time.monotonic()
            if not self._wanted or now < self._next:
                return ()
            self._next = now + _SECONDS_BETWEEN
        request = beam_fn_api_pb2.InstructionRequest(
            sample_data=beam_fn_api_pb2.SampleDataRequest()
        )
        try:
            return create_sample_infos(self._ask(request).sample_data)
        except HarnessError:
            self._wanted = False
            return ()
