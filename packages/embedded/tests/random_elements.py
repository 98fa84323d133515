"""Random windowed values and their coders, for tests of a stage's edges."""

from __future__ import annotations

from typing import Any

from apache_beam.coders import coders
from apache_beam.transforms import window
from apache_beam.utils import windowed_value
from apache_beam.utils.timestamp import MAX_TIMESTAMP, MIN_TIMESTAMP
from apache_beam.utils.windowed_value import PANE_INFO_UNKNOWN, PaneInfo
from hypothesis import strategies as st

ANY = coders.FastPrimitivesCoder()
KV = coders.TupleCoder((ANY, ANY))
GLOBAL = coders.GlobalWindowCoder()
INTERVAL = coders.IntervalWindowCoder()

values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.text()
    | st.binary()
    | st.floats(allow_nan=False),
    lambda inner: st.lists(inner, max_size=3) | st.tuples(inner, inner),
    max_leaves=5,
)
micros = st.one_of(
    st.integers(MIN_TIMESTAMP.micros, MAX_TIMESTAMP.micros),
    st.integers(-5000, 5000),
    st.sampled_from([MIN_TIMESTAMP.micros, MAX_TIMESTAMP.micros, 0, -1, -999, -1000, -1001]),
)
intervals = st.builds(
    lambda start, size: window.IntervalWindow(start, start + size),
    st.integers(-100, 100),
    st.integers(1, 50),
)
panes = st.sampled_from(
    [
        PANE_INFO_UNKNOWN,
        PaneInfo(True, False, 0, 0, -1),
        PaneInfo(False, False, 0, 3, -1),
        PaneInfo(False, True, 2, 300, 200),
    ]
)


def draw_elements(windows: st.SearchStrategy[tuple[Any, ...]], value: Any = values) -> Any:
    """Draws lists of windowed values, which often have the header of the previous value."""
    header = st.tuples(micros, windows, panes)
    run = st.tuples(header, st.lists(value, min_size=1, max_size=4))
    return st.lists(run, max_size=12).map(
        lambda runs: [
            windowed_value.create(v, at, w, pane) for (at, w, pane), vs in runs for v in vs
        ]
    )


global_windows = st.just((window.GlobalWindow(),))
interval_windows = st.lists(intervals, min_size=1, max_size=3, unique=True).map(tuple)
