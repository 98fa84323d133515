"""Facts about data add up; what is unknown of one part is unknown of the whole."""

from __future__ import annotations

from beam_runner_engine.values.facts import DataFacts
from beam_runner_engine.values.windows import GLOBAL_WINDOW, IntervalWindow

WINDOW = IntervalWindow(0, 10)


def test_facts_add_up() -> None:
    one = DataFacts(2, 20, 5, 1, frozenset({WINDOW}), work=7)
    other = DataFacts(3, 30, 4, 1, frozenset({GLOBAL_WINDOW}), work=8)
    assert one.merged(other) == DataFacts(5, 50, 4, 1, frozenset({WINDOW, GLOBAL_WINDOW}), 15)
    assert one.merged(DataFacts(shard=1, work=0)) == one


def test_what_differs_or_is_unknown_is_unknown_of_the_whole() -> None:
    one = DataFacts(2, 20, 5, 1, None, work=7)
    merged = one.merged(DataFacts(1, 1, 9, 2, frozenset({WINDOW})))
    assert merged == DataFacts(3, 21, 5, None, None)
