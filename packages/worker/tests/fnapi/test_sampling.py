"""Tests that the runner periodically requests samples of elements from an SDK, until the SDK has no
samples.
"""

from __future__ import annotations

import pytest
from apache_beam.portability.api import beam_fn_api_pb2

from beam_runner_worker.errors import HarnessError
from beam_runner_worker.fnapi import sampling
from beam_runner_worker.fnapi.sampling import SdkSamples
from beam_runner_worker.samples import decode_samples


class Sdk:
    def __init__(self, *, samples: bool) -> None:
        self.asked = 0
        self._samples = samples

    def send_and_wait(
        self, request: beam_fn_api_pb2.InstructionRequest
    ) -> beam_fn_api_pb2.InstructionResponse:
        self.asked += 1
        assert request.WhichOneof("request") == "sample_data"
        if not self._samples:
            raise HarnessError("the SDK rejected sample_data")
        answer = beam_fn_api_pb2.InstructionResponse()
        answer.sample_data.element_samples["p"].elements.add(element=b"x")
        return answer


def test_element_samples_are_requested_only_if_enabled() -> None:
    sdk = Sdk(samples=True)
    assert SdkSamples(sdk.send_and_wait, wanted=False).request_samples() == ()
    assert sdk.asked == 0


def test_element_samples_are_requested_at_most_once_per_second(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sdk = Sdk(samples=True)
    samples = SdkSamples(sdk.send_and_wait, wanted=True)
    (info,) = samples.request_samples()
    assert decode_samples(info) == [b"x"]
    assert samples.request_samples() == ()
    assert sdk.asked == 1
    monkeypatch.setattr(sampling, "_SECONDS_BETWEEN", 0.0)
    samples = SdkSamples(sdk.send_and_wait, wanted=True)
    assert samples.request_samples()
    assert samples.request_samples()


def test_harness_without_element_samples_gets_no_further_request(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sampling, "_SECONDS_BETWEEN", 0.0)
    sdk = Sdk(samples=False)
    samples = SdkSamples(sdk.send_and_wait, wanted=True)
    assert samples.request_samples() == samples.request_samples() == ()
    assert sdk.asked == 1
