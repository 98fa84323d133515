"""Tests that short IDs are requested once, and represent complete metrics from then on."""

from __future__ import annotations

import pytest
from apache_beam.portability.api import beam_fn_api_pb2, metrics_pb2
from beam_runner_model.bundles import MonitoringInfo
from beam_runner_urns import metrics as urns

from beam_runner_worker.errors import HarnessError
from beam_runner_worker.fnapi.metrics import ShortIds, SummableMetricsFilter

INFO = metrics_pb2.MonitoringInfo(urn="u", type="t", labels={"B": "2", "A": "1"}, payload=b"x")


class Sdk:
    def __init__(self) -> None:
        self.asked: list[list[str]] = []

    def send_and_wait(
        self, request: beam_fn_api_pb2.InstructionRequest
    ) -> beam_fn_api_pb2.InstructionResponse:
        short_ids = list(request.monitoring_infos.monitoring_info_id)
        self.asked.append(short_ids)
        return beam_fn_api_pb2.InstructionResponse(
            monitoring_infos=beam_fn_api_pb2.MonitoringInfosMetadataResponse(
                monitoring_info={each: INFO for each in short_ids if each != "lost"}
            )
        )


def test_known_short_ids_of_metrics_are_not_requested_again():
    sdk = Sdk()
    short_ids = ShortIds(sdk.send_and_wait)
    expected = MonitoringInfo("u", "t", (("A", "1"), ("B", "2")), b"new")
    assert short_ids.resolve_metrics({"1": b"new"}, []) == (expected,)
    assert short_ids.resolve_metrics({"1": b"new", "2": b"new"}, []) == (expected, expected)
    assert short_ids.resolve_metrics({"2": b"new"}, []) == (expected,)
    assert sdk.asked == [["1"], ["2"]]


@pytest.mark.parametrize("by_short_id", [{}, {"1": b"x"}])
def test_complete_monitoring_infos_need_no_request(by_short_id):
    sdk = Sdk()
    expected = MonitoringInfo("u", "t", (("A", "1"), ("B", "2")), b"x")
    assert ShortIds(sdk.send_and_wait).resolve_metrics(by_short_id, [INFO]) == (expected,)
    assert sdk.asked == []


def test_unknown_short_id_is_error():
    with pytest.raises(HarnessError, match="'lost'"):
        ShortIds(Sdk().send_and_wait).resolve_metrics({"lost": b""}, [])


def info(urn: str, metric_type: str, payload: bytes) -> MonitoringInfo:
    return MonitoringInfo(urn, metric_type, (), payload)


def test_monitoring_infos_without_meaning_after_bundle_are_dropped():
    warned: list[str] = []
    lasting = SummableMetricsFilter(warned.append)
    count = info(urns.ELEMENT_COUNT, urns.SUM_INT64_TYPE, b"\x05")
    strange = info("beam:metric:strange", "beam:metrics:strange", b"?")
    for _ in range(2):
        kept = lasting.filter_metrics(
            [
                count,
                info(urns.WORK_COMPLETED, urns.PROGRESS_TYPE, b""),
                info("beam:metric:other_progress", urns.PROGRESS_TYPE, b""),
                info(urns.DATA_CHANNEL_READ_INDEX, urns.SUM_INT64_TYPE, b"\x05"),
                info(urns.SAMPLED_BYTE_SIZE, urns.DISTRIBUTION_INT64_TYPE, b"\x00"),
                strange,
            ]
        )
        assert list(kept) == [count]
    (text,) = warned
    assert "beam:metric:strange" in text
    assert "'beam:metrics:strange'" in text
