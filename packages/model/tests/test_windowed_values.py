"""Tests that windowed values have the layout that Beam's `WindowedValueCoder` writes."""

from __future__ import annotations

from itertools import accumulate

import pytest
from apache_beam.coders import coders as beam_coders
from apache_beam.transforms.window import IntervalWindow
from apache_beam.utils.timestamp import Timestamp
from apache_beam.utils.windowed_value import PaneInfo, PaneInfoTiming, WindowedValue
from hypothesis import given
from hypothesis import strategies as st

from beam_runner_model.panes import skip_pane
from beam_runner_model.times import END_OF_GLOBAL_WINDOW, MAX_TIMESTAMP
from beam_runner_model.window_coders import SKIP_WINDOW, WindowCoder, encode_interval
from beam_runner_model.windowed_values import (
    TIME_BYTES,
    WINDOWS_AT,
    HeaderReader,
    compute_hold_time,
    copy_value_to_each_window,
    decode_event_times,
    encode_header,
    find_earliest_event_time,
    find_earliest_event_time_in,
    read_event_time,
    read_windows,
    replace_window,
    skip_windows,
)

SKIP = SKIP_WINDOW[WindowCoder.INTERVAL]
WINDOWS = beam_coders.IntervalWindowCoder()
CODER = beam_coders.WindowedValueCoder(beam_coders.BytesCoder(), WINDOWS)
PANES = [
    PaneInfo(True, True, PaneInfoTiming.UNKNOWN, 0, -1),
    PaneInfo(False, False, PaneInfoTiming.EARLY, 300, -1),
    PaneInfo(False, False, PaneInfoTiming.LATE, 300, 2),
]


@st.composite
def windowed(draw: st.DrawFn) -> WindowedValue:
    starts = draw(st.lists(st.integers(-(10**9), 10**9), max_size=3, unique=True))
    places = tuple(IntervalWindow(start, start + draw(st.integers(1, 10**6))) for start in starts)
    time = Timestamp(micros=1000 * draw(st.integers(-(10**12), 10**12)))
    return WindowedValue(draw(st.binary(max_size=5)), time, places, draw(st.sampled_from(PANES)))


def encode(value: WindowedValue) -> bytes:
    encoded: bytes = CODER.get_impl().encode_nested(value)
    return encoded


@given(windowed())
def test_windowed_value_header_is_read_and_skipped_like_beam(value: WindowedValue) -> None:
    data = b"?" * TIME_BYTES + encode(value)
    at = 2 * TIME_BYTES
    windows, pane_at = read_windows(data, at, SKIP)
    assert list(windows) == [WINDOWS.get_impl().encode_nested(each) for each in value.windows]
    assert skip_windows(data, at, SKIP) == pane_at
    end = skip_pane(data, pane_at)
    assert data[end:] == beam_coders.BytesCoder().get_impl().encode_nested(value.value)
    headers = HeaderReader(SKIP)
    assert headers.read(data, at) == windows
    assert headers.size == end - at
    assert headers.known == ({data[at:end]: windows} if windows else {})
    for cut in range(at, end):
        with pytest.raises(IndexError):
            HeaderReader(SKIP).read(data[:cut], at)
    if len(windows) == 1:
        time = value.timestamp.micros // 1000
        assert encode_header(time, windows[0], data[pane_at:end]) == data[TIME_BYTES:end]


@given(windowed())
def test_element_in_several_windows_is_copied_to_each_window(value: WindowedValue) -> None:
    data = encode(value)
    windows, _ = read_windows(data, TIME_BYTES, SKIP)
    expected = [
        encode(WindowedValue(value.value, value.timestamp, (each,), value.pane_info))
        for each in value.windows
    ]
    assert list(copy_value_to_each_window(data, windows)) == expected
    for one, window in zip(expected, windows, strict=True):
        other = b"".join(replace_window(one, WINDOWS_AT + len(window), windows[0]))
        assert other == expected[0]


@given(st.lists(windowed(), min_size=1))
def test_event_times_are_read_without_decoding(values: list[WindowedValue]) -> None:
    elements = [encode(value) for value in values]
    times = [value.timestamp.micros // 1000 for value in values]
    assert [read_event_time(element) for element in elements] == times
    assert decode_event_times([element[:TIME_BYTES] for element in elements]) == times
    assert find_earliest_event_time(elements) == min(times)
    ends = list(accumulate(map(len, elements)))
    assert find_earliest_event_time_in(b"".join(elements), ends) == min(times)


@given(
    st.integers(-50, 50), st.lists(st.tuples(st.integers(-50, 50), st.integers(1, 9)), min_size=1)
)
def test_element_holds_the_watermark_at_most_at_its_first_window_end(
    time: int, spans: list[tuple[int, int]]
) -> None:
    windows = [encode_interval(start, start + size) for start, size in spans]
    last_moments = [start + size - 1 for start, size in spans]
    assert compute_hold_time(time, windows) == min(time, *last_moments)
    assert compute_hold_time(time, [b""]) == time
    assert compute_hold_time(MAX_TIMESTAMP, [b""]) == END_OF_GLOBAL_WINDOW


def test_header_reader_cache_is_bounded() -> None:
    headers = HeaderReader(SKIP)
    for number in range(headers._MOST + 5):
        place = (IntervalWindow(number, number + 1),)
        headers.read(encode(WindowedValue(b"", 0, place)), TIME_BYTES)
    assert len(headers.known) <= headers._MOST


@pytest.mark.parametrize("coder", WindowCoder)
def test_invalid_window_count_raises_index_error(coder: WindowCoder) -> None:
    """Checks the limit on the number of windows. Without the limit, the call takes hours if windows
    have no bytes.
    """
    data = b"\x7f" * 100
    for read in (read_windows, skip_windows):
        with pytest.raises(IndexError):
            read(data, 0, SKIP_WINDOW[coder])
