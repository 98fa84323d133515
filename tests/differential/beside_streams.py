"""Readers of scripts that combine elements and read all elements of the window as a side input, and a
model of their output.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable
from typing import Any

import apache_beam as beam
import attrs
import sink
from apache_beam import pvalue
from apache_beam.transforms.window import WindowFn
from apache_beam.utils.timestamp import Timestamp
from summaries import Offset
from typed import Collection
from windows import COMBINERS, Windows, window_fn


@attrs.frozen
class Combining:
    """Combination of a reader; times in seconds."""

    fn: tuple[Any, ...]
    combiner: str


def random_combining(rng: random.Random) -> Combining:
    # In overlapping windows, an element that waits for the later window holds the earlier window
    # open.
    fns = [("fixed", 20, 0), ("fixed", 60, 7), ("fixed", 7, 3), ("sliding", 5, 15, 0)]
    return Combining(rng.choice(fns), rng.choice(list(COMBINERS)))


def build(pairs: Any, combining: Combining, folder: str, label: str) -> None:
    """Adds the reader."""
    combiner = COMBINERS[combining.combiner]
    windows = beam.WindowInto(window_fn(combining.fn), timestamp_combiner=combiner)
    windowed = pairs | f"{label}/Windows" >> windows
    numbers = windowed | f"{label}/Numbers" >> beam.Map(_second).with_output_types(int)
    combine = beam.CombinePerKey(Offset(), pvalue.AsIter(numbers))
    texts = windowed | f"{label}/Combine" >> combine
    texts = texts | f"{label}/Tell" >> beam.MapTuple(keyed_text).with_output_types(str)
    sink.keep(Collection(texts, "str", Windows(), label), folder, label)


def combined(events: Iterable[tuple[Any, ...]], combining: Combining) -> Counter[str]:
    """Returns the output of the reader: for each key of a window all elements that were not late."""
    watermark, timely = -1, dict[Any, list[tuple[str, int]]]()
    for event in events:
        match event:
            case ("element", key, number, time):
                context = WindowFn.AssignContext(Timestamp(time))
                for window in window_fn(combining.fn).assign(context):
                    if watermark <= last_milliseconds(window):
                        timely.setdefault(window, []).append((key, number))
            case ("watermark", time):
                watermark = 1000 * time
    rows = Counter[str]()
    for window, pairs in timely.items():
        # Beam writes elements that it combines before the shuffle at the window's end, beyond the
        # window's last timestamp.
        at_end = combining.combiner == "end"
        micros = 1000 * last_milliseconds(window) if at_end else window.end.micros
        for key in {key for key, _ in pairs}:
            total = sum(number for each, number in pairs if each == key)
            text = keyed_text(key, f"{total} {[sorted(number for _, number in pairs)]}")
            rows[f"str {text!r} @{sink.told(f'{micros} {window}')} pane 1 0 0 11"] += 1
    return rows


def last_milliseconds(window: Any) -> int:
    """Returns the last timestamp in a window."""
    last: int = window.max_timestamp().micros // 1000
    return last


def _second(pair: tuple[str, int]) -> int:
    return pair[1]


def keyed_text(key: str, text: str) -> str:
    """Returns the output text of a key."""
    return f"{key} {text}"
