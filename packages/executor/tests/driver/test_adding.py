"""Metrics of the same name add up as their type says."""

from __future__ import annotations

from typing import Any

import pytest
from apache_beam.coders import FloatCoder, IterableCoder, StrUtf8Coder, TupleCoder, VarIntCoder
from apache_beam.metrics.cells import BoundedTrieData
from beam_runner_urns import metrics as metric_urns
from beam_runner_worker.records import MonitoringInfo
from hypothesis import given
from hypothesis import strategies as st

from beam_spark_executor import _protos
from beam_spark_executor.driver.adding import add_up

INTEGER, DOUBLE, STRINGS = VarIntCoder(), FloatCoder(), IterableCoder(StrUtf8Coder())


def info(kind: str, payload: bytes, name: str = "n") -> MonitoringInfo:
    return MonitoringInfo("beam:metric:user:x:v1", kind, (("NAME", name),), payload)


def total(kind: str, *payloads: bytes) -> bytes:
    (only,) = add_up([info(kind, payload) for payload in payloads]).values()
    return only.payload


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
def test_sums(kind: str, coder: Any, values: list[Any], expected: Any) -> None:
    assert coder.decode(total(kind, *map(coder.encode, values))) == expected


@pytest.mark.parametrize(
    "kind", [metric_urns.DISTRIBUTION_INT64_TYPE, metric_urns.DISTRIBUTION_DOUBLE_TYPE]
)
def test_distributions(kind: str) -> None:
    coder = TUPLES[kind]
    parts = [(2, 10, 3, 7), (1, -4, -4, -4), (1, 9, 9, 9)]
    assert coder.decode(total(kind, *map(coder.encode, parts))) == (4, 15, -4, 9)


@pytest.mark.parametrize("kind", [metric_urns.LATEST_INT64_TYPE, metric_urns.LATEST_DOUBLE_TYPE])
def test_the_latest_gauge_stands(kind: str) -> None:
    coder = TUPLES[kind]
    parts = [(5, 50), (9, 90), (7, 70)]
    assert coder.decode(total(kind, *map(coder.encode, parts))) == (9, 90)


def test_string_sets() -> None:
    parts = [STRINGS.encode(part) for part in (["b", "a"], [], ["b", "c"])]
    assert list(STRINGS.decode(total(metric_urns.SET_STRING_TYPE, *parts))) == ["a", "b", "c"]


def test_bounded_tries() -> None:
    parts = []
    for path in (("a", "b"), ("a", "c")):
        trie = BoundedTrieData(singleton=path)
        parts.append(trie.to_proto().SerializeToString())
    added = BoundedTrieData.from_proto(
        _protos.BoundedTrie.FromString(total(metric_urns.BOUNDED_TRIE_TYPE, *parts))
    )
    assert {path[:-1] for path in added.as_trie().flattened()} == {("a", "b"), ("a", "c")}


def test_of_an_unknown_type_the_last_stands() -> None:
    assert total("unheard:of", b"first", b"last") == b"last"


def test_other_names_types_and_labels_stay_apart() -> None:
    one = INTEGER.encode(1)
    infos = [
        info(metric_urns.SUM_INT64_TYPE, one),
        info(metric_urns.SUM_INT64_TYPE, one, name="other"),
        info(metric_urns.SUM_DOUBLE_TYPE, DOUBLE.encode(1.0)),
    ]
    assert len(add_up(infos)) == 3


@given(st.lists(st.lists(st.integers(-1000, 1000), min_size=1), min_size=1))
def test_a_distribution_in_parts_is_the_distribution_of_all(parts: list[list[int]]) -> None:
    coder = TUPLES[metric_urns.DISTRIBUTION_INT64_TYPE]

    def described(values: list[int]) -> tuple[int, int, int, int]:
        return len(values), sum(values), min(values), max(values)

    payloads = [coder.encode(described(part)) for part in parts]
    everything = [value for part in parts for value in part]
    added = coder.decode(total(metric_urns.DISTRIBUTION_INT64_TYPE, *payloads))
    assert added == described(everything)
