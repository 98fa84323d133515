"""Tests that a response omits metrics above its size limit, user metrics last, and reports their number."""

from __future__ import annotations

import attrs
import grpc
import pytest
from apache_beam.runners.portability.portable_metrics import from_monitoring_infos
from apache_beam.runners.portability.portable_runner import PortableMetrics
from beam_runner_model.jobs import JobMetrics, MetricCell
from beam_runner_urns import metrics as urns

from beam_runner_jobservices._protos import JobStub
from beam_runner_jobservices.metrics_response import (
    ALL_METRICS,
    LEFT_OUT,
    MOST_BYTES,
    select_fitting_metrics,
    select_requested_metrics,
)
from beam_runner_jobservices.wire import jobs as wire
from beam_runner_jobservices.wire.jobs import encode_metrics


def user(number: int) -> MetricCell:
    labels = {"NAMESPACE": "space", "NAME": f"counter {number:06}", "PTRANSFORM": "a step"}
    return MetricCell(urns.USER_SUM_INT64, urns.SUM_INT64_TYPE, b"\x01", labels)


def count_of(number: int) -> MetricCell:
    labels = {"PCOLLECTION": f"collection {number}"}
    return MetricCell(urns.ELEMENT_COUNT, urns.SUM_INT64_TYPE, b"\x01", labels)


def test_metrics_response_within_limit_contains_all_metrics() -> None:
    metrics = JobMetrics((count_of(1), user(1)), (user(1),))
    assert select_fitting_metrics(metrics) is metrics


@pytest.mark.parametrize("count", [20_000, 100_000])
def test_metrics_response_above_limit_reports_number_of_omitted_metrics(count: int) -> None:
    infos = tuple(map(user, range(count)))
    told = select_fitting_metrics(JobMetrics((count_of(1), *infos), infos))
    message = encode_metrics(told)
    assert 0.6 * MOST_BYTES < message.ByteSize() <= MOST_BYTES
    committed, *_ = from_monitoring_infos(message.metrics.committed, user_metrics_only=True)
    by_name = {(key.metric.namespace, key.metric.name): value for key, value in committed.items()}
    # The response omits the element count, too.
    assert by_name[LEFT_OUT] == count + 1 - (len(by_name) - 1)
    attempted, *_ = from_monitoring_infos(message.metrics.attempted, user_metrics_only=True)
    assert attempted.keys() == committed.keys()
    assert ("space", "counter 000000") in by_name


def test_metrics_response_above_limit_contains_user_metrics_first() -> None:
    infos = (*map(count_of, range(50)), *map(user, range(10)))
    told = select_fitting_metrics(JobMetrics(infos, ()), 4_000)
    names = [info.labels.get("NAME", "") for info in told.attempted]
    assert sum("counter" in name for name in names) == 10
    assert sum(info.urn == urns.ELEMENT_COUNT for info in told.attempted) > 1
    assert names[-1] == LEFT_OUT[1]


def test_metrics_response_omits_single_metric_above_limit() -> None:
    large = attrs.evolve(user(1), payload=bytes(MOST_BYTES))
    told = select_fitting_metrics(JobMetrics((large,), (large,)))
    assert [info.labels["NAME"] for info in told.committed] == [LEFT_OUT[1]]
    assert told.committed[0].payload == b"\x01"


def series_of(name: str) -> MetricCell:
    labels = {"STAGE": "s", "PTRANSFORM": "a step"}
    return MetricCell(f"beam_spark:stage:{name}:v1", urns.SUM_INT64_TYPE, b"\x01", labels)


def time_of(step: str) -> MetricCell:
    labels = {"PTRANSFORM": step}
    return MetricCell(urns.TOTAL_MSECS, urns.SUM_INT64_TYPE, b"\x01", labels)


PYTHON = ("user-agent", "grpc-python/1.76.0 grpc-c/51.0.0")
GO = ("user-agent", "grpc-go/1.70.0")


@pytest.mark.parametrize(
    ("agent", "expected"),
    [(PYTHON, (user(1),)), (GO, (user(1), time_of("a step"), count_of(1)))],
)
def test_metrics_response_omits_runner_metrics_that_sdk_would_show_as_user_metrics(
    agent: tuple[str, str], expected: tuple[MetricCell, ...]
) -> None:
    infos = (series_of("began"), user(1), time_of("a step"), count_of(1))
    assert select_requested_metrics(JobMetrics(infos, infos), [agent]) == JobMetrics(
        expected, expected
    )


def test_metrics_response_to_request_for_all_metrics_contains_stage_series() -> None:
    metrics = JobMetrics((series_of("began"), user(1)), ())
    assert select_requested_metrics(metrics, [PYTHON, ALL_METRICS]) is metrics


@pytest.mark.parametrize(
    ("urn", "kind", "payload"),
    [
        (urns.USER_SUM_INT64, urns.SUM_INT64_TYPE, b"\x00"),
        (urns.USER_SUM_DOUBLE, urns.SUM_DOUBLE_TYPE, bytes(8)),
    ],
)
def test_metrics_response_has_committed_zero_for_counter_without_commit(
    urn: str, kind: str, payload: bytes
) -> None:
    running = attrs.evolve(user(1), urn=urn, type=kind)
    standard = select_requested_metrics(JobMetrics((running,), ()), [PYTHON])
    assert standard == JobMetrics((running,), (attrs.evolve(running, payload=payload),))


def test_metrics_response_to_client_of_beam_omits_stage_series(server, client, executor, pipeline):
    job_id = client.submit_job(pipeline)
    counter = MetricCell(
        "beam:metric:user:sum_int64:v1",
        "beam:metrics:sum_int64:v1",
        b"\x05",
        {"NAMESPACE": "n", "NAME": "c", "PTRANSFORM": "A"},
    )
    series = MetricCell(
        "beam_spark:stage:began:v1", "beam:metrics:sum_int64:v1", b"\x01", {"PTRANSFORM": "A"}
    )
    executor.job(job_id).reported_metrics = JobMetrics((series, counter), ())
    with grpc.insecure_channel(server.address) as channel:
        request = wire.metrics_request(job_id=job_id)
        answer = PortableMetrics(JobStub(channel).GetJobMetrics(request)).query()
    assert [(one.key.metric.name, one.committed, one.attempted) for one in answer["counters"]] == [
        ("c", 0, 5)
    ]
    assert client.get_metrics(job_id).attempted == (series, counter)
