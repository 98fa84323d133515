"""Tests that metrics of the same name are merged according to their type."""

from __future__ import annotations

from typing import Any

import pytest
from apache_beam.coders import FloatCoder, IterableCoder, StrUtf8Coder, TupleCoder, VarIntCoder
from apache_beam.metrics.cells import BoundedTrieData, HistogramData
from apache_beam.utils.histogram import Histogram, LinearBucket
from beam_runner_model.bundle_costs import (
    BUNDLE_COSTS_TYPE,
    decode_bundle_costs,
    encode_bundle_costs,
)
from beam_runner_model.bundles import MonitoringInfo
from beam_runner_urns import metrics as metric_urns
from hypothesis import given
from hypothesis import strategies as st

from beam_runner_worker._protos import metrics_pb2
from beam_runner_worker.totals import Totals, is_addable_type

INTEGER, DOUBLE, STRINGS = VarIntCoder(), FloatCoder(), IterableCoder(StrUtf8Coder())


def info(kind: str, payload: bytes, name: str = "n") -> MonitoringInfo:
    return MonitoringInfo("beam:metric:user:x:v1", kind, (("NAME", name),), payload)


def total(kind: str, *payloads: bytes) -> bytes:
    (only,) = totals_of([info(kind, payload) for payload in payloads])
    return only.payload


def totals_of(infos: list[MonitoringInfo]) -> tuple[MonitoringInfo, ...]:
    """Returns the totals, which must not depend on merging the infos singly or together."""
    together, one_by_one = Totals(), Totals()
    together.add(infos)
    for one in infos:
        one_by_one.add([one])
    assert together.infos() == one_by_one.infos()
    return together.infos()


TUPLES = {
    metric_urns.DISTRIBUTION_INT64_TYPE: TupleCoder([INTEGER] * 4),
    metric_urns.DISTRIBUTION_DOUBLE_TYPE: TupleCoder([INTEGER, DOUBLE, DOUBLE, DOUBLE]),
    metric_urns.LATEST_INT64_TYPE: TupleCoder([INTEGER, INTEGER]),
    metric_urns.LATEST_DOUBLE_TYPE: TupleCoder([INTEGER, DOUBLE]),
}


@pytest.mark.parametrize(
    ("kind", "coder", "values", "expected"),
    [
        (metric_urns.SUM_INT64_TYPE, INTEGER, [1, 2, -5], -2),
        (metric_urns.SUM_DOUBLE_TYPE, DOUBLE, [0.5, 1.5], 2.0),
    ],
)
def test_sum_metrics_are_added(kind: str, coder: Any, values: list[Any], expected: Any) -> None:
    assert coder.decode(total(kind, *map(coder.encode, values))) == expected


@pytest.mark.parametrize(
    "kind", [metric_urns.DISTRIBUTION_INT64_TYPE, metric_urns.DISTRIBUTION_DOUBLE_TYPE]
)
def test_distribution_metrics_are_merged(kind: str) -> None:
    coder = TUPLES[kind]
    parts = [(2, 10, 3, 7), (1, -4, -4, -4), (1, 9, 9, 9)]
    assert coder.decode(total(kind, *map(coder.encode, parts))) == (4, 15, -4, 9)


@pytest.mark.parametrize("kind", [metric_urns.LATEST_INT64_TYPE, metric_urns.LATEST_DOUBLE_TYPE])
def test_latest_gauge_metric_is_used(kind: str) -> None:
    coder = TUPLES[kind]
    parts = [(5, 50), (9, 90), (7, 70)]
    assert coder.decode(total(kind, *map(coder.encode, parts))) == (9, 90)


def test_string_set_metrics_are_merged() -> None:
    parts = [STRINGS.encode(part) for part in (["b", "a"], [], ["b", "c"])]
    assert list(STRINGS.decode(total(metric_urns.SET_STRING_TYPE, *parts))) == ["a", "b", "c"]


def test_bounded_trie_metrics_are_merged() -> None:
    parts = []
    for path in (("a", "b"), ("a", "c")):
        trie = BoundedTrieData(singleton=path)
        parts.append(trie.to_proto().SerializeToString())
    added = BoundedTrieData.from_proto(
        metrics_pb2.BoundedTrie.FromString(total(metric_urns.BOUNDED_TRIE_TYPE, *parts))
    )
    assert {path[:-1] for path in added.as_trie().flattened()} == {("a", "b"), ("a", "c")}


def histogram(*values: float) -> bytes:
    cell = HistogramData(Histogram(LinearBucket(0, 10, 5)))
    for value in values:
        cell.histogram.record(value)
    return bytes(cell.to_proto().SerializeToString())


def test_histogram_metrics_are_merged() -> None:
    """Values outside of the buckets, such as 99, are counted, too."""
    added = total(metric_urns.HISTOGRAM_TYPE, histogram(1, 11), histogram(12, 99))
    assert metrics_pb2.HistogramValue.FromString(added) == metrics_pb2.HistogramValue.FromString(
        histogram(1, 11, 12, 99)
    )


@pytest.mark.parametrize(
    ("kind", "coder", "expected"),
    [
        (metric_urns.TOP_N_INT64_TYPE, INTEGER, [9, 5, 4, 1]),
        (metric_urns.TOP_N_DOUBLE_TYPE, DOUBLE, [9, 5, 4, 1]),
        (metric_urns.BOTTOM_N_INT64_TYPE, INTEGER, [1, 4, 5, 9]),
        (metric_urns.BOTTOM_N_DOUBLE_TYPE, DOUBLE, [1, 4, 5, 9]),
    ],
)
def test_maximum_and_minimum_metrics_are_merged(
    kind: str, coder: Any, expected: list[float]
) -> None:
    values = IterableCoder(coder)
    parts = [values.encode(part) for part in ([5, 1], [], [9, 4])]
    assert list(values.decode(total(kind, *parts))) == expected


@pytest.mark.parametrize(
    "kind", [metric_urns.DISTRIBUTION_INT64_TYPE, metric_urns.DISTRIBUTION_DOUBLE_TYPE]
)
def test_empty_distribution_metrics_are_merged(kind: str) -> None:
    """Some SDKs then send all four parts, and some send only the count."""
    some = TUPLES[kind].encode((1, 9, 9, 9))
    for empty in (b"\x00", TUPLES[kind].encode((0, 0, 0, 0))):
        assert total(kind, empty, some) == total(kind, some, empty) == some
        assert total(kind, empty, empty) == empty


@pytest.mark.parametrize(
    ("kind", "first", "wrong"),
    [
        ("unheard:of", b"first", b"last"),
        (metric_urns.HISTOGRAM_TYPE, histogram(1), b"\xff"),
    ],
)
def test_unmergeable_metric_is_named_once(
    kind: str, first: bytes, wrong: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    totals = Totals()
    for payload in (first, wrong, wrong):
        totals.add([info(kind, payload, "strange")])
    (kept,) = totals.infos()
    assert kept.payload == first
    (record,) = caplog.records
    assert "strange" in record.getMessage()


def test_metric_types_of_model_can_all_be_merged() -> None:
    """Progress is excluded, because it is a momentary value."""
    types = {value for name, value in vars(metric_urns).items() if name.endswith("_TYPE")}
    assert {kind for kind in types if not is_addable_type(kind)} == {metric_urns.PROGRESS_TYPE}


def test_metrics_with_different_names_types_or_labels_stay_separate() -> None:
    one = INTEGER.encode(1)
    infos = [
        info(metric_urns.SUM_INT64_TYPE, one),
        info(metric_urns.SUM_INT64_TYPE, one, name="other"),
        info(metric_urns.SUM_DOUBLE_TYPE, DOUBLE.encode(1.0)),
    ]
    assert len(totals_of(infos)) == 3


@given(st.lists(st.lists(st.integers(-1000, 1000), min_size=1), min_size=1))
def test_distribution_merged_from_parts_equals_distribution_of_all(parts: list[list[int]]) -> None:
    coder = TUPLES[metric_urns.DISTRIBUTION_INT64_TYPE]

    def described(values: list[int]) -> tuple[int, int, int, int]:
        return len(values), sum(values), min(values), max(values)

    payloads = [coder.encode(described(part)) for part in parts]
    everything = [value for part in parts for value in part]
    added = coder.decode(total(metric_urns.DISTRIBUTION_INT64_TYPE, *payloads))
    assert added == described(everything)


def test_bundle_costs_are_added() -> None:
    payloads = [encode_bundle_costs(seconds, 0.5) for seconds in (0.25, 0.125, 0.5)]
    found = decode_bundle_costs(total(BUNDLE_COSTS_TYPE, *payloads))
    assert found.slot_seconds == 0.875
    assert found.durations is not None and found.durations.count == 3
