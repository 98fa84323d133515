"""Steps whose groups fire early, at times that the runner chooses. The combined content of all panes is the same."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import apache_beam as beam
import attrs
from apache_beam.transforms import trigger as triggers
from apache_beam.transforms.combiners import ToListCombineFn
from apache_beam.transforms.trigger import AccumulationMode
from apache_beam.transforms.window import TimestampedValue
from apache_beam.utils.timestamp import Timestamp
from rules import told
from typed import Collection, keyed, not_merging, only_here, only_on_oracle
from values import Kind, render
from windows import Windows, window_fn, window_into

_TRIGGERS = {
    "each": triggers.Repeatedly(triggers.AfterCount(1)),
    "thirds": triggers.Repeatedly(triggers.AfterCount(3)),
    "early": triggers.AfterWatermark(early=triggers.AfterCount(2)),
    "early and late": triggers.AfterWatermark(
        early=triggers.AfterProcessingTime(1), late=triggers.AfterCount(1)
    ),
    "clock": triggers.Repeatedly(triggers.AfterProcessingTime(1)),
    "any": triggers.Repeatedly(
        triggers.AfterAny(triggers.AfterCount(5), triggers.AfterProcessingTime(3600))
    ),
    "always": triggers.Always(),
}


def random_early(rng: random.Random) -> dict[str, Any]:
    return {
        "trigger": rng.choice([*_TRIGGERS]),
        "accumulating": rng.random() < 0.4,
        "combine": rng.random() < 0.3,
    }


def early(one: Collection, *, trigger: str, accumulating: bool, combine: bool) -> Collection:
    """Groups with early panes; then all values of all panes of a key and window, each once if they accumulate."""
    pairs = keyed(not_merging(one))
    mode = AccumulationMode.ACCUMULATING if accumulating else AccumulationMode.DISCARDING
    windows = beam.WindowInto(
        window_fn(pairs.windows.fn),
        trigger=_TRIGGERS[trigger],
        accumulation_mode=mode,
        allowed_lateness=_LATENESS,
    )
    texts = pairs.map("Texts", _text, ("tuple", "str", "str"), pairs.kind)
    # The oracle has no clock for triggers.
    fired = only_here(texts).apply("Early", windows, texts.kind)
    grouping = beam.CombinePerKey(ToListCombineFn()) if combine else beam.GroupByKey()
    panes = fired.apply("Panes", grouping, ("tuple", "str", ("bag", "str")))
    place: Kind = ("tuple", ("tuple", "str", "str"), "str")
    single = beam.FlatMap(_singly).with_output_types(tuple[tuple[str, str], str])
    values = panes.apply("Values", single, place)
    again = beam.WindowInto(window_fn(pairs.windows.fn))
    past = only_on_oracle(texts).apply("Again", again, texts.kind)
    past = past.map("AsPanes", _pane_of, panes.kind).apply("Singly", single, place)
    both = [
        each.apply(f"Whole{n}", window_into(Windows()), place).pc
        for n, each in enumerate((values, past))
    ]
    flat = tuple(both) | f"{one.label}/Both" >> beam.Flatten()
    values = attrs.evolve(values, pc=flat, windows=Windows())
    groups = values.apply("Group", beam.GroupByKey(), ("tuple", place[1], ("bag", "str")))
    return groups.map("All", _all_of, groups.kind, accumulating)


_LATENESS = 1_000_000
"""In seconds: nothing is late, whatever fires."""


def _pane_of(pair: tuple[str, str]) -> tuple[str, list[str]]:
    return pair[0], [pair[1]]


def _text(pair: tuple[Any, Any], kind: Kind) -> tuple[str, str]:
    return render(kind[1], pair[0]), render(kind[2], pair[1])[-80:]


def _singly(pair: Any, window: Any = beam.DoFn.WindowParam) -> Iterator[TimestampedValue]:
    key, values = pair
    last = Timestamp(micros=window.max_timestamp().micros // 1000 * 1000)
    for value in values:
        yield TimestampedValue(((key, told(window)), value), last)


def _all_of(pair: Any, accumulating: bool) -> Any:
    place, values = pair
    return place, sorted(set(values) if accumulating else values)
