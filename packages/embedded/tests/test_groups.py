"""Tests of group input of a stage: small groups are read at once, and large groups lazily."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import apache_beam as beam
import attrs
import pytest
from apache_beam.coders import coder_impl, coders
from apache_beam.transforms import window
from apache_beam.utils import windowed_value
from apache_beam.utils.timestamp import MAX_TIMESTAMP, MIN_TIMESTAMP
from apache_beam.utils.windowed_value import PaneInfo, WindowedValue
from beam_runner_model.chunks import GroupChunk
from beam_runner_worker.errors import HarnessError
from hypothesis import given, settings
from hypothesis import strategies as st
from pieces import Pieces
from random_elements import ANY, GLOBAL, INTERVAL, KV, panes, values

from beam_runner_embedded.claims import ElementClaims
from beam_runner_embedded.groups import GroupDecoder
from beam_runner_embedded.host_errors import HostErrorRecorder
from beam_runner_embedded.lazy import LazyValues


def group_chunk(
    groups: list[tuple[Any, list[Any]]], windows: Any, timestamps: list[int], pane: bytes = b"\x0f"
) -> GroupChunk:
    nested = ANY.get_impl().encode_nested
    return GroupChunk(
        keys=[nested(key) for key, _ in groups],
        windows=windows,
        timestamps=timestamps,
        counts=[len(of_key) for _, of_key in groups],
        values=[memoryview(b"".join(map(nested, of_key))) for _, of_key in groups],
        pane=pane,
    )


def read_groups(chunk: GroupChunk, window_coder: Any) -> list[WindowedValue]:
    coder = coders.TupleCoder((ANY, coders.IterableCoder(ANY)))
    claims = ElementClaims()
    decoder = GroupDecoder(
        coders.WindowedValueCoder(coder, window_coder), claims, HostErrorRecorder()
    )
    seen: list[WindowedValue] = []
    decoder.decode_chunk(chunk, seen.append)
    assert claims.claimed_count == len(seen)
    return seen


@given(
    groups=st.lists(st.tuples(values, st.lists(values, max_size=4)), max_size=10),
    at=st.integers(MIN_TIMESTAMP.micros // 1000, MAX_TIMESTAMP.micros // 1000),
    pane=panes,
)
@settings(max_examples=30)
def test_group_input_is_read(groups: list[tuple[Any, list[Any]]], at: int, pane: PaneInfo) -> None:
    encoded_pane = coder_impl.PaneInfoCoderImpl().encode_nested(pane)
    windows = [window.IntervalWindow(i // 2, 100) for i in range(len(groups))]
    encoded = [INTERVAL.get_impl().encode_nested(w) for w in windows]
    times = [max(at - i, MIN_TIMESTAMP.micros // 1000) for i in range(len(groups))]
    seen = read_groups(group_chunk(groups, encoded, times, encoded_pane), INTERVAL)
    assert seen == [
        windowed_value.create(group, time * 1000, (w,), pane)
        for group, w, time in zip(groups, windows, times, strict=True)
    ]
    seen = read_groups(group_chunk(groups, b"", times), GLOBAL)
    assert [element.value for element in seen] == groups


def test_large_groups_between_small_groups_are_read() -> None:
    large = ["v" * 100] * 1000
    groups = [("a", [1]), ("b", large), ("c", []), ("d", large), ("e", [2, 3])]
    seen = [element.value for element in read_groups(group_chunk(groups, b"", [0] * 5), GLOBAL)]
    assert [type(of_key) for _, of_key in seen] == [list, LazyValues, list, LazyValues, list]
    assert [(key, list(of_key)) for key, of_key in seen] == groups
    assert [(key, list(of_key)) for key, of_key in seen] == groups


def test_group_columns_of_different_length_are_refused() -> None:
    with pytest.raises(HarnessError, match="differ in length"):
        read_groups(group_chunk([("a", [1]), ("b", [2])], b"", [0]), GLOBAL)


def test_group_source_without_coder_is_refused() -> None:
    with pytest.raises(HarnessError, match="KV<key, Iterable<value>>"):
        GroupDecoder(coders.WindowedValueCoder(KV, GLOBAL), ElementClaims(), HostErrorRecorder())


@pytest.mark.parametrize(
    "again",
    [
        lambda v: ANY.decode(ANY.encode(v)),
        lambda v: beam.internal.pickler.loads(beam.internal.pickler.dumps(v)),
    ],
)
def test_lazily_read_group_values_are_written_as_iterables(again: Callable[[Any], Any]) -> None:
    lazy = LazyValues(ANY.get_impl(), ANY.get_impl().encode_nested(1) * 3)
    assert list(again(lazy)) == [1, 1, 1]
    assert list(again((lazy, 2))[0]) == [1, 1, 1]


def test_large_group_values_can_be_read_repeatedly() -> None:
    nested = ANY.get_impl().encode_nested
    pieces = Pieces(nested(1) + nested("two"), nested(3.0))
    chunk = group_chunk([("k", []), ("l", [7])], b"", [0, 0])
    chunk = attrs.evolve(chunk, counts=[3, 1], values=[pieces, chunk.values[1]])
    first, second = (element.value for element in read_groups(chunk, GLOBAL))
    assert second == ("l", [7])
    assert first[0] == "k"
    assert pieces.read == []
    for _ in range(2):
        assert list(first[1]) == [1, "two", 3.0]
    assert pieces.read == [0, 1, 0, 1]
    begun = iter(first[1])
    assert next(begun) == 1
    assert pieces.read[4:] == [0]
