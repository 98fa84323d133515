"""Tests that a runner that needs the windows of data gets elements window by window."""

from __future__ import annotations

from typing import Any

import pytest
from apache_beam.coders import coders
from apache_beam.transforms import window
from apache_beam.utils import windowed_value
from beam_runner_model.stages import OutputKind
from beam_runner_model.windowed_values import compute_hold_time
from chunks import decode_elements
from hypothesis import given, settings
from hypothesis import strategies as st
from random_elements import ANY, GLOBAL, INTERVAL, draw_elements, global_windows, intervals
from test_edges import write

several = st.lists(intervals, min_size=1, max_size=3, unique=True).map(tuple)


@pytest.mark.parametrize(
    ("window_coder", "windows"), [(GLOBAL, global_windows), (INTERVAL, several)]
)
@given(data=st.data())
@settings(max_examples=30)
def test_window_sink_chunks_have_one_window_each(
    window_coder: coders.Coder, windows: Any, data: Any
) -> None:
    coder = coders.WindowedValueCoder(ANY, window_coder)
    given_ = data.draw(draw_elements(windows))
    expected: dict[bytes, list[Any]] = {}
    for e in given_:
        for w in e.windows:
            one = windowed_value.create(e.value, e.timestamp_micros, (w,), e.pane_info)
            expected.setdefault(window_coder.get_impl().encode_nested(w), []).append(one)
    chunks = write(coder, OutputKind.ELEMENTS, given_, windows=True, min_timestamp=True)
    found = {}
    for chunk in chunks:
        found[chunk.window] = decode_elements(coder.get_impl(), chunk)
        times = [e.timestamp_micros // 1000 for e in expected[chunk.window]]
        assert chunk.min_timestamp == compute_hold_time(min(times), [chunk.window])
        assert chunk.count == len(times) == len(chunk.ends)
    assert len(found) == len(chunks)
    millis = coders.WindowedValueCoder(ANY, window_coder).get_impl()
    assert {w: list(map(millis.encode_nested, es)) for w, es in found.items()} == {
        w: list(map(millis.encode_nested, es)) for w, es in expected.items()
    }


def test_window_sink_writes_full_chunks() -> None:
    coder = coders.WindowedValueCoder(coders.BytesCoder(), INTERVAL)
    windows = [(window.IntervalWindow(n, n + 1),) for n in range(2)]
    given_ = [windowed_value.create(bytes(300_000), 0, windows[n % 2]) for n in range(10)]
    chunks = write(coder, OutputKind.ELEMENTS, given_, windows=True)
    assert [chunk.count for chunk in chunks] == [2, 2, 2, 2, 1, 1]
