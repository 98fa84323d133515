from __future__ import annotations

from typing import Any

import pytest
from apache_beam import coders
from beam_runner_model.bundle_costs import BUNDLE_COSTS_TYPE, BundleCosts, encode_bundle_costs
from beam_runner_model.jobs import MetricCell
from beam_runner_urns import metrics as urns
from hypothesis import given
from hypothesis import strategies as st

from beam_runner_jobservices.metric_values import Distribution, LatestValue, decode_metric_value

INT64 = st.integers(-(2**63), 2**63 - 1)


def value(kind: str, payload: bytes) -> Any:
    return decode_metric_value(MetricCell("urn", kind, payload))


def varint(number: int) -> bytes:
    return bytes(coders.VarIntCoder().encode(number))


@given(INT64)
def test_sum_metrics_are_decoded(number: int) -> None:
    assert value(urns.SUM_INT64_TYPE, varint(number)) == number


@given(st.floats(allow_nan=False))
def test_sum_metrics_of_doubles_are_decoded(number: float) -> None:
    assert value(urns.SUM_DOUBLE_TYPE, coders.FloatCoder().encode(number)) == number


@given(st.tuples(INT64, INT64, INT64, INT64))
def test_distribution_metrics_are_decoded(four: tuple[int, int, int, int]) -> None:
    payload = b"".join(map(varint, four))
    assert value(urns.DISTRIBUTION_INT64_TYPE, payload) == Distribution(*four)


def test_latest_value_metrics_are_decoded() -> None:
    assert value(urns.LATEST_INT64_TYPE, varint(5) + varint(-7)) == LatestValue(5, -7)


@given(st.lists(st.floats(allow_nan=False)))
def test_progress_metrics_are_decoded(numbers: list[float]) -> None:
    payload = coders.IterableCoder(coders.FloatCoder()).encode(numbers)
    assert value(urns.PROGRESS_TYPE, payload) == tuple(numbers)


@given(st.sets(st.text()))
def test_string_set_metrics_are_decoded(texts: set[str]) -> None:
    payload = coders.IterableCoder(coders.StrUtf8Coder()).encode(sorted(texts))
    assert value(urns.SET_STRING_TYPE, payload) == texts


@given(
    st.sampled_from(
        [BUNDLE_COSTS_TYPE, *sorted(v for k, v in vars(urns).items() if k.endswith("_TYPE"))]
    ),
    st.binary(),
)
def test_invalid_metric_payload_decodes_to_none(kind: str, payload: bytes) -> None:
    found = value(kind, payload)
    # Random bytes that can be decoded have the same value each time.
    assert found is None or repr(found) == repr(value(kind, payload))


@pytest.mark.parametrize("payload", [b"", b"\xff" * 11])
def test_metric_payload_with_unterminated_varint_decodes_to_none(payload: bytes) -> None:
    assert value(urns.SUM_INT64_TYPE, payload) is None


def test_costs_of_bundles_are_decoded() -> None:
    payload = encode_bundle_costs(2.0, 1.5, 4096, is_finished=False)
    assert value(BUNDLE_COSTS_TYPE, payload) == BundleCosts(2.0, 1.5, 4096)
    assert value(BUNDLE_COSTS_TYPE, b"\xff" * 48) is None
